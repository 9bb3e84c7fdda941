/** Pairwise judge: the share of comparisons with the other members that a member won, both orders asked, a tie counting half. */
import { checkJudgements, pointsOf, type GroupReward, type Judgement } from './group-reward.ts';

export const WIN_RATE_VERSION = 1;

/**
 * First the mean over what came back of one pair (one order or both), then over the opponents met: a pair asked twice weighs as much as a pair asked once. A member nobody
 * compared has no score.
 */
export function winRate(members: number, judgements: readonly Judgement[]): GroupReward {
  checkJudgements(members, judgements);
  const met: Map<number, number[]>[] = Array.from({ length: members }, () => new Map());
  for (const { first, second, verdict } of judgements) {
    const [won, lost] = pointsOf(verdict);
    note(met[first] as Map<number, number[]>, second, won);
    note(met[second] as Map<number, number[]>, first, lost);
  }
  const scores = met.map((opponents) => (opponents.size === 0 ? null : average([...opponents.values()].map(average))));
  return { version: WIN_RATE_VERSION, scores };
}

function note(opponents: Map<number, number[]>, opponent: number, points: number): void {
  const held = opponents.get(opponent);
  if (held === undefined) opponents.set(opponent, [points]);
  else held.push(points);
}

function average(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}
