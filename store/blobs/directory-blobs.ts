/**
 * Blobs as files of a local directory: `<directory>/ab/cd/<sha256>`, 65,536 folders, so that none grows too large.
 *
 * A blob appears by one rename, after its bytes are on the disk: a process killed at any instant leaves the whole blob or none. `put` resolves after the folder that
 * holds the name is on the disk too, so that power loss takes nothing that was acknowledged. Unfinished files lie in `<directory>/unfinished`; a later open removes
 * those too old to belong to a running process. Any number of processes may share the directory.
 */
import { open, readFile, readdir, rename, stat, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { blobMissing, blobName, isBlobName, verified } from './blob-name.ts';
import type { BlobStore } from './blob-store.ts';
import { hasCode, readError, writeError } from './disk-error.ts';
import { fanoutBelow, makeDurable, type Fanout } from './durable-folders.ts';
import { openGate } from './open-gate.ts';

export interface DirectoryBlobsOptions {
  /** Absolute path; made when missing. */
  readonly directory: string;
  readonly clock: Clock;
  readonly random: Random;
  /** How long one operation may wait for the disk. Default 60,000 ms. */
  readonly deadlineMs?: number;
}

/** No put lasts longer than its deadline, so an unfinished file older than this was left by a process that died. */
const ABANDONED_AFTER_MS = 3_600_000;

/** Opens (and makes) the directory. Errors: `not_writable`, `disk_full`, `store_unavailable`. */
export async function openDirectoryBlobs(options: DirectoryBlobsOptions): Promise<BlobStore> {
  const { directory, clock, random } = options;
  const unfinished = join(directory, 'unfinished');
  try {
    await makeDurable(unfinished);
    await removeAbandoned(unfinished, clock.nowMicros() / 1000 - ABANDONED_AFTER_MS);
  } catch (error) {
    throw writeError(error, 'open the blob store', directory);
  }

  const gate = openGate('the blob directory', clock, options.deadlineMs ?? 60_000);
  const folders = fanoutBelow(directory);
  const pathOf = (sha256: string): string => join(directory, sha256.slice(0, 2), sha256.slice(2, 4), sha256);
  const unfinishedFile = (): string => join(unfinished, Buffer.from(random.bytes(new Uint8Array(16))).toString('hex'));

  return {
    put: (content, mediaType, signal) =>
      gate.run('store a blob', signal, async (inner) => {
        const sha256 = blobName(content);
        try {
          await store(content, pathOf(sha256), unfinishedFile(), folders, inner);
        } catch (error) {
          throw writeError(error, 'store a blob', directory);
        }
        return { sha256, bytes: content.length, mediaType };
      }),

    get: (sha256, signal) =>
      gate.run('read a blob', signal, async (inner) => {
        if (!isBlobName(sha256)) throw blobMissing(sha256);
        try {
          return verified(await readFile(pathOf(sha256), { signal: inner }), sha256);
        } catch (error) {
          throw hasCode(error, 'ENOENT') ? blobMissing(sha256) : readError(error, 'read a blob', directory);
        }
      }),

    has: (sha256, signal) =>
      gate.run('look for a blob', signal, async () => {
        try {
          return isBlobName(sha256) && (await sizeOf(pathOf(sha256))) !== null;
        } catch (error) {
          throw readError(error, 'look for a blob', directory);
        }
      }),

    close: () => gate.close(),
  };
}

/** Writes the blob unless a file of its size is there; a file of another size is damaged and is replaced. */
async function store(content: Uint8Array, path: string, temporary: string, folders: Fanout, signal: AbortSignal): Promise<void> {
  const folder = dirname(path);
  if ((await sizeOf(path)) !== content.length) {
    await folders.ensure(folder);
    await writeThenRename(temporary, path, content, signal);
  }
  // Also when the file was there already: another process may have renamed it a moment ago and not yet made the name durable.
  await folders.settle(folder);
}

async function writeThenRename(temporary: string, path: string, content: Uint8Array, signal: AbortSignal): Promise<void> {
  try {
    const file = await open(temporary, 'wx', 0o640);
    try {
      await file.writeFile(content);
      // Once the caller was told of an abort it may change `content`: what was written after that must never get the name.
      signal.throwIfAborted();
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await removeIfThere(temporary).catch(() => undefined);
    throw error;
  }
}

/** Size in bytes of the file, or null when there is none. */
async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null;
    throw error;
  }
}

async function removeAbandoned(unfinished: string, olderThanMs: number): Promise<void> {
  for (const name of await readdir(unfinished)) {
    const path = join(unfinished, name);
    const found = await stat(path).catch(() => null);
    if (found !== null && found.mtimeMs < olderThanMs) await removeIfThere(path);
  }
}

async function removeIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
  }
}
