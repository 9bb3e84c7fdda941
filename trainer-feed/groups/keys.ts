/** Names of rollouts and groups inside a feed: one text per (run, id). The length keeps them apart, whatever characters they hold. */

export type GroupName = { readonly run: string; readonly group: string; readonly solo: boolean };

export function rolloutKey(run: string, rollout: string): string {
  return `${run.length},${run}${rollout}`;
}

/** A rollout without a group is a group by itself (`solo`), apart from any group that happens to have the same id. */
export function groupKey({ run, group, solo }: GroupName): string {
  return `${solo ? 's' : 'g'}${run.length},${run}${group}`;
}
