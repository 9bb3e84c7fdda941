/** Confidence intervals for a mean over tasks. The task is the unit: rollouts of one task are not independent of each other. */
import { deviation, mean } from './moments.ts';
import { betaQuantile, normalQuantile, studentQuantile } from './special-functions.ts';

export type IntervalMethod = 't over tasks' | 't over tasks within envs' | 'Wilson over tasks' | 'Clopper-Pearson over tasks' | 'none';

export type Interval = {
  /** Null where there is nothing to estimate it from. */
  readonly low: number | null;
  readonly high: number | null;
  readonly method: IntervalMethod;
  /** Standard error: standard deviation of the estimates per task over sqrt(T); null for one task. */
  readonly se: number | null;
};

/** What is known of the estimates: how many tasks, and whether they are shares of successes in [0, 1]. */
export type IntervalOptions = {
  readonly confidence: number;
  /** Estimates are shares of binary outcomes: a certain value can then still have a width, and limits lie in [0, 1]. */
  readonly share: boolean;
};

/**
 * The interval of the mean of one estimate per task.
 * - Shares that are all equal: Clopper and Pearson 1934 over tasks, since no spread was seen (with T times the share as successes, which need not be whole).
 * - Shares that are each 0 or 1, as from one rollout a task: Wilson 1927 over tasks.
 * - Else mean +- t(T-1) * SE, SE = sd / sqrt(T): the error clustered by task. Source: Miller 2024, "Adding Error Bars to Evals", arXiv 2411.00640, sections 2.1-2.2,
 *   with t in place of z, which matters below some 30 tasks.
 * Shares are cut to [0, 1].
 */
export function intervalOverTasks(estimates: readonly number[], { confidence, share }: IntervalOptions): Interval {
  const tasks = estimates.length;
  const spread = deviation(estimates);
  const se = spread === null ? null : spread / Math.sqrt(tasks);
  if (tasks === 0) return { low: null, high: null, method: 'none', se };
  const [first] = estimates as readonly [number, ...number[]];
  if (share && estimates.every((value) => value === first)) {
    return { ...clopperPearson(first * tasks, tasks, confidence), method: 'Clopper-Pearson over tasks', se };
  }
  if (share && estimates.every((value) => value === 0 || value === 1)) {
    const successes = estimates.filter((value) => value === 1).length;
    return { ...wilson(successes, tasks, confidence), method: 'Wilson over tasks', se };
  }
  if (se === null || Number.isNaN(se)) return { low: null, high: null, method: 'none', se };
  const centre = mean(estimates) as number;
  const half = studentQuantile(1 - (1 - confidence) / 2, tasks - 1) * se;
  const cut = (value: number): number => (share ? Math.min(1, Math.max(0, value)) : value);
  return { low: cut(centre - half), high: cut(centre + half), method: 't over tasks', se };
}

/** Wilson 1927, "Probable Inference, the Law of Succession, and Statistical Inference". For independent trials only. */
export function wilson(successes: number, trials: number, confidence: number): { low: number; high: number } {
  const z = normalQuantile(1 - (1 - confidence) / 2);
  const p = successes / trials;
  const z2 = (z * z) / trials;
  const centre = (p + z2 / 2) / (1 + z2);
  const half = (z / (1 + z2)) * Math.sqrt((p * (1 - p)) / trials + z2 / (4 * trials));
  return { low: Math.max(0, centre - half), high: Math.min(1, centre + half) };
}

/** Clopper and Pearson 1934: exact, from the beta distribution; never below its confidence. */
export function clopperPearson(successes: number, trials: number, confidence: number): { low: number; high: number } {
  const tail = (1 - confidence) / 2;
  return {
    low: successes === 0 ? 0 : betaQuantile(tail, successes, trials - successes + 1),
    high: successes === trials ? 1 : betaQuantile(1 - tail, successes + 1, trials - successes),
  };
}
