/** How far two raters, or two quantities, go together. */
import { deviation, mean, sum } from './moments.ts';

/** Pearson's correlation; null below two pairs or where one side does not vary. */
export function correlation(xs: readonly number[], ys: readonly number[]): number | null {
  const [sdX, sdY] = [deviation(xs), deviation(ys)];
  if (sdX === null || sdY === null || !(sdX > 0) || !(sdY > 0)) return null;
  const [meanX, meanY] = [mean(xs) as number, mean(ys) as number];
  const covariance = sum(xs.map((x, place) => (x - meanX) * ((ys[place] as number) - meanY))) / (xs.length - 1);
  return Math.max(-1, Math.min(1, covariance / (sdX * sdY)));
}

/** Spearman's rank correlation: Pearson's over ranks, equal values share the mean of their ranks. */
export function rankCorrelation(xs: readonly number[], ys: readonly number[]): number | null {
  return correlation(ranksOf(xs), ranksOf(ys));
}

function ranksOf(values: readonly number[]): number[] {
  const order = values.map((value, place) => ({ value, place })).toSorted((a, b) => a.value - b.value);
  const ranks = values.map(() => 0);
  for (let from = 0; from < order.length;) {
    let to = from;
    while (to < order.length && order[to]?.value === order[from]?.value) to++;
    for (let at = from; at < to; at++) ranks[order[at]?.place as number] = (from + to + 1) / 2;
    from = to;
  }
  return ranks;
}

/** How often two raters said yes or no: `[both, only the first, only the second, neither]`. */
export type Fourfold = readonly [both: number, onlyFirst: number, onlySecond: number, neither: number];

/**
 * Cohen's kappa (Cohen 1960): agreement beyond what the raters' own rates would give by chance. Null without cases, and where chance alone explains all (both
 * raters always say the same thing).
 */
export function cohenKappa([both, onlyFirst, onlySecond, neither]: Fourfold): number | null {
  const n = both + onlyFirst + onlySecond + neither;
  if (n === 0) return null;
  const seen = (both + neither) / n;
  const expected = ((both + onlyFirst) * (both + onlySecond) + (neither + onlySecond) * (neither + onlyFirst)) / (n * n);
  return expected === 1 ? null : (seen - expected) / (1 - expected);
}

export type Trend = {
  /** Change per unit of x. */
  readonly slope: number | null;
  readonly se: number | null;
  readonly points: number;
};

/** Least-squares line through points; null below two different x, no error below three points. */
export function trendOf(xs: readonly number[], ys: readonly number[]): Trend {
  const points = xs.length;
  const spread = deviation(xs);
  if (spread === null || !(spread > 0)) return { slope: null, se: null, points };
  const [meanX, meanY] = [mean(xs) as number, mean(ys) as number];
  const squares = sum(xs.map((x) => (x - meanX) ** 2));
  const slope = sum(xs.map((x, place) => (x - meanX) * ((ys[place] as number) - meanY))) / squares;
  if (points < 3) return { slope, se: null, points };
  const rest = sum(xs.map((x, place) => ((ys[place] as number) - meanY - slope * (x - meanX)) ** 2));
  return { slope, se: Math.sqrt(rest / (points - 2) / squares), points };
}
