/**
 * Learning curves in two forms. `all`: every rollout that was made. `effective`: what optimizer steps trained on. They differ, since curricula choose tasks and
 * filters drop groups: the first says how good the policy is on what it was asked, the second what it learned from. Pure.
 */
import type { Evaluation } from '../evaluation.ts';
import { outcomeOf, tasksOf, taskId, type Task } from '../outcome.ts';
import type { RolloutRow } from '../rollout-row.ts';
import type { RolloutSize } from '../rollout-sizes.ts';
import { solvedCounts, type SolvedCounts } from '../estimates.ts';
import { trendOf, type Trend } from '../statistics/agreement.ts';
import { intervalOverTasks } from '../statistics/interval.ts';
import { mean, sum, summaryOf, type Summary } from '../statistics/moments.ts';
import { stalenessSummary, type Staleness } from './staleness.ts';
import type { Dropped, TrainedRow } from './trained-rows.ts';

export type CurveAxis = 'step' | 'policyVersion';

export type AllPoint = {
  readonly x: number | null;
  readonly rollouts: number;
  readonly tasks: number;
  readonly scored: number;
  readonly failed: number;
  readonly score: Summary;
  /** Of the mean over tasks, clustered by task. */
  readonly taskMean: number | null;
  readonly low: number | null;
  readonly high: number | null;
  /** Groups (tasks, where there are none) by how many of their rollouts reach the threshold. */
  readonly solved: SolvedCounts;
  readonly outputTokens: Summary;
  readonly turns: Summary;
  readonly truncated: number;
  /** Means of the named rewards, unweighted. */
  readonly rewards: Readonly<Record<string, number | null>>;
};

export type EffectivePoint = {
  readonly x: number | null;
  readonly rows: number;
  readonly rollouts: number;
  readonly traces: number;
  readonly tokens: number | null;
  readonly trainedTokens: number | null;
  /** Over traces, each once. */
  readonly score: Summary;
  readonly advantage: Summary;
  readonly staleness: Staleness;
  readonly dropped: readonly { readonly reason: string; readonly samples: number; readonly tokens: number | null }[];
};

export type Curve<P> = { readonly env: string | null; readonly points: readonly P[]; readonly trend: Trend };

export type CurveInputs = {
  readonly evaluation: Evaluation;
  readonly sizes: ReadonlyMap<string, RolloutSize>;
  readonly xOf: (row: RolloutRow) => number | null;
  readonly namedScores: Readonly<Record<string, ReadonlyMap<string, number | null>>>;
  readonly threshold: number;
  readonly confidence: number;
};

/** One curve over all environments (`env` null), and one for each where there are several. */
export function allCurves(inputs: CurveInputs): Curve<AllPoint>[] {
  const { rollouts } = inputs.evaluation;
  const envs = new Set(rollouts.map((row) => row.env));
  const each = envs.size > 1 ? [...envs].filter((env) => env !== null).toSorted() : [];
  return [allCurve(null, rollouts, inputs), ...each.map((env) => allCurve(env, rollouts.filter((row) => row.env === env), inputs))];
} // prettier-ignore

function allCurve(env: string | null, rollouts: readonly RolloutRow[], inputs: CurveInputs): Curve<AllPoint> {
  const points = byX(rollouts, inputs.xOf).map(([x, at]) => allPoint(x, at, inputs));
  return { env, points, trend: trendOfPoints(points.map(({ x, score }) => [x, score.mean])) };
}

function allPoint(x: number | null, rollouts: readonly RolloutRow[], inputs: CurveInputs): AllPoint {
  const { scores } = inputs.evaluation;
  const judged = rollouts.flatMap((row) => {
    const score = scores.get(row.rollout) ?? null;
    return score !== null && outcomeOf(row, score, true) === 'scored' ? [score] : [];
  });
  const tasks = tasksAt(rollouts, scores);
  const means = tasks.flatMap((task) => mean(task.judged.map(({ score }) => score)) ?? []);
  const { low, high } = intervalOverTasks(means, {
    confidence: inputs.confidence,
    share: judged.every((score) => score === 0 || score === 1),
  });
  const sizes = rollouts.map((row) => inputs.sizes.get(row.rollout)).filter((size) => size !== undefined);
  return {
    x,
    rollouts: rollouts.length,
    tasks: tasks.length,
    scored: judged.length,
    failed: tasks.reduce((total, task) => total + task.counts.failed, 0),
    score: summaryOf(judged),
    taskMean: mean(means),
    low,
    high,
    solved: solvedCounts(groupsAt(rollouts, scores), { threshold: inputs.threshold, missing: 'excluded' }),
    outputTokens: summaryOf(sizes.map((size) => size.outputTokens).filter((tokens) => tokens !== null)),
    turns: summaryOf(sizes.map((size) => size.turns)),
    truncated: sizes.filter((size) => size.truncated === true).length,
    rewards: Object.fromEntries(Object.entries(inputs.namedScores).map(([name, of]) => [name, meanOfNamed(rollouts, of)])),
  };
}

