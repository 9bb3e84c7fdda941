/**
 * How many more rollouts producers should start: max(0, (maxOffPolicySteps + 1) x B - (queued + running)). Queued = rollouts that are ready or under way to it and not yet in a
 * committed batch, cut ones included; what can no longer ship (filtered, dropped, too old) does not count, so a feed that drops most of its groups still asks for more.
 * Running = started and not ended, but for those silent for too long. Nothing is counted up over time: the same state gives the same answer after a restart.
 */
import { oldestFresh } from '../cut/staleness.ts';
import { endOf } from '../groups/rollout-facts.ts';
import { isPooled, type DecisionState } from './decision-state.ts';
import type { FeedFold } from './fold.ts';
import type { GroupYield } from './group-yield.ts';
import { isSilent, type Yields } from './next-cut.ts';
import type { ResolvedFeedSpec } from './spec.ts';

export type Capacity = {
  /** Rollouts that may be started now; null = no limit. */
  readonly capacity: number | null;
  /** (maxOffPolicySteps + 1) x B; null = no limit. */
  readonly limit: number | null;
  /** Rollouts one batch takes, as far as it is known. */
  readonly rolloutsPerBatch: number;
  readonly queued: number;
  readonly running: number;
  /** Not counted as running: silent for longer than rolloutExpirySeconds. */
  readonly silent: number;
  /** What would raise it. */
  readonly frees: readonly string[];
};

export function capacityOf(fold: FeedFold, resolved: ResolvedFeedSpec, yields: Yields): Capacity {
  const { queued, running, silent } = countRollouts(fold, resolved, yields);
  const rolloutsPerBatch = batchRollouts(fold, resolved);
  const { maxOffPolicySteps } = resolved.spec.staleness;
  const limit = maxOffPolicySteps === null ? null : (maxOffPolicySteps + 1) * rolloutsPerBatch;
  const capacity = limit === null ? null : Math.max(0, limit - (queued + running));
  return { capacity, limit, rolloutsPerBatch, queued, running, silent, frees: capacity === 0 ? whatFrees(fold.decisions, running) : [] };
}

function countRollouts(
  { facts, decisions, now }: FeedFold,
  resolved: ResolvedFeedSpec,
  yields: Yields,
): Pick<Capacity, 'queued' | 'running' | 'silent'> {
  let queued = 0;
  let running = 0;
  let silent = 0;
  for (const group of facts.groups.values()) {
    const record = decisions.groups.get(group.key);
    if (record !== undefined && record.ready !== null) continue;
    for (const key of group.rollouts) {
      const rollout = facts.rollouts.get(key);
      if (rollout === undefined) continue;
      const end = endOf(rollout);
      if (end === null && isSilent(rollout, resolved, now)) silent++;
      else if (end === null) running++;
      else if (end.kind === 'ended' && end.ok !== false) queued++;
    }
  }
  for (const group of decisions.groups.values()) {
    if (group.ready === null) continue;
    if (!isPooled(decisions, group)) continue;
    const known = yields.get(group.ready.offset);
    if (known === undefined) queued += group.ready.rollouts.size;
    else if (!isTooOld(known, decisions.chain.length + 1, resolved)) queued += known.rollouts;
  }
  for (const [n, batch] of decisions.batches) if (n > decisions.committed) queued += batch.counts.rollouts;
  return { queued, running, silent };
}

/** Under `drop` a group that is older than the next batch allows will never ship. */
function isTooOld({ minVersion }: GroupYield, n: number, { spec }: ResolvedFeedSpec): boolean {
  const { maxOffPolicySteps, strategy } = spec.staleness;
  return strategy === 'drop' && maxOffPolicySteps !== null && minVersion !== null && minVersion < oldestFresh(n, maxOffPolicySteps);
}

/** B in rollouts. Where a batch is filled by groups or tokens it is what the last batch took, or the size of a group. */
function batchRollouts({ decisions }: FeedFold, { spec }: ResolvedFeedSpec): number {
  const { by, size } = spec.batch;
  if (by === 'rollouts') return size;
  const lately = decisions.batches.get(decisions.chain.length)?.counts;
  if (lately !== undefined && lately.rows > 0) {
    const share = by === 'groups' ? size / Math.max(1, lately.groups) : size / Math.max(1, lately.tokens);
    return Math.max(1, Math.ceil(lately.rollouts * share));
  }
  return by === 'groups' ? size * (spec.group.size ?? 1) : Math.max(1, Math.ceil(size / spec.maxRowTokens));
}

function whatFrees(decisions: DecisionState, running: number): string[] {
  const frees: string[] = [];
  const cut = decisions.batches.get(decisions.committed + 1);
  if (cut !== undefined) frees.push(`the commit of batch ${cut.n} frees ${cut.counts.rollouts}`);
  else frees.push(`batch ${decisions.committed + 1} must be cut and committed`);
  if (running > 0) frees.push(`${running} rollouts are running: those that fail or are filtered free one each`);
  return frees;
}
