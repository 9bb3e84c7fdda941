/**
 * The arithmetic of all algorithms: float64, compensated sums in member order, and two rules that floating point would break. Values that are all equal have
 * a mean of exactly that value and a deviation of exactly 0; -0 is written as 0.
 */

/** Whether all values are the same number. An empty set is. */
export function allEqual(values: Float64Array): boolean {
  const first = values[0];
  for (const value of values) if (value !== first) return false;
  return true;
}

/** Compensated sum (Neumaier): the error does not grow with the number of values. */
export function sum(values: Float64Array): number {
  let total = 0;
  let lost = 0;
  for (const value of values) {
    const next = total + value;
    lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
    total = next;
  }
  return Number.isFinite(total) ? total + lost : total;
}

/** Sum of value x weight; `weights` has one entry per value. */
export function weightedSum(values: Float64Array, weights: Float64Array): number {
  return sum(values.map((value, i) => value * (weights[i] as number)));
}

/** The mean; exactly the value when all are equal; NaN for an empty set. */
export function mean(values: Float64Array): number {
  if (values.length === 0) return Number.NaN;
  return allEqual(values) ? (values[0] as number) : sum(values) / values.length;
}

/** The standard deviation with n - 1; exactly 0 when all are equal; 0 for one value or none. */
export function deviation(values: Float64Array): number {
  if (values.length < 2 || allEqual(values)) return 0;
  const centre = mean(values);
  return Math.sqrt(sum(values.map((value) => (value - centre) ** 2)) / (values.length - 1));
}

/** Each value minus the mean; all exactly 0 when the values are all equal. */
export function centred(values: Float64Array): Float64Array {
  if (allEqual(values)) return new Float64Array(values.length);
  const centre = mean(values);
  return values.map((value) => value - centre);
}

/** Mean and variance (n - 1) of a set in which value i stands for `counts[i]` equal values. A variance of fewer than two is 0. */
export function countedMoments(values: Float64Array, counts: Float64Array): { mean: number; variance: number; count: number } {
  const count = sum(counts);
  const held = values.filter((_, i) => (counts[i] as number) > 0);
  if (held.length === 0) return { mean: 0, variance: 0, count: 0 };
  if (allEqual(held)) return { mean: held[0] as number, variance: 0, count };
  const centre = weightedSum(values, counts) / count;
  const squares = weightedSum(
    values.map((value) => (value - centre) ** 2),
    counts,
  );
  return { mean: centre, variance: squares / (count - 1), count };
}

/** 0 for -0, everything else as it is. */
export function plainZero(value: number): number {
  return value === 0 ? 0 : value;
}
