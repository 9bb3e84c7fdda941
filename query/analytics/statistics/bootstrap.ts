/** Bootstrap over tasks. */
import type { Random } from '../../../base/random.ts';
import { quantileOf } from './moments.ts';

export type Bootstrap = { readonly low: number; readonly high: number; readonly resamples: number };

/**
 * Percentile interval of the mean: T tasks are drawn with replacement again and again (Efron 1979). Whole tasks are drawn, so that rollouts of a task stay
 * together. Null below two tasks, where resampling says nothing. With the same seed the same answer.
 */
export function bootstrapOverTasks(
  estimates: readonly number[],
  { confidence, resamples, random }: { readonly confidence: number; readonly resamples: number; readonly random: Random },
): Bootstrap | null {
  const tasks = estimates.length;
  if (tasks < 2) return null;
  const values = Float64Array.from(estimates).toSorted();
  const means = new Float64Array(resamples);
  for (let round = 0; round < resamples; round++) {
    let total = 0;
    for (let drawn = 0; drawn < tasks; drawn++) total += values[Math.floor(random.next() * tasks)] as number;
    means[round] = total / tasks;
  }
  means.sort();
  const tail = (1 - confidence) / 2;
  return { low: quantileOf(means, tail) as number, high: quantileOf(means, 1 - tail) as number, resamples };
}
