/** What the best of k rollouts is worth, from n >= k rollouts of one task. */

/** One rollout: what it is chosen by, and what it is then worth. With the same value in both, the mean of the largest reward of k. */
export type Candidate = { readonly chosenBy: number; readonly worth: number };

/**
 * Unbiased estimate of the worth of the candidate with the largest `chosenBy` among k drawn without replacement: the sum over ascending candidates i of
 * worth_i * C(i-1, k-1) / C(n, k). Candidates with equal `chosenBy` share their weights, which is choosing among them by lot. What can never be chosen (fewer than k - 1 below it) counts for
 * nothing, whatever it is worth.
 * Needs 1 <= k <= n and a `chosenBy` that is no NaN.
 * Source: Walder and Karkhanis 2025, "Pass@K Policy Optimization", arXiv 2505.15201, the estimator of max_g@k; with worth in {0, 1} chosen by itself it is pass@k.
 */
export function bestOfK(candidates: readonly Candidate[], k: number): number {
  const n = candidates.length;
  if (!Number.isSafeInteger(k) || k < 1 || k > n) throw new RangeError(`best-of-k needs 1 <= k <= n, got n = ${n}, k = ${k}`);
  if (candidates.some(({ chosenBy }) => Number.isNaN(chosenBy)))
    throw new RangeError('best-of-k cannot choose by NaN: leave such candidates out');
  const sorted = candidates.toSorted((a, b) => a.chosenBy - b.chosenBy);
  // weight of the i-th of n in ascending order, from the top down: w_n = k/n, w_(i-1) = w_i * (i-k)/(i-1)
  const weights = new Float64Array(n);
  let weight = k / n;
  for (let i = n; i >= k; i--) {
    weights[i - 1] = weight;
    weight *= (i - k) / (i - 1);
  }
  let total = 0;
  for (let from = 0; from < n;) {
    const { chosenBy } = sorted[from] as Candidate;
    let to = from;
    let tiedWeight = 0;
    let tiedWorth = 0;
    while (to < n && (sorted[to] as Candidate).chosenBy === chosenBy) {
      tiedWeight += weights[to] as number;
      tiedWorth += (sorted[to] as Candidate).worth;
      to++;
    }
    // 0 * Infinity is not 0
    if (tiedWeight > 0) total += (tiedWeight * tiedWorth) / (to - from);
    from = to;
  }
  return total;
}
