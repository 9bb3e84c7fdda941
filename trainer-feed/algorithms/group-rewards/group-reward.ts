/**
 * Rewards that come from comparing the members of a group: they are appended as `reward.assigned` events before the group is ready, so that every algorithm can use them. Pure
 * functions of what a judge answered; asking it is somebody else's work. A version goes up whenever the same answers give another number.
 */

/** What a judge said of two members shown in one order: the first is better, the second is, or neither. */
export type Verdict = 'first' | 'second' | 'tie';

/** One question to a judge: the members (by position) in the order they were shown. */
export type Judgement = { readonly first: number; readonly second: number; readonly verdict: Verdict };

/** One score per member; null = not measured: no judgement of that member came back. */
export type GroupReward = { readonly version: number; readonly scores: readonly (number | null)[] };

/** All questions of a pairwise comparison: every pair in both orders, because judges favour a place. */
export function pairwiseQuestions(members: number): readonly { readonly first: number; readonly second: number }[] {
  const questions: { first: number; second: number }[] = [];
  for (let first = 0; first < members; first++) for (let second = 0; second < members; second++) if (first !== second) questions.push({ first, second }); // prettier-ignore
  return questions;
}

/** Points of the first and second member: 1 for a win, 0.5 for a tie. */
export function pointsOf(verdict: Verdict): readonly [first: number, second: number] {
  return verdict === 'first' ? [1, 0] : verdict === 'second' ? [0, 1] : [0.5, 0.5];
}

/** Throws a RangeError for a judgement that names a member that is none, or one member twice. */
export function checkJudgements(members: number, judgements: readonly Judgement[]): void {
  for (const { first, second } of judgements) {
    const known = (i: number): boolean => Number.isInteger(i) && i >= 0 && i < members;
    if (!known(first) || !known(second) || first === second) {
      throw new RangeError(`a judgement compares ${first} with ${second} in a group of ${members}`);
    }
  }
}
