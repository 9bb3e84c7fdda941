/** What became of each test file: counts, skips and failures, and how a file that ran a second time is told. */

export type FileTally = { passed: number; readonly failed: string[]; readonly skipped: string[] };
export type Tally = Map<string, FileTally>;

export function tallyOf(tally: Tally, file: string): FileTally {
  const known = tally.get(file);
  if (known !== undefined) return known;
  const fresh: FileTally = { passed: 0, failed: [], skipped: [] };
  tally.set(file, fresh);
  return fresh;
}

export function failedFiles(tally: Tally): string[] {
  return [...tally].filter(([, { failed }]) => failed.length > 0).map(([file]) => file);
}

/**
 * The second run of some files decides over them, unless a file ran fewer tests than before. `unstable` are the failures that went away: faults all the same,
 * of the test or of what it tests.
 */
export function withSecondRun(first: Tally, second: Tally): { readonly tally: Tally; readonly unstable: readonly string[] } {
  const tally: Tally = new Map(first);
  const unstable: string[] = [];
  for (const [file, again] of second) {
    const before = first.get(file);
    const ranLess = again.passed === 0 || (before !== undefined && again.passed < before.passed);
    if (again.failed.length > 0 || ranLess) continue;
    tally.set(file, again);
    unstable.push(...(before?.failed ?? []));
  }
  return { tally, unstable };
}
