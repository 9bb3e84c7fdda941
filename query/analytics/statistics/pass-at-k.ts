/** The two unbiased estimators over the rollouts of one task. Both as products: binomials overflow doubles from n = 1,030 on. */

/**
 * pass@k: the chance that at least one of k rollouts drawn without replacement from n succeeds, of which c did: 1 - C(n-c, k) / C(n, k).
 * Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (HumanEval), arXiv 2107.03374, section 2.1 and its numerically stable form.
 * Needs 1 <= k <= n and 0 <= c <= n.
 */
export function passAtK(n: number, c: number, k: number): number {
  check(n, c, k);
  if (n - c < k) return 1;
  // the product over the smaller of two equal forms: C(n-c, k)/C(n, k) = prod_{i<k} (n-c-i)/(n-i) = prod_{i<c} (n-k-i)/(n-i)
  return 1 - ratio(n, Math.max(c, k), Math.min(c, k));
}

/**
 * pass^k: the chance that all of k rollouts drawn without replacement from n succeed: C(c, k) / C(n, k).
 * Source: Yao et al. 2024, "tau-bench", arXiv 2406.12045, section 5.1.
 */
export function passHatK(n: number, c: number, k: number): number {
  check(n, c, k);
  if (c < k) return 0;
  const failed = n - c;
  return ratio(n, Math.max(failed, k), Math.min(failed, k));
}

/** prod_{i < times} (n - less - i) / (n - i). */
function ratio(n: number, less: number, times: number): number {
  let product = 1;
  for (let i = 0; i < times; i++) product *= (n - less - i) / (n - i);
  return product;
}

function check(n: number, c: number, k: number): void {
  const whole = Number.isSafeInteger(n) && Number.isSafeInteger(c) && Number.isSafeInteger(k);
  if (!whole || k < 1 || k > n || c < 0 || c > n) {
    throw new RangeError(`pass@k needs 1 <= k <= n and 0 <= c <= n, got n = ${n}, c = ${c}, k = ${k}`);
  }
}
