/** Which policy version is best by a measure, and which others cannot be told from it. */
import { adjusted, commonTasks, comparePaired } from './compare.ts';
import { countOutcomes, sizesOfChosen, tasksOf, type OutcomeCounts, type Task } from './outcome.ts';
import { measureOf, type Method } from './estimates.ts';
import { loadEvaluation, versionsOf, type Evaluation, type Selection } from './evaluation.ts';
import type { MeasureName } from './measure.ts';
import { overall, type Overall } from './overall.ts';
import type { AnsweredAsOf, Reader } from './reader.ts';
import { readVersions } from './rollout-facts.ts';
import { intOf, type StoredInt } from './stored-number.ts';
import { warningsOf, type Warning } from './warning.ts';

/** Versions that are compared with the best. */
const MAX_VERSIONS = 200;

export type Checkpoint = {
  readonly policyVersion: number;
  readonly step: number | null;
  /** Where its weights lie, as policy.published said. */
  readonly uri: string | null;
  readonly counts: OutcomeCounts;
  readonly estimate: Overall;
  /** Paired with the best over their common tasks, p adjusted by Holm; null for the best itself and where no task is common. */
  readonly againstBest: { readonly tasks: number; readonly difference: number | null; readonly pAdjusted: number | null } | null;
  /** False where the paired comparison says it is worse; true where it cannot be told from the best. */
  readonly mayBeBest: boolean;
};

export type CheckpointsAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly method: Method;
  readonly measure: string;
  readonly best: number | null;
  readonly checkpoints: readonly Checkpoint[];
  readonly warnings: readonly Warning[];
};

/** Errors as `loadEvaluation`. The best of many is partly luck: its estimate is too high, so read `mayBeBest`. */
export async function readCheckpoints(reader: Reader, selection: Selection, method: Method, measure: { readonly name: MeasureName; readonly k: number | null }): Promise<CheckpointsAnswer> {
  const { run } = selection;
  const evaluation = await loadEvaluation(reader, selection, method);
  const [versions, published] = await Promise.all([readVersions(reader, run), readPublished(reader, run)]);
  const byVersion = Map.groupBy(evaluation.rollouts, (row) => versionsOf(row, versions).min);
  const unversioned = byVersion.get(null)?.length ?? 0;
  byVersion.delete(null);
  const { scores, groupSizes, runHasEnded } = evaluation;
  const tasksAt = (rollouts: Evaluation['rollouts']): Task[] => tasksOf({ rollouts, scores, groupSizes: sizesOfChosen(groupSizes, evaluation.rollouts, rollouts), runHasEnded });
  const known = [...byVersion].map(([version, rollouts]): [number, Task[]] => [version as number, tasksAt(rollouts)]);
  const newest = known.toSorted(([a], [b]) => a - b).slice(-MAX_VERSIONS);
  const chosen = measureOf(measure.name, measure.k, method);
  const rated = newest.map(([version, tasks]) => ({ version, tasks, estimate: overall(tasks, chosen, method) }));
  const best = rated.reduce<(typeof rated)[number] | null>((top, each) => ((each.estimate.estimate ?? -Infinity) > (top?.estimate.estimate ?? -Infinity) ? each : top), null);
  const warnings: Warning[] = [];
  if (unversioned > 0) warnings.push({ code: 'mixed_versions', message: `${unversioned} rollouts have no policy version and were left out` });
  if (known.length > newest.length) warnings.push({ code: 'cut', message: `only the newest ${MAX_VERSIONS} of ${known.length} versions were rated` });
  return {
    project: reader.project,
    asOf: reader.asOf,
    selection,
    method,
    measure: overall([], chosen, method).measure,
    best: best?.version ?? null,
    checkpoints: againstBest(rated, best, measure, method).map(({ version, tasks, estimate, paired }) => ({
      policyVersion: version,
      step: published.get(version)?.step ?? null,
      uri: published.get(version)?.uri ?? null,
      counts: countOutcomes(tasks),
      estimate,
      againstBest: paired === null ? null : { tasks: paired.tasks, difference: paired.paired.difference, pAdjusted: paired.pAdjusted },
      mayBeBest: estimate.estimate !== null && paired?.verdict !== 'worse',
    })),
    warnings: [...evaluation.warnings, ...warnings, ...warningsOf(evaluation.tasks, countOutcomes(evaluation.tasks))],
  };
} // prettier-ignore

type Rated = { readonly version: number; readonly tasks: readonly Task[]; readonly estimate: Overall };

function againstBest(rated: readonly Rated[], best: Rated | null, measure: { readonly name: MeasureName; readonly k: number | null }, method: Method) {
  const others = best === null ? [] : rated.filter((each) => each !== best);
  const paired = others.map((each) => [comparePaired(commonTasks(best?.tasks ?? [], each.tasks).common, measure.name, measure.k, { ...method, resamples: 0 })]);
  const families = adjusted(paired, method.confidence);
  return rated.map((each) => ({ ...each, paired: each === best ? null : (families[others.indexOf(each)]?.[0] ?? null) }));
} // prettier-ignore

async function readPublished(reader: Reader, run: string): Promise<Map<number, { step: number | null; uri: string | null }>> {
  const rows = await reader.rows<{ version: StoredInt; last: [StoredInt, string | null] }>(
    `SELECT version, argMax(tuple(step, uri), (timeline, _offset, _partition)) AS last FROM policies FINAL WHERE ${reader.within()} AND run = {run:String} GROUP BY version`,
    { run },
  );
  return new Map(rows.map(({ version, last }) => [Number(version), { step: intOf(last[0]), uri: last[1] }]));
}
