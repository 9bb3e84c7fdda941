/** The state file of a tail: replaced as a whole, durable before anything relies on it. */
import { open, readFile, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { TapedeckError } from '../../base/errors.ts';
import { tailState, type TailState, type Target } from './place.ts';

/**
 * The state, or a fresh one when there is no file. Throws `config_invalid` when it belongs to another target or cannot be read: going on without it would be safe, as
 * everything sent again is recognised, but would hide that something is wrong.
 */
export async function readState(path: string, target: Target): Promise<TailState> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw new TapedeckError('not_writable', `cannot read ${path}: ${error.code ?? 'unknown error'}`, { cause: error });
  });
  if (text === null) return { version: 1, target, runs: [], places: [] };
  const parsed = tailState.safeParse(jsonOf(text));
  if (!parsed.success)
    throw new TapedeckError(
      'config_invalid',
      `${path} is not a state file of this version: remove it to begin again (nothing is stored twice), or name another with --state`,
    );
  const { target: known } = parsed.data;
  if (known.url !== target.url || known.project !== target.project || known.run !== target.run)
    throw new TapedeckError(
      'config_invalid',
      `${path} belongs to ${JSON.stringify(known)}: name another state file with --state for ${JSON.stringify(target)}`,
    );
  return parsed.data;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Writes beside, syncs, renames, syncs the folder. Throws `disk_full`, `not_writable`; then the older state is still there. */
export async function writeState(path: string, state: TailState): Promise<void> {
  const draft = `${path}.new`;
  try {
    const file = await open(draft, 'w');
    try {
      await file.writeFile(JSON.stringify(state));
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
    await syncFolder(dirname(path));
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    const { code } = error as NodeJS.ErrnoException;
    throw new TapedeckError(
      code === 'ENOSPC' ? 'disk_full' : 'not_writable',
      `cannot write ${path}: ${code ?? 'unknown error'}; name another place with --state`,
      {
        cause: error,
      },
    );
  }
}

/** Some file systems do not let a folder be synced; the rename is then as durable as they make it. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
