/** Mean, spread and quantiles of a list. Nothing is measured on an empty list: the answer is null, never 0. */

/** Sum with compensation (Neumaier 1974), in ascending order, so that the order of rows cannot change the last bit. */
export function sum(values: readonly number[]): number {
  const ascending = Float64Array.from(values).toSorted();
  let total = 0;
  let lost = 0;
  for (const value of ascending) {
    const next = total + value;
    if (Number.isFinite(next)) lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
    total = next;
  }
  return total + lost;
}

export function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : sum(values) / values.length;
}

/** Standard deviation with n - 1; null below two values, exactly 0 where all are equal. */
export function deviation(values: readonly number[]): number | null {
  if (values.length < 2) return null;
  if (values.every((value) => value === values[0])) return 0;
  const centre = mean(values) as number;
  return Math.sqrt(sum(values.map((value) => (value - centre) ** 2)) / (values.length - 1));
}

/** Quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996, the default of NumPy); `sorted` is ascending. */
export function quantileOf(sorted: ArrayLike<number>, p: number): number | null {
  const { length } = sorted;
  if (length === 0) return null;
  const at = (length - 1) * p;
  const low = sorted[Math.floor(at)] as number;
  const high = sorted[Math.ceil(at)] as number;
  return low === high ? low : low + (high - low) * (at - Math.floor(at));
}

export type Summary = {
  readonly n: number;
  readonly mean: number | null;
  readonly sd: number | null;
  readonly min: number | null;
  readonly p10: number | null;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly max: number | null;
};

/** The figures that dashboards show of a list of numbers. */
export function summaryOf(values: readonly number[]): Summary {
  const sorted = Float64Array.from(values).toSorted();
  const at = (p: number): number | null => quantileOf(sorted, p);
  return { n: values.length, mean: mean(values), sd: deviation(values), min: at(0), p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1) }; // prettier-ignore
}
