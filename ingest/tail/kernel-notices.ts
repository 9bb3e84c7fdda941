/** The kernel's notices about folders (inotify and the like), one watch per folder. Where they cannot be had, `blind` says why. */
import { watch, type FSWatcher } from 'node:fs';

export type KernelNotices = {
  follow(folder: string): void;
  leave(folder: string): void;
  readonly blind: string | null;
  close(): void;
};

/** Kernel watches used at most; further folders are swept only. */
const MAX_WATCHES = 8192;

export function kernelNotices(onEvent: (type: string, folder: string, name: string | null) => void): KernelNotices {
  const watchers = new Map<string, FSWatcher>();
  let blind: string | null = null;
  let isClosed = false;
  const leave = (folder: string): void => {
    watchers.get(folder)?.close();
    watchers.delete(folder);
  };
  return {
    follow(folder) {
      if (watchers.has(folder) || isClosed) return;
      if (watchers.size >= MAX_WATCHES) {
        blind ??= `more than ${MAX_WATCHES} folders`;
        return;
      }
      try {
        const watcher = watch(folder, { persistent: true }, (type, name) => onEvent(type, folder, name));
        watcher.on('error', () => leave(folder));
        watchers.set(folder, watcher);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'ENOENT' || code === 'ENOTDIR') return;
        const isFull = code === 'ENOSPC' || code === 'EMFILE';
        blind ??= isFull ? 'the limit of watches is reached (fs.inotify.max_user_watches)' : `watching failed (${code ?? 'unknown'})`;
      }
    },
    leave,
    get blind() {
      return blind;
    },
    close() {
      isClosed = true;
      for (const folder of watchers.keys()) leave(folder);
    },
  };
}
