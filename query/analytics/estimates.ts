/** The answer to "how good is it": every measure with its uncertainty, and what it was computed from. */
import { TapedeckError } from '../../base/errors.ts';
import type { Evaluation, ScoreSpec, Selection } from './evaluation.ts';
import { labelOf, type Measure, type MeasureName } from './measure.ts';
import { countOutcomes, judgedUnder, type MissingPolicy, type OutcomeCounts, type Task } from './outcome.ts';
import { overall, type Averaging, type Overall } from './overall.ts';
import type { AnsweredAsOf } from './reader.ts';
import { warningsOf, type Warning } from './warning.ts';

/** How estimates are made; said again in every answer. */
export type Method = ScoreSpec & {
  readonly threshold: number;
  readonly missing: MissingPolicy;
  readonly over: Averaging;
  readonly confidence: number;
  readonly resamples: number;
  readonly seed: number;
};

export type SolvedCounts = { readonly none: number; readonly some: number; readonly all: number; readonly unjudged: number };

export type Estimates = {
  readonly passAtK: readonly Overall[];
  readonly passHatK: readonly Overall[];
  readonly avg: Overall;
  readonly bestAtK: readonly Overall[];
  /** Null where no answer metric was named. */
  readonly majority: readonly Overall[] | null;
};

export type EstimatesAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly model: string | null;
  readonly method: Method;
  readonly counts: OutcomeCounts;
  readonly solved: SolvedCounts;
  readonly estimates: Estimates;
  /** The same under the other policy for rollouts without a score. */
  readonly otherPolicy: { readonly missing: MissingPolicy; readonly estimates: Estimates };
  readonly envs: readonly {
    readonly env: string | null;
    readonly counts: OutcomeCounts;
    readonly solved: SolvedCounts;
    readonly estimates: Estimates;
  }[];
  readonly warnings: readonly Warning[];
};

/** Errors: bad_request where a `k` was asked for that no task can answer. */
export function estimatesOf(evaluation: Evaluation, method: Method, asked: readonly number[] | null, context: { readonly project: string; readonly asOf: AnsweredAsOf }): EstimatesAnswer {
  const { tasks } = evaluation;
  const counts = countOutcomes(tasks);
  const ks = chosenKs(tasks, method.missing, asked);
  const other: MissingPolicy = method.missing === 'excluded' ? 'zero' : 'excluded';
  const unsettled: Warning[] = context.asOf.settled ? [] : [{ code: 'unsettled', message: 'some log partition holds no record later than this time yet, so the time may come to mean more: keep the position' }];
  return {
    ...context,
    selection: evaluation.selection,
    model: evaluation.model,
    method,
    counts,
    solved: solvedCounts(tasks, method),
    estimates: estimatesUnder(tasks, method, ks),
    otherPolicy: { missing: other, estimates: estimatesUnder(tasks, { ...method, missing: other }, ks) },
    envs: [...Map.groupBy(tasks, (task) => task.env)].map(([env, inEnv]) => ({
      env,
      counts: countOutcomes(inEnv),
      solved: solvedCounts(inEnv, method),
      estimates: estimatesUnder(inEnv, method, ks),
    })),
    warnings: [...unsettled, ...evaluation.warnings, ...warningsOf(tasks, counts)],
  };
} // prettier-ignore

function estimatesUnder(tasks: readonly Task[], method: Method, ks: readonly number[]): Estimates {
  const of = (name: MeasureName, k: number | null): Overall => overall(tasks, measureOf(name, k, method), method);
  return {
    passAtK: ks.map((k) => of('pass@k', k)),
    passHatK: ks.map((k) => of('pass^k', k)),
    avg: of('avg@k', null),
    bestAtK: ks.map((k) => of('best@k', k)),
    majority: method.answer === null ? null : ks.map((k) => of('maj@k', k)),
  };
}

export function measureOf(name: MeasureName, k: number | null, { threshold, missing, seed, chooseBy }: Method): Measure {
  return { name, k, threshold, policy: missing, seed, choosesByOther: chooseBy !== null };
}

/** Powers of two up to the most rollouts that a task has, and that number itself; or what was asked for. */
export function chosenKs(tasks: readonly Task[], policy: MissingPolicy, asked: readonly number[] | null): number[] {
  const most = tasks.reduce((largest, task) => Math.max(largest, judgedUnder(task, policy).length), 0);
  if (asked !== null) {
    const beyond = asked.filter((k) => k > most);
    if (beyond.length > 0 && most > 0) throw tooLarge(beyond, most, policy);
    return [...new Set(asked)].toSorted((a, b) => a - b);
  }
  const powers = Array.from({ length: 31 }, (_, power) => 2 ** power).filter((k) => k <= most);
  return [...new Set([...powers, ...(most > 0 ? [most] : [])])];
}

function tooLarge(beyond: readonly number[], most: number, policy: MissingPolicy): TapedeckError {
  const what = policy === 'excluded' ? 'rollouts with a score' : 'rollouts';
  return new TapedeckError(
    'bad_request',
    `${labelOf({ name: 'pass@k', k: beyond[0] as number })} cannot be estimated: no task has more than ${most} ${what}. Ask for k <= ${most}, or sample more rollouts a task`,
    { details: { k: beyond, most } },
  );
}

/** Tasks by how many of their judged rollouts reach the threshold. */
export function solvedCounts(tasks: readonly Task[], { threshold, missing }: Pick<Method, 'threshold' | 'missing'>): SolvedCounts {
  const counts = { none: 0, some: 0, all: 0, unjudged: 0 };
  for (const task of tasks) {
    const judged = judgedUnder(task, missing);
    const solved = judged.filter(({ score }) => score >= threshold).length;
    if (judged.length === 0) counts.unjudged++;
    else if (solved === 0) counts.none++;
    else if (solved === judged.length) counts.all++;
    else counts.some++;
  }
  return counts;
}
