/** The rewards of a trace as its rollout's facts have them, and whether they are all there. */
import type { Score } from './ready-group.ts';
import type { RewardFact, RolloutFacts } from './rollout-facts.ts';

/** Rewards of the trace and of its rollout: the latest per scope and name, in the order in which each name first came. */
export function scoresOf(rollout: RolloutFacts, trace: string): Score[] {
  const latest = new Map<string, RewardFact>();
  for (const reward of rollout.rewards)
    if (reward.trace === null || reward.trace === trace) latest.set(`${reward.trace === null ? 'r' : 't'}${reward.name}`, reward);
  return [...latest.values()].map(({ name, score, weight }) => ({ name, score, weight }));
}

/**
 * Which rewards the trace still lacks: every required name must be there with a score that is not null. With no names required any reward will do. An empty
 * list = it is scored.
 */
export function missingScores(rollout: RolloutFacts, trace: string, required: readonly string[]): string[] {
  const known = new Set(scoresOf(rollout, trace).filter(({ score }) => score !== null).map(({ name }) => name)); // prettier-ignore
  if (required.length === 0) return known.size > 0 ? [] : ['any reward'];
  return required.filter((name) => !known.has(name));
}
