/**
 * Conciseness bonus: among members that are correct, the shortest gets the whole bonus, the longest none, the others in proportion: bonus x (1 - (l - lmin)/max(1, lmax - lmin)).
 * All others get 0, and so do all when fewer than two are correct: there is nothing to be shorter than.
 */
import type { GroupReward } from './group-reward.ts';

export const CONCISENESS_VERSION = 1;

/** `correctness`: null = not measured, counts as not correct. `lengths`: sampled tokens of each member. */
export function conciseness(
  members: readonly { readonly correctness: number | null; readonly length: number }[],
  options: { readonly bonus: number; readonly threshold: number },
): GroupReward {
  const lengths = members.filter((m) => m.correctness !== null && m.correctness >= options.threshold).map((m) => m.length);
  const shortest = lengths.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const longest = lengths.reduce((a, b) => Math.max(a, b), 0);
  const scores = members.map(({ correctness, length }) => {
    if (lengths.length < 2 || correctness === null || correctness < options.threshold) return 0;
    return options.bonus * (1 - (length - shortest) / Math.max(1, longest - shortest));
  });
  return { version: CONCISENESS_VERSION, scores };
}
