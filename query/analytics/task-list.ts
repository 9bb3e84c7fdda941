/** How often each task of a run was solved: for curricula and for reading what is left. Pure. */
import type { Evaluation, Selection } from './evaluation.ts';
import { measureOf, type Method } from './estimates.ts';
import { estimateTask } from './measure.ts';
import type { Outcome } from './outcome.ts';
import type { AnsweredAsOf } from './reader.ts';
import { wilson } from './statistics/interval.ts';
import { deviation, mean } from './statistics/moments.ts';

export type TaskLine = {
  readonly id: string;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
  /** Rollouts judged under the policy, and how many reach the threshold. */
  readonly n: number;
  readonly solved: number;
  readonly solveRate: number | null;
  /** Wilson's interval of the solve rate: within one task rollouts are independent. */
  readonly low: number | null;
  readonly high: number | null;
  readonly mean: number | null;
  readonly sd: number | null;
  readonly counts: Readonly<Record<Outcome, number>>;
  readonly missing: number;
};

export type TaskSort = 'task' | 'solveRate' | 'sd' | 'mean';

export type TasksAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly method: Method;
  readonly total: number;
  /** `offset` to ask for next; null at the end. Stable, since the position is: give `asOf` from this answer. */
  readonly next: number | null;
  readonly tasks: readonly TaskLine[];
};

export function taskList(evaluation: Evaluation, method: Method, page: { readonly sort: TaskSort; readonly offset: number; readonly limit: number }, context: { readonly project: string; readonly asOf: AnsweredAsOf }): TasksAnswer {
  const lines = evaluation.tasks.map((task): TaskLine => {
    const { n, solved } = estimateTask(task, measureOf('avg@k', null, method));
    const scores = task.judged.map(({ score }) => score);
    const range = n === 0 ? { low: null, high: null } : wilson(solved, n, method.confidence);
    const { id, env, taskKey, taskHash, counts, missing } = task;
    return { id, env, taskKey, taskHash, n, solved, solveRate: n === 0 ? null : solved / n, ...range, mean: mean(scores), sd: deviation(scores), counts, missing };
  });
  const value = (line: TaskLine): number => (page.sort === 'task' ? 0 : (line[page.sort] ?? Infinity));
  // most undecided first for sd, hardest first for the others
  const sorted = lines.toSorted((a, b) => (page.sort === 'sd' ? (b.sd ?? -1) - (a.sd ?? -1) : value(a) - value(b)) || (a.id < b.id ? -1 : 1));
  const end = page.offset + page.limit;
  return { ...context, selection: evaluation.selection, method, total: lines.length, next: end < lines.length ? end : null, tasks: sorted.slice(page.offset, end) };
} // prettier-ignore
