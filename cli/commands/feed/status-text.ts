/** Feeds and their state for people. */
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import { visible } from '../../render/terminal-text.ts';
import { tableText, timeText } from './columns-text.ts';

export type Listed = {
  readonly feed: string;
  readonly created: number;
  readonly timeline: number | null;
  readonly committed: number | null;
  readonly cut: number | null;
  readonly deleted: boolean;
  readonly problem: string | null;
};

export function listText(feeds: readonly Listed[]): string {
  if (feeds.length === 0) return 'there are no feeds: create one with "tapedeck feed create <feed> <spec.json>"';
  const rows = feeds.map((feed) => [
    feed.feed, feed.committed, feed.cut, feed.timeline, timeText(feed.created), feed.deleted ? 'deleted' : (feed.problem ?? ''),
  ]); // prettier-ignore
  return tableText(['feed', 'committed', 'cut', 'timeline', 'created', ''], rows).map(visible).join('\n');
}

export function statusText(status: FeedStatus): string {
  const { lease, next, depth, groups, oldestWaiting: oldest, frontier } = status;
  const lines = [
    `feed ${status.feed}, timeline ${status.timeline}: ${status.committed} batches committed, ${status.cut} cut`,
    ...(status.deleted ? ['  deleted'] : []),
    ...(status.trouble === null ? [] : [`  trouble    ${status.trouble}`]),
    ...(status.ended ? ['  ended      its runs have ended and nothing is left'] : []),
    `  lease      ${lease === null ? 'nobody holds it' : `${lease.holder} trains batch ${lease.n}, until ${timeText(lease.expires)} (token ${lease.token})`}`,
    ...(next === null ? [] : [`  next       batch ${next.n} waits for ${next.waitsFor}${next.have === null ? '' : ` (${next.have} of ${next.need} ${next.unit})`}, since ${timeText(next.since)}`]),
    `  pool       ${depth.groups} groups: ${depth.rollouts} rollouts, ${depth.rows} rows, ${depth.tokens} tokens`,
    `  groups     ${Object.entries(groups).map(([state, count]) => `${count} ${state}`).join(', ')}`,
    ...(oldest === null ? [] : [`  oldest     group ${oldest.group} is ${oldest.state} since ${timeText(oldest.since)}, waits for ${oldest.waitsFor.join(', ')}; its deadline is ${timeText(oldest.deadline)}`]),
    `  staleness  ${status.staleness.length === 0 ? 'nothing to say' : status.staleness.map(([age, count]) => `${count} groups of age ${age}`).join(', ')}`,
    `  log        ${frontier.caughtUp ? 'read to its end' : frontier.paused ? 'reading pauses: enough is at hand' : `${frontier.behind} events behind`}`,
    `  policy     ${status.policyVersion === null ? 'none was published' : `version ${status.policyVersion}, ${status.publishLag ?? 0} behind`}`,
    ...leftLines(status),
    ...status.silentProducers.map(({ producer, run, rollouts, lastHeard }) => `  silent     ${producer ?? 'a producer'} of run ${run}: ${rollouts} rollouts, last heard ${timeText(lastHeard)}`),
    ...(status.checkpoints.length === 0 ? [] : [`  resumable  ${status.checkpoints.map(({ n }) => n).join(', ')}`]),
  ]; // prettier-ignore
  return lines.map(visible).join('\n');
}

function leftLines({ left, failedGroups, skippedRollouts }: FeedStatus): string[] {
  const dropped = Object.entries(left).map(([reason, { rollouts, tokens }]) => `${rollouts} ${reason} (${tokens} tokens)`);
  const failed = Object.entries(failedGroups).map(([reason, count]) => `${count} ${reason}`);
  const skipped = Object.entries(skippedRollouts).filter(([, count]) => count > 0).map(([reason, count]) => `${count} ${reason}`); // prettier-ignore
  return [
    ...(dropped.length === 0 ? [] : [`  left out   ${dropped.join(', ')}`]),
    ...(failed.length === 0 ? [] : [`  failed     ${failed.join(', ')} groups`]),
    ...(skipped.length === 0 ? [] : [`  skipped    ${skipped.join(', ')} rollouts never entered`]),
  ];
}
