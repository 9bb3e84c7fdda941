/** What estimates and comparisons answer. */
import { z } from 'zod';
import type { PairedMeasure } from '../../analytics/compare.ts';
import type { CompareAnswer } from '../../analytics/compare-answer.ts';
import type { Estimates, EstimatesAnswer } from '../../analytics/estimates.ts';
import type { Overall } from '../../analytics/overall.ts';
import type { TasksAnswer } from '../../analytics/task-list.ts';
import type { Warning } from '../../analytics/warning.ts';
import { jsonFloat, whole, type AsJson } from './answer-schema.ts';

const asOf = z.object({
  position: z.string(),
  settled: z.boolean().meta({ description: 'False for a time that some partition has not passed yet: keep the position.' }),
});
export const answered = { project: z.string(), asOf };
export const number = jsonFloat.nullable();
const missing = z.enum(['excluded', 'zero']);
export const selection = z.object({
  run: z.string(),
  env: z.string().optional(),
  workType: z.enum(['train', 'eval']).optional(),
  step: whole.optional(),
  policyVersion: whole.optional(),
});
export const method = z.object({
  reward: z.string().nullable(),
  answer: z.string().nullable(),
  chooseBy: z.string().nullable(),
  threshold: z.number(),
  missing,
  over: z.enum(['tasks', 'envs']),
  confidence: z.number(),
  resamples: whole,
  seed: whole,
});
const warning = z.object({
  code: z.enum(['no_rollouts', 'no_scores', 'nan_scores', 'left_out', 'scored_though_failed', 'running', 'few_tasks', 'no_identity', 'mixed_versions', 'unsettled', 'settings_differ', 'tasks_differ', 'cut']),
  message: z.string(),
}).meta({ title: 'Warning' }) satisfies z.ZodType<Warning>; // prettier-ignore
export const warnings = z.array(warning);

const interval = z
  .object({
    low: number,
    high: number,
    method: z.enum(['t over tasks', 't over tasks within envs', 'Wilson over tasks', 'Clopper-Pearson over tasks', 'none']),
    se: number.meta({ description: 'Standard error: deviation of the estimates per task over sqrt(T); null for one task.' }),
  })
  .meta({ title: 'Interval' });
const bootstrap = z.object({ low: jsonFloat, high: jsonFloat, resamples: whole, seed: whole }).nullable();

export const overall = z
  .object({
    measure: z.string(),
    k: whole.nullable(),
    estimate: number.meta({ description: 'Null where no task has enough rollouts.' }),
    interval,
    bootstrap,
    tasks: whole.meta({ description: 'Tasks that count.' }),
    leftOut: z.object({ tasks: whole, becauseOfMissing: whole }),
  })
  .meta({ title: 'Overall' }) satisfies z.ZodType<AsJson<Overall>>;

const estimates = z
  .object({
    passAtK: z.array(overall),
    passHatK: z.array(overall),
    avg: overall,
    bestAtK: z.array(overall),
    majority: z.array(overall).nullable().meta({ description: 'Null where no answer metric was named.' }),
  })
  .meta({ title: 'Estimates' }) satisfies z.ZodType<AsJson<Estimates>>;
const outcomeCounts = { scored: whole, nan: whole, failed: whole, unscored: whole, running: whole, superseded: whole };
export const outcomes = z.object({
  rollouts: whole,
  tasks: whole,
  ...outcomeCounts,
  missing: whole,
  scoredThoughFailed: whole,
});
export const solved = z.object({ none: whole, some: whole, all: whole, unjudged: whole });

export const estimatesAnswer = z
  .object({
    ...answered,
    selection,
    model: z.string().nullable(),
    method,
    counts: outcomes,
    solved,
    estimates,
    otherPolicy: z.object({ missing, estimates }),
    envs: z.array(z.object({ env: z.string().nullable(), counts: outcomes, solved, estimates })),
    warnings,
  })
  .meta({ title: 'EstimatesAnswer' }) satisfies z.ZodType<AsJson<EstimatesAnswer>>;

const side = z.object({ estimate: number, interval });
const measure = z
  .object({
    measure: z.string(),
    k: whole.nullable(),
    tasks: whole,
    leftOut: whole,
    base: side,
    other: side,
    paired: z.object({ difference: number, se: number, low: number, high: number, p: number }),
    bootstrap,
    signFlip: z.object({ p: z.number(), method: z.enum(['exact', 'Monte Carlo']), patterns: z.number() }).nullable(),
    mcNemar: z.object({ onlyBase: whole, onlyOther: whole, p: z.number() }).nullable(),
    pAdjusted: number.meta({ description: 'The sign-flip p adjusted by Holm over all comparisons of this measure.' }),
    won: whole,
    lost: whole,
    tied: whole,
    minimumDetectable: number,
    tasksNeeded: number,
    verdict: z.enum(['better', 'worse', 'not decided', 'no data']),
  })
  .meta({ title: 'PairedMeasure' }) satisfies z.ZodType<AsJson<PairedMeasure>>;

const named = { id: z.string(), env: z.string().nullable(), taskKey: z.string().nullable(), taskHash: z.string().nullable() };
const onlyOne = z.object({ count: whole, tasks: z.array(z.object(named)) });
const taskSide = z.object({ n: whole, solved: whole, value: jsonFloat });

export const compareAnswer = z
  .object({
    ...answered,
    method,
    family: whole.meta({ description: 'p-values are adjusted over this many comparisons (Holm), for each measure by itself.' }),
    base: estimatesAnswer,
    others: z.array(estimatesAnswer),
    comparisons: z.array(
      z.object({
        other: selection,
        commonTasks: whole,
        onlyBase: onlyOne,
        onlyOther: onlyOne,
        measures: z.array(measure),
        tasks: z.array(z.object({ ...named, base: taskSide, other: taskSide, difference: jsonFloat })),
        tasksCut: z.boolean(),
        settings: z.array(z.object({ setting: z.string(), base: z.array(z.string()), other: z.array(z.string()) })),
        warnings,
      }),
    ),
  })
  .meta({ title: 'CompareAnswer' }) satisfies z.ZodType<AsJson<CompareAnswer>>;

export const tasksAnswer = z
  .object({
    ...answered,
    selection,
    method,
    total: whole,
    next: whole.nullable().meta({ description: '`offset` to ask for next, with `asOf` from this answer; null at the end.' }),
    tasks: z.array(
      z.object({
        ...named,
        n: whole,
        solved: whole,
        solveRate: number,
        low: number,
        high: number,
        mean: number,
        sd: number,
        counts: z.object(outcomeCounts),
        missing: whole,
      }),
    ),
  })
  .meta({ title: 'TasksAnswer' }) satisfies z.ZodType<AsJson<TasksAnswer>>;
