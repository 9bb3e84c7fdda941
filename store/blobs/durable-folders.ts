/** Folders whose entries survive power loss: a name is durable once its folder has been fsynced. */
import { mkdir, open, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { hasCode } from './disk-error.ts';

/** Makes the entries of a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  let handle: FileHandle;
  try {
    handle = await open(folder, 'r');
  } catch (error) {
    // Windows opens no folders; there a rename is journalled by the file system.
    if (process.platform === 'win32') return;
    throw error;
  }
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Makes `folder` and its missing parents, each of them durable. */
export async function makeDurable(folder: string): Promise<void> {
  const first = await mkdir(folder, { recursive: true });
  if (first === undefined) return;
  for (let made = folder; ; made = dirname(made)) {
    await syncFolder(dirname(made));
    if (made === first || made === dirname(made)) return;
  }
}

export interface Fanout {
  /** Makes the two folders of a file. */
  ensure(folder: string): Promise<void>;
  /** Makes the entries of `folder` durable, and, once per process, the folder itself, which another process may have made a moment ago. */
  settle(folder: string): Promise<void>;
}

/** Two levels of folders below `root`. `root` itself is never made here: when it has vanished, a disk was unmounted, and what lies underneath is not the store. */
export function fanoutBelow(root: string): Fanout {
  const settled = new Set<string>();
  return {
    async ensure(folder) {
      await makeOne(dirname(folder));
      await makeOne(folder);
    },
    async settle(folder) {
      if (settled.has(folder)) return syncFolder(folder);
      await Promise.all([folder, dirname(folder), root].map(syncFolder));
      settled.add(folder);
    },
  };
}

async function makeOne(folder: string): Promise<void> {
  try {
    await mkdir(folder);
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error;
  }
}
