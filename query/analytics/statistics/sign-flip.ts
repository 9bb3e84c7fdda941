/** Sign-flip permutation test on paired differences. */
import type { Random } from '../../../base/random.ts';

/** Differences that are not 0, up to which all 2^m sign patterns are counted. */
const MAX_EXACT = 20;

export type SignFlip = { readonly p: number; readonly method: 'exact' | 'Monte Carlo'; readonly patterns: number };

/**
 * Two-sided p of the hypothesis that each difference could as well have the other sign: the share of sign patterns whose |sum| is at least the one seen.
 * All 2^m patterns for up to 20 differences that are not 0 (zeros change no sum), else `resamples` random ones, and (hits + 1) / (resamples + 1), which is never 0.
 * Source: Fisher 1935, "The Design of Experiments"; Phipson and Smyth 2010, "Permutation P-values Should Never Be Zero".
 */
export function signFlip(
  differences: readonly number[],
  { resamples, random }: { readonly resamples: number; readonly random: Random },
): SignFlip {
  const moved = Float64Array.from(differences.filter((difference) => difference !== 0)).toSorted();
  const seen = Math.abs(moved.reduce((total, difference) => total + difference, 0));
  // sums of the same terms in another order differ in the last bits
  const limit = seen - 1e-12 * moved.reduce((total, difference) => total + Math.abs(difference), 0);
  if (moved.length <= MAX_EXACT) {
    const patterns = 2 ** moved.length;
    return { p: exactHits(moved, limit) / patterns, method: 'exact', patterns };
  }
  let hits = 0;
  for (let round = 0; round < resamples; round++) {
    let total = 0;
    for (const difference of moved) total += random.next() < 0.5 ? difference : -difference;
    if (Math.abs(total) >= limit) hits++;
  }
  return { p: (hits + 1) / (resamples + 1), method: 'Monte Carlo', patterns: resamples };
}

/** Counts patterns in Gray-code order: each differs from the one before in one sign. */
function exactHits(differences: Float64Array, limit: number): number {
  const signs = new Int8Array(differences.length).fill(1);
  let total = differences.reduce((sum, difference) => sum + difference, 0);
  let hits = Math.abs(total) >= limit ? 1 : 0;
  for (let pattern = 1; pattern < 2 ** differences.length; pattern++) {
    const flip = 31 - Math.clz32(pattern & -pattern);
    const sign = signs[flip] as number;
    total -= 2 * sign * (differences[flip] as number);
    signs[flip] = -sign;
    if (Math.abs(total) >= limit) hits++;
  }
  return hits;
}
