import { DEFAULT_PROJECT } from '../events/envelope.ts';

/** The runs that were deleted, for ever: (project, run) pairs. Lives in memory; `add` is the live update. */
export type Tombstones = {
  has(project: string | undefined, run: string | undefined): boolean;
  add(project: string | undefined, run: string): void;
  readonly size: number;
};

export function createTombstones(initial: Iterable<{ readonly project?: string; readonly run: string }> = []): Tombstones {
  const runs = new Map<string, Set<string>>();
  let size = 0;
  const add = (project: string | undefined, run: string): void => {
    const name = project ?? DEFAULT_PROJECT;
    const known = runs.get(name) ?? new Set<string>();
    if (!known.has(run)) size++;
    runs.set(name, known.add(run));
  };
  for (const { project, run } of initial) add(project, run);
  return {
    has: (project, run) => size > 0 && run !== undefined && runs.get(project ?? DEFAULT_PROJECT)?.has(run) === true,
    add,
    get size() {
      return size;
    },
  };
}
