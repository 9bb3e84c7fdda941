/** What became of each rollout, and the table of tasks that every measure is computed from. Pure. */
import type { RolloutRow } from './rollout-row.ts';

/**
 * - scored: it has a score that is a finite number, however it ended.
 * - nan: its score is NaN or infinite: measured, but nothing that a mean could take.
 * - failed: no score, and it ended badly or was cancelled.
 * - unscored: no score, and it ended well or nobody said how.
 * - running: no score, and it has not ended.
 * - superseded: cancelled because another rollout took its place: counted, never judged.
 */
export type Outcome = 'scored' | 'nan' | 'failed' | 'unscored' | 'running' | 'superseded';

export const OUTCOMES: readonly Outcome[] = ['scored', 'nan', 'failed', 'unscored', 'running', 'superseded'];

export function outcomeOf(row: RolloutRow, score: number | null, runHasEnded: boolean): Outcome {
  if (row.cancelled === 'superseded') return 'superseded';
  if (score !== null) return Number.isFinite(score) ? 'scored' : 'nan';
  if (row.ok === false || row.cancelled !== null) return 'failed';
  return row.hasEnded || runHasEnded ? 'unscored' : 'running';
}

/** A rollout that was judged, with its score and what a vote or choice would go by. */
export type Judged = {
  readonly rollout: string;
  readonly score: number;
  readonly answer: number | null;
  readonly chosenBy: number | null;
};

export type Task = {
  /** Same for the same task in every run: environment and hash of its data, else its key; unique to the run where a task has neither. */
  readonly id: string;
  readonly env: string | null;
  readonly taskKey: string | null;
  readonly taskHash: string | null;
  /** False when the id is that of a group or rollout, so that no other run can have the same task. */
  readonly hasIdentity: boolean;
  readonly judged: readonly Judged[];
  readonly counts: Readonly<Record<Outcome, number>>;
  /** Rollouts that have a score although they ended badly. */
  readonly scoredThoughFailed: number;
  /** Rollouts that its groups announced and that never started. */
  readonly missing: number;
  /** Rollouts without a score that count as a reward of 0 under the policy `zero`. */
  readonly zeros: number;
};

export type TaskInputs = {
  readonly rollouts: readonly RolloutRow[];
  readonly scores: ReadonlyMap<string, number | null>;
  readonly answers?: ReadonlyMap<string, number | null>;
  readonly chosenBy?: ReadonlyMap<string, number | null>;
  readonly groupSizes: ReadonlyMap<string, number>;
  readonly runHasEnded: boolean;
};

/** Sizes of the groups of `chosen`, without those of their rollouts that are in `all` and were not chosen: they started, so they are not missing. */
export function sizesOfChosen(
  sizes: TaskInputs['groupSizes'],
  all: readonly RolloutRow[],
  chosen: readonly RolloutRow[],
): Map<string, number> {
  if (chosen.length === all.length) return new Map(sizes);
  const started = (rows: readonly RolloutRow[]): Map<string | null, RolloutRow[]> =>
    Map.groupBy(rows.filter((row) => row.cancelled !== 'superseded'), (row) => row.group); // prettier-ignore
  const [everywhere, here] = [started(all), started(chosen)];
  const elsewhere = (group: string): number => (everywhere.get(group)?.length ?? 0) - (here.get(group)?.length ?? 0);
  return new Map([...sizes].map(([group, size]) => [group, Math.max(0, size - elsewhere(group))]));
}

/** Groups rollouts by task, in order of the task ids. */
export function tasksOf(inputs: TaskInputs): Task[] {
  const byTask = Map.groupBy(inputs.rollouts, taskId);
  return [...byTask].map(([id, rollouts]) => taskOf(id, rollouts, inputs)).toSorted((a, b) => (a.id < b.id ? -1 : 1));
}

export function taskId({ env, taskHash, taskKey, taskType, group, rollout }: RolloutRow): string {
  if (taskHash !== null) return JSON.stringify([env, 'hash', taskHash]);
  if (taskKey !== null) return JSON.stringify([env, 'key', taskType, taskKey]);
  return JSON.stringify(group === null ? [env, 'rollout', rollout] : [env, 'group', group]);
}

function taskOf(id: string, rollouts: readonly RolloutRow[], inputs: TaskInputs): Task {
  const counts: Record<Outcome, number> = { scored: 0, nan: 0, failed: 0, unscored: 0, running: 0, superseded: 0 };
  const judged: Judged[] = [];
  let scoredThoughFailed = 0;
  for (const row of rollouts) {
    const score = inputs.scores.get(row.rollout) ?? null;
    const outcome = outcomeOf(row, score, inputs.runHasEnded);
    counts[outcome]++;
    if (outcome !== 'scored' || score === null) continue;
    if (row.ok === false || row.cancelled !== null) scoredThoughFailed++;
    judged.push({ rollout: row.rollout, score, answer: inputs.answers?.get(row.rollout) ?? null, chosenBy: inputs.chosenBy?.get(row.rollout) ?? null }); // prettier-ignore
  }
  const [first] = rollouts as readonly [RolloutRow, ...RolloutRow[]];
  return {
    id,
    env: first.env,
    taskKey: first.taskKey,
    taskHash: first.taskHash,
    hasIdentity: first.taskHash !== null || first.taskKey !== null,
    judged,
    counts,
    scoredThoughFailed,
    ...notJudged(rollouts, inputs, counts),
  };
}

/**
 * Rollouts that were announced and never started, and how many count as 0. Where every group says its size, no more than size minus scored can count as 0: a
 * failed attempt that was run again is not a second failure.
 */
function notJudged(rollouts: readonly RolloutRow[], inputs: TaskInputs, counts: Task['counts']): { missing: number; zeros: number } {
  const groups = Map.groupBy(rollouts, (row) => row.group);
  let missing = 0;
  let announced: number | null = 0;
  for (const [group, members] of groups) {
    const size = group === null ? undefined : inputs.groupSizes.get(group);
    const there = members.filter((row) => row.cancelled !== 'superseded').length;
    missing += Math.max(0, (size ?? there) - there);
    announced = size === undefined || announced === null ? null : announced + size;
  }
  const without = counts.failed + counts.unscored + counts.nan + missing;
  const zeros = announced === null ? without : Math.min(without, Math.max(0, announced - counts.scored - counts.running));
  return { missing, zeros };
}

/** The scores of a task under a policy for what has none. */
export type MissingPolicy = 'excluded' | 'zero';

export function judgedUnder(task: Task, policy: MissingPolicy): readonly Judged[] {
  if (policy === 'excluded' || task.zeros === 0) return task.judged;
  // where another reward chooses, what has none is chosen last
  const zero: Judged = { rollout: '', score: 0, answer: null, chosenBy: -Infinity };
  return [...task.judged, ...Array.from({ length: task.zeros }, () => zero)];
}

/** How many rollouts became what, over all tasks. */
export type OutcomeCounts = Readonly<Record<Outcome, number>> & {
  readonly rollouts: number;
  readonly tasks: number;
  readonly missing: number;
  readonly scoredThoughFailed: number;
};

export function countOutcomes(tasks: readonly Task[]): OutcomeCounts {
  const total = (of: (task: Task) => number): number => tasks.reduce((sum, task) => sum + of(task), 0);
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, total((task) => task.counts[outcome])])) as Record<Outcome, number>;
  return {
    rollouts: OUTCOMES.reduce((sum, outcome) => sum + counts[outcome], 0),
    tasks: tasks.length,
    ...counts,
    missing: total((task) => task.missing),
    scoredThoughFailed: total((task) => task.scoredThoughFailed),
  };
}
