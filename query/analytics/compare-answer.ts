/** The answer to "is it better": paired comparisons of one base with one or several others on their common tasks. */
import { TapedeckError } from '../../base/errors.ts';
import { adjusted, commonTasks, comparePaired, pairTasks, type CommonTasks, type PairedMeasure, type TaskPair } from './compare.ts';
import { chosenKs, estimatesOf, measureOf, type EstimatesAnswer, type Method } from './estimates.ts';
import type { Evaluation, Selection } from './evaluation.ts';
import type { Task } from './outcome.ts';
import type { AnsweredAsOf } from './reader.ts';
import { differingSettings, settingsWarning, type SettingDifference, type Settings } from './settings-differ.ts';
import type { Warning } from './warning.ts';

export type NamedTask = {
  readonly id: string;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
};

export type Comparison = {
  readonly other: Selection;
  readonly commonTasks: number;
  /** Tasks that one side does not have. Lists are cut at `limit`; the counts are not. */
  readonly onlyBase: { readonly count: number; readonly tasks: readonly NamedTask[] };
  readonly onlyOther: { readonly count: number; readonly tasks: readonly NamedTask[] };
  readonly measures: readonly PairedMeasure[];
  /** Tasks by the size of their difference in the first measure, the largest first; cut at `limit`. */
  readonly tasks: readonly TaskPair[];
  readonly tasksCut: boolean;
  readonly settings: readonly SettingDifference[];
  readonly warnings: readonly Warning[];
};

export type CompareAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly method: Method;
  /** p-values are adjusted over this many comparisons (Holm), for each measure by itself. */
  readonly family: number;
  readonly base: EstimatesAnswer;
  readonly others: readonly EstimatesAnswer[];
  readonly comparisons: readonly Comparison[];
};

export type Side = { readonly evaluation: Evaluation; readonly settings: Settings };

export type CompareOptions = {
  readonly method: Method;
  readonly ks: readonly number[] | null;
  readonly limit: number;
  readonly context: { readonly project: string; readonly asOf: AnsweredAsOf };
};

/** Errors: bad_request where no task is common to both sides, or where a `k` was asked for that no common task can answer. */
export function compareAnswer(base: Side, others: readonly Side[], options: CompareOptions): CompareAnswer {
  const { method, ks, limit, context } = options;
  const paired = others.map((other) => commonTasks(base.evaluation.tasks, other.evaluation.tasks));
  for (const [place, { common }] of paired.entries()) requireCommon(base, others[place] as Side, common.length);
  // every comparison must have the same measures, or they could not be one family
  const shared = chosenKs(paired.flatMap(({ common }) => common.map(([left, right]) => smaller(left, right, method))), method.missing, ks);
  const families = adjusted(
    paired.map(({ common }) => [comparePaired(common, 'avg@k', null, method), ...shared.map((k) => comparePaired(common, 'pass@k', k, method)), ...shared.filter((k) => k > 1).map((k) => comparePaired(common, 'pass^k', k, method))]),
    method.confidence,
  );
  return {
    ...context,
    method,
    family: others.length,
    base: estimatesOf(base.evaluation, method, null, context),
    others: others.map((other) => estimatesOf(other.evaluation, method, null, context)),
    comparisons: others.map((other, place) => comparisonOf(base, other, paired[place] as CommonTasks, families[place] as PairedMeasure[], method, limit)),
  };
} // prettier-ignore

function smaller(left: Task, right: Task, { missing }: Method): Task {
  const size = (task: Task): number => task.judged.length + (missing === 'zero' ? task.zeros : 0);
  return size(left) <= size(right) ? left : right;
}

function requireCommon(base: Side, other: Side, common: number): void {
  const [left, right] = [base.evaluation, other.evaluation];
  if (common > 0 || left.tasks.length === 0 || right.tasks.length === 0) return;
  throw new TapedeckError(
    'bad_request',
    `"${left.selection.run}" and "${right.selection.run}" have no task in common: tasks are the same when environment and hash (or, without a hash, key) are. Compare runs of the same tasks`,
    { details: { baseTasks: left.tasks.length, otherTasks: right.tasks.length } },
  );
}

function comparisonOf(base: Side, other: Side, tasks: CommonTasks, measures: PairedMeasure[], method: Method, limit: number): Comparison {
  const first = measures.find(({ measure }) => measure === 'pass@1') ?? measures[0];
  const pairs = first === undefined ? [] : pairTasks(tasks.common, measureOf(first.k === null ? 'avg@k' : 'pass@k', first.k, method));
  const sorted = pairs.toSorted((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || (a.id < b.id ? -1 : 1));
  const settings = differingSettings(base.settings, other.settings);
  const only = (list: readonly Task[]): Comparison['onlyBase'] => ({ count: list.length, tasks: list.slice(0, limit).map(named) });
  const apart = tasks.onlyBase.length + tasks.onlyOther.length;
  const differ: Warning[] = apart === 0 ? [] : [{ code: 'tasks_differ', message: `${apart} tasks are on one side only and were left out (${tasks.onlyBase.length} of the base, ${tasks.onlyOther.length} of the other)` }];
  return {
    other: other.evaluation.selection,
    commonTasks: tasks.common.length,
    onlyBase: only(tasks.onlyBase),
    onlyOther: only(tasks.onlyOther),
    measures,
    tasks: sorted.slice(0, limit),
    tasksCut: sorted.length > limit,
    settings,
    warnings: [...differ, ...settingsWarning(settings)],
  };
} // prettier-ignore

function named({ id, env, taskKey, taskHash }: Task): NamedTask {
  return { id, env, taskKey, taskHash };
}
