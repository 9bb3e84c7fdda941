/** The mean of environment means: each environment counts the same, however many tasks it has. */
import type { Random } from '../../../base/random.ts';
import { quantileOf, deviation, mean } from './moments.ts';
import type { Bootstrap } from './bootstrap.ts';
import { intervalOverTasks, type Interval, type IntervalOptions } from './interval.ts';
import { studentQuantile } from './special-functions.ts';

/**
 * SE = sqrt(sum of the squared SE of each environment's mean) / E, with the degrees of freedom of Satterthwaite 1946, rounded down. The environments are taken as
 * given, not as a sample of environments. One environment is the interval over its tasks. No interval where an environment has a single task.
 */
export function intervalOverStrata(strata: readonly (readonly number[])[], options: IntervalOptions): Interval {
  const [only, ...others] = strata;
  if (only === undefined || others.length === 0) return intervalOverTasks(only ?? [], options);
  const variances = strata.map((stratum) => {
    const spread = deviation(stratum);
    return spread === null ? null : spread ** 2 / stratum.length;
  });
  if (variances.includes(null)) return { low: null, high: null, method: 'none', se: null };
  const known = variances as number[];
  const total = known.reduce((sum, variance) => sum + variance, 0);
  const se = Math.sqrt(total) / strata.length;
  const freedom =
    total ** 2 / known.reduce((sum, variance, place) => sum + variance ** 2 / ((strata[place] as readonly number[]).length - 1), 0);
  if (!(total > 0) || !Number.isFinite(freedom)) return { low: null, high: null, method: 'none', se };
  const centre = mean(strata.map((stratum) => mean(stratum) as number)) as number;
  const half = studentQuantile(1 - (1 - options.confidence) / 2, Math.max(1, Math.floor(freedom))) * se;
  const cut = (value: number): number => (options.share ? Math.min(1, Math.max(0, value)) : value);
  return { low: cut(centre - half), high: cut(centre + half), method: 't over tasks within envs', se };
}

/** Percentile interval of the mean of means: tasks are drawn again within each environment. Null where an environment has a single task. */
export function bootstrapOverStrata(
  strata: readonly (readonly number[])[],
  { confidence, resamples, random }: { readonly confidence: number; readonly resamples: number; readonly random: Random },
): Bootstrap | null {
  if (strata.length === 0 || strata.some((stratum) => stratum.length < 2)) return null;
  const sorted = strata.map((stratum) => Float64Array.from(stratum).toSorted());
  const means = new Float64Array(resamples);
  for (let round = 0; round < resamples; round++) {
    let outer = 0;
    for (const stratum of sorted) {
      let inner = 0;
      for (let drawn = 0; drawn < stratum.length; drawn++) inner += stratum[Math.floor(random.next() * stratum.length)] as number;
      outer += inner / stratum.length;
    }
    means[round] = outer / strata.length;
  }
  means.sort();
  const tail = (1 - confidence) / 2;
  return { low: quantileOf(means, tail) as number, high: quantileOf(means, 1 - tail) as number, resamples };
}
