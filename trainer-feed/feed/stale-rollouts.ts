/** Running rollouts that are too old for any batch to come: under `drop` what they sample would be thrown away, so their runners are told to stop. */
import { oldestFresh } from '../cut/staleness.ts';
import { endOf, type RolloutFacts } from '../groups/rollout-facts.ts';
import { lastCut } from './decision-state.ts';
import type { FeedFold } from './fold.ts';
import { firstVersion } from './next-cut.ts';
import type { ResolvedFeedSpec } from './spec.ts';

export function staleRollouts({ facts, decisions }: FeedFold, { spec }: ResolvedFeedSpec): RolloutFacts[] {
  const { maxOffPolicySteps, strategy } = spec.staleness;
  if (maxOffPolicySteps === null || strategy !== 'drop') return [];
  const oldest = oldestFresh(lastCut(decisions) + 1, maxOffPolicySteps);
  const stale: RolloutFacts[] = [];
  for (const group of facts.groups.values()) {
    if (decisions.groups.get(group.key)?.ready) continue;
    for (const key of group.rollouts) {
      const rollout = facts.rollouts.get(key);
      if (rollout === undefined || endOf(rollout) !== null) continue;
      const version = firstVersion(rollout);
      if (version !== null && version < oldest) stale.push(rollout);
    }
  }
  return stale;
}
