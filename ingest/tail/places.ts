/** All places of a tail by path, and by inode for files that were renamed. */
import type { FileHandle } from 'node:fs/promises';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Place } from './place.ts';
import { markAt } from './read-at.ts';

export type FileStat = { readonly dev: number; readonly ino: number; readonly size: number; readonly mtimeMs: number };

export type Places = {
  /** The place where the file goes on, or null for one that was never seen: by path, else by inode (renamed), and only when the bytes before the place are still there. */
  find(path: string, stat: FileStat, file: FileHandle): Promise<Place | null>;
  set(place: Place): void;
  all(): Place[];
  /** After everything there is was looked at: forgets renamed files of an earlier start that nobody found again. */
  forgetLost(): void;
  /** Forgets places of files that are gone: `there` holds all paths (relative) there are. A file that is missing once may have been renamed a moment ago. */
  forget(there: ReadonlySet<string>): boolean;
};

export function placesIn(root: string, known: readonly Place[]): Places {
  const byPath = new Map<string, Place>();
  /** Places whose path now belongs to another file, by inode, until that file is found under its new name. */
  const left = new Map<string, Place>();
  // `all` puts the owners of the paths first: a later one with the same path was renamed away, and must not take the owner's place
  for (const place of known) {
    if (!byPath.has(place.path)) byPath.set(place.path, place);
    else left.set(keyOf(place), place);
  }
  const knownLeft = new Set(left.keys());
  let missing = new Set<string>();

  const isSame = async (place: Place, stat: FileStat, file: FileHandle): Promise<boolean> =>
    stat.size >= place.offset && (await markAt(file, place.offset)) === place.mark;
  /** A place that some other path holds although the file is this one now. */
  const renamed = async (stat: FileStat): Promise<Place | null> => {
    const orphan = left.get(keyOf(stat));
    if (orphan !== undefined) return orphan;
    for (const place of byPath.values()) {
      if (place.ino !== stat.ino || place.dev !== stat.dev) continue;
      const there = await lstat(join(root, place.path)).catch(() => null);
      if (there === null || there.ino !== stat.ino || there.dev !== stat.dev) return place;
    }
    return null;
  };
  /** Its file was found under another path already. */
  const isOwned = (key: string): boolean => [...byPath.values()].some((place) => keyOf(place) === key);
  return {
    async find(path, stat, file) {
      const own = byPath.get(path);
      if (own !== undefined && (await isSame(own, stat, file))) return own;
      const other = await renamed(stat);
      byPath.delete(path);
      if (own !== undefined && keyOf(own) !== keyOf(stat) && !isOwned(keyOf(own))) left.set(keyOf(own), own);
      if (other === null || !(await isSame(other, stat, file))) return null;
      left.delete(keyOf(other));
      // its old path may belong to another file by now
      if (byPath.get(other.path) === other) byPath.delete(other.path);
      const moved = { ...other, path };
      byPath.set(path, moved);
      return moved;
    },
    set(place) {
      byPath.set(place.path, place);
      left.delete(keyOf(place));
    },
    all: () => [...byPath.values(), ...left.values()],
    forgetLost() {
      for (const key of knownLeft) left.delete(key);
    },
    forget(there) {
      const before = byPath.size + left.size;
      const gone = [...byPath.keys()].filter((path) => !there.has(path));
      for (const path of gone) if (missing.has(path)) byPath.delete(path);
      missing = new Set(gone);
      // whoever was renamed out of the way was found by the sweep that ends here
      for (const key of left.keys()) if (missing.has(key)) left.delete(key);
      for (const key of left.keys()) missing.add(key);
      return byPath.size + left.size !== before;
    },
  };
}

function keyOf({ dev, ino }: { readonly dev: number; readonly ino: number }): string {
  return `inode ${dev}:${ino}`;
}
