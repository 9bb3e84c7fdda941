/** The rollouts of one side of a question, judged and grouped by task. */
import { TapedeckError } from '../../base/errors.ts';
import { sizesOfChosen, tasksOf, type Task } from './outcome.ts';
import type { Reader } from './reader.ts';
import { readGroupSizes, readMetric, readNames, readAllRollouts, readRun, readScores, readVersions } from './rollout-facts.ts';
import type { RolloutRow } from './rollout-row.ts';
import type { Warning } from './warning.ts';

/** Which rollouts of a run are meant. */
export type Selection = {
  readonly run: string;
  readonly env?: string | undefined;
  readonly workType?: 'train' | 'eval' | undefined;
  readonly step?: number | undefined;
  /** The version a rollout began under: the oldest that sampled in it. */
  readonly policyVersion?: number | undefined;
};

/** What they are judged by. */
export type ScoreSpec = {
  /** Null: the reward of the rollout, the sum of score times weight. */
  readonly reward: string | null;
  /** Metric that holds the answer of a rollout, for majority votes. */
  readonly answer: string | null;
  /** Reward that best@k chooses by; null: the one it is judged by. */
  readonly chooseBy: string | null;
};

export type Evaluation = {
  readonly selection: Selection;
  readonly model: string | null;
  readonly rollouts: readonly RolloutRow[];
  readonly scores: ReadonlyMap<string, number | null>;
  /** What the groups announced, without rollouts that were not selected. */
  readonly groupSizes: ReadonlyMap<string, number>;
  readonly runHasEnded: boolean;
  readonly tasks: readonly Task[];
  readonly warnings: readonly Warning[];
  /** Whether these are all rollouts that the run's facts speak of, so that facts need no narrowing. */
  readonly isWholeRun: boolean;
};

/** Errors: not_found (no such run at this position), bad_request (no such reward or metric in it). */
export async function loadEvaluation(reader: Reader, selection: Selection, spec: ScoreSpec): Promise<Evaluation> {
  const { run } = selection;
  const names = [spec.reward, spec.answer, spec.chooseBy].some((name) => name !== null) ? await readNames(reader, run) : null;
  const [about, { rollouts: all, mirrors }, scores, answers, chosenBy, announced] = await Promise.all([
    readRun(reader, run),
    readAllRollouts(reader, run),
    readScores(reader, run, spec.reward),
    spec.answer === null ? null : readMetric(reader, run, spec.answer),
    spec.chooseBy === null ? null : readScores(reader, run, spec.chooseBy),
    readGroupSizes(reader, run),
  ]);
  if (!about.known && all.length === 0) throw noRun(reader, run);
  if (names !== null && all.length > 0) requireNames(names, spec, run);
  const { rollouts, warnings } = await select(reader, all, selection);
  const groupSizes = sizesOfChosen(announced, all, rollouts);
  const tasks = tasksOf({
    rollouts,
    scores,
    groupSizes,
    runHasEnded: about.hasEnded,
    ...(answers === null ? {} : { answers }),
    ...(chosenBy === null ? {} : { chosenBy }),
  });
  const isWholeRun = mirrors === 0 && rollouts.length === all.length;
  return { selection, model: about.model, rollouts, scores, groupSizes, runHasEnded: about.hasEnded, tasks, warnings, isWholeRun };
}

function noRun(reader: Reader, run: string): TapedeckError {
  return new TapedeckError(
    'not_found',
    `there is no run "${run}" in the project "${reader.project}" at the position ${reader.asOf.position}: list the runs with tapedeck sql "SELECT run FROM runs"`,
    { details: { run, project: reader.project, asOf: reader.asOf.position } },
  );
}

function requireNames(names: { readonly rewards: readonly string[]; readonly metrics: readonly string[] }, spec: ScoreSpec, run: string): void {
  const required = (name: string | null, among: readonly string[], kind: string): void => {
    if (name === null || among.includes(name)) return;
    const there = among.length === 0 ? `it has no ${kind}s at all` : `it has ${among.slice(0, 20).map((each) => `"${each}"`).join(', ')}${among.length > 20 ? ', …' : ''}`; // prettier-ignore
    throw new TapedeckError('bad_request', `the run "${run}" has no ${kind} "${name}": ${there}`, { details: { name, [`${kind}s`]: among.slice(0, 100) } });
  };
  required(spec.reward, names.rewards, 'reward');
  required(spec.chooseBy, names.rewards, 'reward');
  required(spec.answer, names.metrics, 'metric');
} // prettier-ignore

async function select(reader: Reader, all: readonly RolloutRow[], selection: Selection): Promise<Pick<Evaluation, 'rollouts' | 'warnings'>> {
  const { env, workType, step, policyVersion } = selection;
  const chosen = all.filter(
    (row) => (env === undefined || row.env === env) && (workType === undefined || row.workType === workType) && (step === undefined || row.step === step),
  );
  if (policyVersion === undefined) return { rollouts: chosen, warnings: [] };
  const versions = await readVersions(reader, selection.run);
  const ofVersion = chosen.filter((row) => versionsOf(row, versions).min === policyVersion);
  const mixed = ofVersion.filter((row) => versionsOf(row, versions).max !== policyVersion).length;
  const warnings: Warning[] =
    mixed === 0 ? [] : [{ code: 'mixed_versions', message: `${mixed} of ${ofVersion.length} rollouts of version ${policyVersion} went on under newer weights` }];
  return { rollouts: ofVersion, warnings };
} // prettier-ignore

export type Versions = { readonly min: number | null; readonly max: number | null };

/** Oldest and newest version of a rollout: what its nodes and calls say, and what it said itself. */
export function versionsOf(row: RolloutRow, versions: ReadonlyMap<string, Versions>): Versions {
  const inside = versions.get(row.rollout);
  const known = [inside?.min, inside?.max, row.policyVersion, row.policyVersionEnd].filter((version) => typeof version === 'number');
  const oldest = [inside?.min, row.policyVersion].filter((version) => typeof version === 'number');
  return { min: oldest.length === 0 ? null : Math.min(...oldest), max: known.length === 0 ? null : Math.max(...known) };
}
