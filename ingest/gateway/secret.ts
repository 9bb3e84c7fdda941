/** The secret that signs keys: given by a setting (the same one for every gateway), or made once and kept in the data folder, for its owner only. */
import { randomBytes } from 'node:crypto';
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { TapedeckError } from '../../base/errors.ts';

const BYTES = 32;

/** `given` wins. Otherwise the file is read, or made when it is not there: two processes that start together end with the same secret. */
export async function loadSecret(file: string, given?: string): Promise<Uint8Array> {
  if (given !== undefined) return Buffer.from(given, 'utf8');
  return (await readSecret(file)) ?? (await makeSecret(file));
}

async function readSecret(file: string): Promise<Uint8Array | null> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new TapedeckError('not_writable', `the gateway's secret ${file} cannot be read`, { cause: error });
  }
  const secret = Buffer.from(text.trim(), 'hex');
  if (secret.length !== BYTES) {
    throw new TapedeckError(
      'config_invalid',
      `the gateway's secret ${file} must hold ${2 * BYTES} hexadecimal digits; remove it, and all keys end`,
    );
  }
  const { mode } = await stat(file);
  if ((mode & 0o077) !== 0) {
    throw new TapedeckError('config_invalid', `the gateway's secret ${file} can be read by others; run: chmod 600 ${file}`);
  }
  return secret;
}

/** Written whole beside its place and linked there: nobody ever reads half of it, and the first one wins. */
async function makeSecret(file: string): Promise<Uint8Array> {
  await mkdir(dirname(file), { recursive: true });
  const secret = randomBytes(BYTES);
  const draft = `${file}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', 0o600);
    try {
      await handle.writeFile(`${secret.toString('hex')}\n`);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await link(draft, file);
    return secret;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') {
      throw new TapedeckError('not_writable', `the gateway's secret ${file} cannot be written`, { cause: error });
    }
    return (await readSecret(file)) as Uint8Array;
  } finally {
    await rm(draft, { force: true });
  }
}
