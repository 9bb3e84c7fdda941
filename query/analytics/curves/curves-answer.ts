/** Reads and computes learning curves. */
import { loadEvaluation, versionsOf, type Selection } from '../evaluation.ts';
import type { AnsweredAsOf, Reader } from '../reader.ts';
import { readNames, readScores, readVersions } from '../rollout-facts.ts';
import { readSizes } from '../rollout-sizes.ts';
import type { Warning } from '../warning.ts';
import { allCurves, effectiveCurves, type AllPoint, type Curve, type CurveAxis, type EffectivePoint } from './curves.ts';
import { stalenessSummary, type Staleness } from './staleness.ts';
import { readDropped, readTrainedRows, type Dropped } from './trained-rows.ts';

/** Rewards whose means each point names. */
const MAX_NAMED = 20;

export type CurvesRequest = {
  readonly selection: Selection;
  readonly axis: CurveAxis;
  readonly feed: string | null;
  readonly reward: string | null;
  readonly threshold: number;
  readonly confidence: number;
};

export type CurvesAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly by: CurveAxis;
  readonly reward: string | null;
  readonly threshold: number;
  readonly all: readonly Curve<AllPoint>[];
  readonly effective: readonly Curve<EffectivePoint>[];
  /** Over all rows that were trained on. */
  readonly staleness: Staleness;
  readonly dropped: readonly Dropped[];
  readonly warnings: readonly Warning[];
};

/** Errors as `loadEvaluation`. */
export async function readCurves(reader: Reader, { selection, axis, feed, reward, threshold, confidence }: CurvesRequest): Promise<CurvesAnswer> {
  const { run } = selection;
  const evaluation = await loadEvaluation(reader, selection, { reward, answer: null, chooseBy: null });
  const among = evaluation.isWholeRun ? null : evaluation.rollouts.map((row) => row.rollout);
  const [sizes, versions, names, rows, dropped] = await Promise.all([
    readSizes(reader, run, evaluation.rollouts, among),
    axis === 'policyVersion' ? readVersions(reader, run) : new Map<string, never>(),
    readNames(reader, run),
    readTrainedRows(reader, run, feed),
    readDropped(reader, run, feed),
  ]);
  const named = reward === null ? names.rewards.slice(0, MAX_NAMED) : [];
  const namedScores = Object.fromEntries(await Promise.all(named.map(async (name) => [name, await readScores(reader, run, name)] as const)));
  const chosen = new Set(among ?? []);
  const trained = rows.filter((row) => (among === null || chosen.has(row.rollout)) && (selection.env === undefined || row.env === selection.env));
  const warnings: Warning[] = names.rewards.length > named.length && reward === null ? [{ code: 'cut', message: `only the first ${MAX_NAMED} of ${names.rewards.length} rewards have means of their own` }] : [];
  return {
    project: reader.project,
    asOf: reader.asOf,
    selection,
    by: axis,
    reward,
    threshold,
    all: allCurves({ evaluation, sizes, namedScores, threshold, confidence, xOf: (row) => (axis === 'step' ? row.step : versionsOf(row, versions).min) }),
    effective: effectiveCurves({ rows: trained, dropped, axis, scores: reward === null ? null : evaluation.scores }),
    staleness: stalenessSummary(trained),
    dropped,
    warnings: [...evaluation.warnings, ...warnings],
  };
} // prettier-ignore
