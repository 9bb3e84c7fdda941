/**
 * The file of API keys. It holds no secret that could be used (only hashes), yet who may write it decides who gets in: it is made for its owner only, written whole
 * beside its place and moved there, so that a reader sees the old file or the new one, and changed by one program at a time.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { keysFileSchema, type KeyRecord } from './key-record.ts';

const OWNER_ONLY = 0o600;
const LOCK_WAIT_MS = 10_000;
const LOCK_POLL_MS = 50;

/** All keys, also those that were revoked or have expired; null when there is no file. Throws `config_invalid` for a file that is damaged or that others may write. */
export async function readKeysFile(file: string): Promise<readonly KeyRecord[] | null> {
  let text: string;
  try {
    const { mode } = await stat(file);
    if ((mode & 0o022) !== 0)
      throw new TapedeckError('config_invalid', `the file of keys ${file} can be written by others; run: chmod 600 ${file}`);
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (error instanceof TapedeckError) throw error;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new TapedeckError('config_invalid', `the file of keys ${file} cannot be read`, { cause: error });
  }
  return parseKeys(text, file);
}

/** The error names fields and never repeats their values. */
export function parseKeys(text: string, file: string): readonly KeyRecord[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new TapedeckError('config_invalid', `the file of keys ${file} is not JSON; put back a copy, or remove it and make new keys`);
  }
  const parsed = keysFileSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.slice(0, 5).map((issue) => `${issue.path.join('.') || 'file'}: ${issue.message}`);
    throw new TapedeckError('config_invalid', `the file of keys ${file} is wrong: ${problems.join('; ')}`);
  }
  const { keys } = parsed.data;
  if (new Set(keys.map(({ id }) => id)).size !== keys.length)
    throw new TapedeckError('config_invalid', `the file of keys ${file} holds the same id twice; remove one of them`);
  return keys;
}

/** Reads, changes and writes the file while nobody else does. Makes file and folder when they are not there. */
export async function changeKeysFile(
  file: string,
  clock: Clock,
  change: (keys: readonly KeyRecord[]) => readonly KeyRecord[],
): Promise<readonly KeyRecord[]> {
  await mkdir(dirname(file), { recursive: true });
  const release = await lock(`${file}.lock`, clock);
  try {
    const keys = change((await readKeysFile(file)) ?? []);
    await writeWhole(file, `${JSON.stringify({ version: 1, keys }, null, 2)}\n`);
    return keys;
  } finally {
    await release();
  }
}

async function writeWhole(file: string, text: string): Promise<void> {
  const draft = `${file}.${process.pid}.${randomBytes(6).toString('hex')}`;
  try {
    const handle = await open(draft, 'wx', OWNER_ONLY);
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(draft, file);
    const folder = await open(dirname(file), 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch (cause) {
    await rm(draft, { force: true });
    throw new TapedeckError('not_writable', `the file of keys ${file} cannot be written`, { cause });
  }
}

async function lock(path: string, clock: Clock): Promise<() => Promise<void>> {
  const end = clock.monotonicMs() + LOCK_WAIT_MS;
  for (;;) {
    try {
      const handle = await open(path, 'wx', OWNER_ONLY);
      await handle.close();
      return () => rm(path, { force: true });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== 'EEXIST')
        throw new TapedeckError('not_writable', `the folder of ${path} cannot be written`, { cause });
      if (clock.monotonicMs() > end)
        throw new TapedeckError('not_writable', `another program changes the keys; if none does, remove ${path}`, { cause });
      await clock.sleep(LOCK_POLL_MS);
    }
  }
}
