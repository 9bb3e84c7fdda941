/** Two systems on the same tasks: the difference per task is the unit. */
import { deviation, mean } from './moments.ts';
import { fairBinomialCdf, normalQuantile, studentQuantile, studentTwoSided } from './special-functions.ts';

export type PairedT = {
  readonly difference: number | null;
  readonly se: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Two-sided p of no difference; null below two tasks. */
  readonly p: number | null;
};

/**
 * t on the differences per task, with T - 1 degrees of freedom. Source: Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640, section 4 (paired analysis).
 * Differences that are all equal have no spread: p is then 1 for 0, else 0, and the interval has no width; the sign-flip test is the one to read.
 */
export function pairedT(differences: readonly number[], confidence: number): PairedT {
  const difference = mean(differences);
  const spread = deviation(differences);
  if (difference === null || spread === null) return { difference, se: null, low: null, high: null, p: null };
  const tasks = differences.length;
  const se = spread / Math.sqrt(tasks);
  const half = studentQuantile(1 - (1 - confidence) / 2, tasks - 1) * se;
  const p = se === 0 ? (difference === 0 ? 1 : 0) : studentTwoSided(difference / se, tasks - 1);
  return { difference, se, low: difference - half, high: difference + half, p };
}

export type McNemar = { readonly onlyBase: number; readonly onlyOther: number; readonly p: number };

/**
 * Exact McNemar test (McNemar 1947; binomial form): for one binary outcome per task and side only. `onlyBase` and `onlyOther` count the tasks that exactly one
 * side solved; under no difference each is equally likely.
 */
export function mcNemar(onlyBase: number, onlyOther: number): McNemar {
  const discordant = onlyBase + onlyOther;
  const p = discordant === 0 ? 1 : Math.min(1, 2 * fairBinomialCdf(Math.min(onlyBase, onlyOther), discordant));
  return { onlyBase, onlyOther, p };
}

/** Holm 1979: p-values adjusted for being several, in the order given. Null stays null and is not counted. */
export function holm(ps: readonly (number | null)[]): (number | null)[] {
  const ranked = ps.flatMap((p, place) => (p === null || Number.isNaN(p) ? [] : [{ p, place }])).toSorted((a, b) => a.p - b.p);
  const adjusted: (number | null)[] = ps.map(() => null);
  let largest = 0;
  for (const [rank, { p, place }] of ranked.entries()) {
    largest = Math.max(largest, Math.min(1, (ranked.length - rank) * p));
    adjusted[place] = largest;
  }
  return adjusted;
}

/**
 * The smallest true difference that T tasks would find with this power at this confidence: (t(1 - alpha/2) + t(power)) * sd / sqrt(T), t with T - 1 degrees of
 * freedom. Source: Miller 2024, arXiv 2411.00640, section 5, equation 9, with t in place of z. Null below two tasks.
 */
export function minimumDetectable(differences: readonly number[], confidence: number, power: number): number | null {
  const spread = deviation(differences);
  if (spread === null) return null;
  const t = (p: number): number => studentQuantile(p, differences.length - 1);
  return ((t(1 - (1 - confidence) / 2) + t(power)) * spread) / Math.sqrt(differences.length);
}

/** Tasks that would be needed to find `difference` with the spread seen here: the same formula, solved for T with normal quantiles. Null where none is known. */
export function tasksNeeded(differences: readonly number[], difference: number, confidence: number, power: number): number | null {
  const spread = deviation(differences);
  if (spread === null || spread === 0 || difference === 0 || !Number.isFinite(difference)) return null;
  const z = normalQuantile(1 - (1 - confidence) / 2) + normalQuantile(power);
  return Math.ceil(((z * spread) / difference) ** 2);
}
