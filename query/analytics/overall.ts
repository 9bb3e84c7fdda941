/** From one number per task to one number with its uncertainty. Pure. */
import { seededRandom } from '../../base/random.ts';
import { estimateTask, isShare, labelOf, type Measure, type TaskEstimate } from './measure.ts';
import type { Task } from './outcome.ts';
import { bootstrapOverTasks, type Bootstrap } from './statistics/bootstrap.ts';
import { intervalOverTasks, type Interval } from './statistics/interval.ts';
import { mean } from './statistics/moments.ts';
import { bootstrapOverStrata, intervalOverStrata } from './statistics/strata.ts';

export type Averaging = 'tasks' | 'envs';

export type OverallOptions = {
  readonly over: Averaging;
  readonly confidence: number;
  readonly resamples: number;
};

export type Overall = {
  readonly measure: string;
  readonly k: number | null;
  /** Null where no task has enough rollouts. */
  readonly estimate: number | null;
  readonly interval: Interval;
  /** Null below two tasks, or when no resamples were asked for. */
  readonly bootstrap: (Bootstrap & { readonly seed: number }) | null;
  /** Tasks that count: those with at least k rollouts that have a score. */
  readonly tasks: number;
  readonly leftOut: {
    readonly tasks: number;
    /** Of these, tasks that would have enough had no rollout failed, gone missing or stayed without a score. */
    readonly becauseOfMissing: number;
  };
};

export function overall(tasks: readonly Task[], measure: Measure, options: OverallOptions): Overall {
  const estimates = tasks.map((task) => estimateTask(task, measure));
  const counting = estimates.filter((estimate): estimate is TaskEstimate & { value: number } => estimate.value !== null);
  const leftOut = estimates.filter((estimate) => estimate.value === null);
  const enough = (estimate: TaskEstimate): boolean => estimate.n + (measure.policy === 'excluded' ? estimate.task.zeros : 0) >= Math.max(1, measure.k ?? 1);
  return {
    measure: labelOf(measure),
    k: measure.k,
    ...averaged(counting, measure, options),
    tasks: counting.length,
    leftOut: { tasks: leftOut.length, becauseOfMissing: leftOut.filter((estimate) => estimate.task.zeros > 0 && enough(estimate)).length },
  };
} // prettier-ignore

type Averaged = Pick<Overall, 'estimate' | 'interval' | 'bootstrap'>;

function averaged(estimates: readonly (TaskEstimate & { value: number })[], measure: Measure, options: OverallOptions): Averaged {
  const { confidence, resamples } = options;
  const share = isShare(measure);
  const resampling = { confidence, resamples, random: seededRandom(measure.seed) };
  if (options.over === 'envs') {
    const strata = [...Map.groupBy(estimates, ({ task }) => task.env).values()].map((inEnv) => inEnv.map(({ value }) => value));
    const means = strata.map((stratum) => mean(stratum) as number);
    const bootstrap = resamples === 0 ? null : bootstrapOverStrata(strata, resampling);
    return {
      estimate: mean(means),
      interval: intervalOverStrata(strata, { confidence, share }),
      bootstrap: withSeed(bootstrap, measure.seed),
    };
  }
  const values = estimates.map(({ value }) => value);
  const bootstrap = resamples === 0 ? null : bootstrapOverTasks(values, resampling);
  return {
    estimate: mean(values),
    interval: intervalOverTasks(values, { confidence, share }),
    bootstrap: withSeed(bootstrap, measure.seed),
  };
}

function withSeed(bootstrap: Bootstrap | null, seed: number): Overall['bootstrap'] {
  return bootstrap === null ? null : { ...bootstrap, seed };
}