function meanOfNamed(rollouts: readonly RolloutRow[], scores: ReadonlyMap<string, number | null>): number | null {
  return mean(
    rollouts.map((row) => scores.get(row.rollout) ?? null).filter((score) => score !== null && Number.isFinite(score)) as number[],
  );
}

const NO_SIZES: ReadonlyMap<string, number> = new Map();

function tasksAt(rollouts: readonly RolloutRow[], scores: ReadonlyMap<string, number | null>): Task[] {
  return tasksOf({ rollouts, scores, groupSizes: NO_SIZES, runHasEnded: true });
}

/** Groups as if each were a task of its own: the same task may be asked again at the same x. */
function groupsAt(rollouts: readonly RolloutRow[], scores: ReadonlyMap<string, number | null>): Task[] {
  return tasksAt(rollouts.map((row) => (row.group === null ? row : { ...row, taskHash: null, taskKey: JSON.stringify([row.group, taskId(row)]) })), scores);
} // prettier-ignore

export type EffectiveInputs = {
  readonly rows: readonly TrainedRow[];
  readonly dropped: readonly Dropped[];
  readonly axis: CurveAxis;
  /** Scores of a named reward by rollout; null: the reward of the trace as it was when the batch was cut. */
  readonly scores: ReadonlyMap<string, number | null> | null;
};

export function effectiveCurves(inputs: EffectiveInputs): Curve<EffectivePoint>[] {
  const envs = new Set(inputs.rows.map((row) => row.env));
  const each = envs.size > 1 ? [...envs].filter((env) => env !== null).toSorted() : [];
  return [effectiveCurve(null, inputs.rows, inputs), ...each.map((env) => effectiveCurve(env, inputs.rows.filter((row) => row.env === env), inputs))];
} // prettier-ignore

function effectiveCurve(env: string | null, rows: readonly TrainedRow[], inputs: EffectiveInputs): Curve<EffectivePoint> {
  const points = byX(rows, (row) => (inputs.axis === 'step' ? row.step : row.versionMin)).map(([x, at]) =>
    effectivePoint(x, at, inputs, env),
  );
  return { env, points, trend: trendOfPoints(points.map(({ x, score }) => [x, score.mean])) };
}

function effectivePoint(
  x: number | null,
  rows: readonly TrainedRow[],
  { scores, dropped, axis }: EffectiveInputs,
  env: string | null,
): EffectivePoint {
  const traces = [...new Map(rows.map((row) => [JSON.stringify([row.rollout, row.trace]), row])).values()];
  const score = (row: TrainedRow): number | null => (scores === null ? row.reward : (scores.get(row.rollout) ?? null));
  const known = (values: readonly (number | null)[]): number[] =>
    values.filter((value) => value !== null && Number.isFinite(value)) as number[];
  const totalOf = (values: readonly (number | null)[]): number | null => (known(values).length === 0 ? null : sum(known(values)));
  const batches = new Set(rows.map((row) => JSON.stringify([row.feed, row.n])));
  const left =
    axis === 'step' && env === null ? dropped.filter((each) => each.n !== null && batches.has(JSON.stringify([each.feed, each.n]))) : [];
  return {
    x,
    rows: rows.length,
    rollouts: new Set(rows.map((row) => row.rollout)).size,
    traces: traces.length,
    tokens: totalOf(rows.map((row) => row.tokens)),
    trainedTokens: totalOf(rows.map((row) => row.trainedTokens)),
    score: summaryOf(known(traces.map(score))),
    advantage: summaryOf(known(rows.map((row) => row.advantage))),
    staleness: stalenessSummary(rows),
    dropped: left.map(({ reason, samples, tokens }) => ({ reason, samples, tokens })),
  };
}

/** Ascending; what has no x stands last under null, so that nothing is left out in silence. */
function byX<T>(items: readonly T[], xOf: (item: T) => number | null): [number | null, T[]][] {
  return [...Map.groupBy(items, xOf)].toSorted(([a], [b]) => (a ?? Infinity) - (b ?? Infinity));
}

function trendOfPoints(points: readonly (readonly [number | null, number | null])[]): Trend {
  const known = points.filter((point): point is readonly [number, number] => point[0] !== null && point[1] !== null && Number.isFinite(point[1]));
  return trendOf(known.map(([x]) => x), known.map(([, y]) => y));
} // prettier-ignore
