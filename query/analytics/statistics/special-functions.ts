/**
 * The distributions behind intervals and tests, from Cephes (Moshier, netlib.org/cephes), the library that SciPy grew from. This is the only file that touches
 * the package. Its CommonJS build compiles at once; the ES module would have to be waited for.
 */
import { createRequire } from 'node:module';

/** Typed here, since the package's own types are not in its export map. */
type Cephes = {
  /** Regularised incomplete beta. */
  incbet(a: number, b: number, x: number): number;
  /** Its inverse in x. */
  incbi(a: number, b: number, p: number): number;
  stdtri(df: number, p: number): number;
  ndtri(p: number): number;
};

const cephes = createRequire(import.meta.url)('cephes') as Cephes;

/** Degrees of freedom are a C int there; beyond, the normal quantile is equal in double precision. */
const LARGEST_DF = 2_147_483_647;

/** The t with P(T <= t) = p for Student's distribution with `df` >= 1 degrees of freedom, 0 < p < 1. */
export function studentQuantile(p: number, df: number): number {
  return df > LARGEST_DF ? cephes.ndtri(p) : cephes.stdtri(df, p);
}

/** P(|T| >= |t|) for Student's distribution with `df` degrees of freedom. Through the incomplete beta, so that small values keep their digits. */
export function studentTwoSided(t: number, df: number): number {
  if (Number.isNaN(t)) return NaN;
  if (!Number.isFinite(t)) return 0;
  return cephes.incbet(df / 2, 0.5, df / (df + t * t));
}

/** The z with P(Z <= z) = p of the normal distribution. */
export function normalQuantile(p: number): number {
  return cephes.ndtri(p);
}

/** The x with I_x(a, b) = p, the quantile of the beta distribution. */
export function betaQuantile(p: number, a: number, b: number): number {
  return cephes.incbi(a, b, p);
}

/** P(X <= successes) of a binomial with n trials and chance 1/2. */
export function fairBinomialCdf(successes: number, n: number): number {
  if (successes < 0) return 0;
  if (successes >= n) return 1;
  return cephes.incbet(n - successes, successes + 1, 0.5);
}
