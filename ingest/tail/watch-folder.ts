/**
 * Notices files of a folder that appear and grow: the kernel's notices where they can be had (one watch per folder), and a slow sweep over everything, which finds what
 * notices miss: network folders, folders beyond the kernel's limit of watches, and what happened between two of them.
 */
import type { Dirent } from 'node:fs';
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { kernelNotices } from './kernel-notices.ts';

export type FolderWatch = {
  /** Looks at everything; resolves with all candidates there are. */
  sweep(): Promise<readonly string[]>;
  /** Paths that changed since they were last taken; taking them removes them. */
  take(limit: number): string[];
  put(path: string): void;
  readonly pending: number;
  /** Resolves when something changed, or at once when something is pending. */
  changed(): Promise<void>;
  /** Why some folders are not watched, or null. They are swept. */
  readonly blind: string | null;
  close(): void;
};

/** Files of lines, also rotated and compressed ones, and hosted pages. */
const CANDIDATE = /\.jsonl([.-][\w.:-]*)?$|(^|\/)rollouts_raw\.json$/;

/** When this changes, the rows beside it are looked at: it describes their run. */
const DESCRIPTION = 'metadata.json';
const DESCRIBED = 'results.jsonl';

export function isCandidate(name: string): boolean {
  return CANDIDATE.test(name) && !name.endsWith('.partial') && !name.endsWith('.tmp');
}

type Seen = { readonly size: number; readonly changedMs: number; readonly ino: number };

export function watchFolder(root: string): FolderWatch {
  const seen = new Map<string, Seen>();
  const dirty = new Set<string>();
  /** Perhaps folders, to be looked at. */
  const appeared = new Set<string>();
  let signal = Promise.withResolvers<void>();
  let waiting: Promise<void> | null = null;

  const wake = (): void => signal.resolve();
  const put = (path: string): void => {
    dirty.add(path);
    wake();
  };
  const onEvent = (type: string, folder: string, name: string | null): void => {
    if (name !== null && isCandidate(name)) return put(join(folder, name));
    if (name === DESCRIPTION) return put(join(folder, DESCRIBED));
    if (name !== null && (type !== 'rename' || name.startsWith('.'))) return;
    appeared.add(name === null ? folder : join(folder, name));
    wake();
  };
  const kernel = kernelNotices(onEvent);
  /** Watch first, then look: what comes in between is noticed twice at worst. */
  const look = async (folder: string, found: string[]): Promise<void> => {
    kernel.follow(folder);
    const entries = await readdir(folder, { withFileTypes: true }).catch((): Dirent[] => []);
    for (const entry of entries) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        if (!entry.name.startsWith('.')) await look(path, found);
      } else if (entry.isFile() && (isCandidate(entry.name) || entry.name === DESCRIPTION)) {
        const stat = await lstat(path).catch(() => null);
        if (stat === null) continue;
        found.push(path);
        const known = seen.get(path);
        if (known?.size === stat.size && known.changedMs === stat.mtimeMs && known.ino === stat.ino) continue;
        seen.set(path, { size: stat.size, changedMs: stat.mtimeMs, ino: stat.ino });
        put(entry.name === DESCRIPTION ? join(folder, DESCRIBED) : path);
      }
    }
  };
  const next = async (): Promise<void> => {
    if (dirty.size === 0 && appeared.size === 0) await signal.promise;
    signal = Promise.withResolvers<void>();
    const paths = [...appeared];
    appeared.clear();
    for (const path of paths) {
      const stat = await lstat(path).catch(() => null);
      if (stat?.isDirectory() === true) await look(path, []);
      else if (stat === null) kernel.leave(path);
    }
    if (dirty.size > 0) wake();
  };
  return {
    async sweep() {
      const found: string[] = [];
      await look(root, found);
      const there = new Set(found);
      for (const path of seen.keys()) if (!there.has(path)) seen.delete(path);
      return found;
    },
    take(limit) {
      const taken = [...dirty].slice(0, limit);
      for (const path of taken) dirty.delete(path);
      return taken;
    },
    put,
    get pending() {
      return dirty.size;
    },
    changed() {
      // one call waits at a time, however often it is asked for
      waiting ??= next().finally(() => (waiting = null));
      return waiting;
    },
    get blind() {
      return kernel.blind;
    },
    close() {
      kernel.close();
      wake();
    },
  };
}

/** Magic numbers (statfs(2)) of file systems that other machines write to: the kernel has no notices of that. NFS, CIFS, SMB2, FUSE, 9p, Ceph, Lustre. */
const REMOTE: ReadonlySet<number> = new Set([0x6969, 0xff534d42, 0xfe534d42, 0x65735546, 0x01021997, 0x00c36400, 0x0bd00bd0]);

export async function isRemote(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => null);
  return found !== null && REMOTE.has(Number(found.type) >>> 0);
}
