/** Majority vote over the answers of one task. */
import type { Random } from '../../../base/random.ts';

export type Vote = { readonly answer: number | string; readonly correct: number };

/** Subsets that are looked at one by one; more are sampled. */
const MAX_EXACT = 5_000;
const SAMPLES = 2_000;

/** How the value came about: over all rollouts at once, over every subset of k, or over random ones. */
export type VoteEstimate = { readonly value: number; readonly method: 'all' | 'exact' | 'sampled' };

/**
 * maj@k: the mean correctness of the answer that most of k rollouts drawn without replacement give; tied answers share. For k = n it is one vote, else the
 * mean over all subsets of k, or over 2,000 random ones where there are more than 5,000.
 * Source: Wang et al. 2022, "Self-Consistency Improves Chain of Thought Reasoning", arXiv 2203.11171; the subsets are the unbiased (U-statistic) form.
 */
export function majorityAtK(votes: readonly Vote[], k: number, random: Random): VoteEstimate {
  const n = votes.length;
  if (!Number.isSafeInteger(k) || k < 1 || k > n) throw new RangeError(`maj@k needs 1 <= k <= n, got n = ${n}, k = ${k}`);
  if (k === n) return { value: majority(votes), method: 'all' };
  if (subsetsUpTo(n, k, MAX_EXACT) <= MAX_EXACT) return { value: meanOverSubsets(votes, k), method: 'exact' };
  let total = 0;
  for (let round = 0; round < SAMPLES; round++) total += majority(draw(votes, k, random));
  return { value: total / SAMPLES, method: 'sampled' };
}

function majority(votes: readonly Vote[]): number {
  const answers = new Map<number | string, { count: number; correct: number }>();
  for (const { answer, correct } of votes) {
    const seen = answers.get(answer) ?? { count: 0, correct: 0 };
    answers.set(answer, { count: seen.count + 1, correct: seen.correct + correct });
  }
  const most = Math.max(...[...answers.values()].map(({ count }) => count));
  const winners = [...answers.values()].filter(({ count }) => count === most);
  return winners.reduce((sum, { count, correct }) => sum + correct / count, 0) / winners.length;
}

/** C(n, k), or a larger number than `limit` once it is beyond. */
function subsetsUpTo(n: number, k: number, limit: number): number {
  let count = 1;
  for (let i = 1; i <= Math.min(k, n - k) && count <= limit; i++) count = (count * (n - i + 1)) / i;
  return count;
}

function meanOverSubsets(votes: readonly Vote[], k: number): number {
  const chosen = Array.from({ length: k }, (_, place) => place);
  let total = 0;
  for (let count = 1; ; count++) {
    total += majority(chosen.map((place) => votes[place] as Vote));
    let at = k - 1;
    while (at >= 0 && chosen[at] === votes.length - k + at) at--;
    if (at < 0) return total / count;
    chosen[at] = (chosen[at] as number) + 1;
    for (let next = at + 1; next < k; next++) chosen[next] = (chosen[next - 1] as number) + 1;
  }
}

function draw<T>(items: readonly T[], k: number, random: Random): T[] {
  const pool = [...items];
  for (let i = 0; i < k; i++) {
    const j = i + Math.floor(random.next() * (pool.length - i));
    [pool[i], pool[j]] = [pool[j] as T, pool[i] as T];
  }
  return pool.slice(0, k);
}
