/** Where the reward comes from: each named reward and metric of the rollouts. */
import { amongRollouts } from '../chosen-rollouts.ts';
import type { Reader } from '../reader.ts';
import { mean, summaryOf, type Summary } from '../statistics/moments.ts';
import { floatOf, type StoredFloat } from '../stored-number.ts';

export type RewardPart = {
  readonly name: string;
  readonly scope: string;
  readonly sourceKinds: readonly string[];
  /** Assigned without a score, and with NaN or an infinity: neither is in the figures. */
  readonly missing: number;
  readonly nan: number;
  readonly score: Summary;
  readonly weights: readonly number[];
  /** Mean of score times weight over the rollouts that have it. */
  readonly contribution: number | null;
  /** Rollouts that have it. */
  readonly rollouts: number;
};

export type MetricPart = {
  readonly name: string;
  readonly scope: string;
  readonly missing: number;
  readonly nan: number;
  readonly value: Summary;
};

type RewardRow = { rollout: string; scope: string; name: string; score: StoredFloat; weight: StoredFloat; kind: string | null };
type MetricRow = { scope: string; name: string; value: StoredFloat };

export async function readRewardParts(reader: Reader, run: string, among: readonly string[] | null): Promise<RewardPart[]> {
  const rows = await reader.rows<RewardRow>(
    `SELECT rollout, scope, name, tupleElement(last, 1) AS score, tupleElement(last, 2) AS weight, tupleElement(last, 3) AS kind FROM (
       SELECT rollout, scope, trace, _node, name, argMax(tuple(score, ifNull(weight, 1.), source_kind), _offset) AS last
       FROM reward_events FINAL WHERE ${reader.within()} AND run = {run:String}${amongRollouts(among)} GROUP BY rollout, scope, trace, _node, name)`,
    { run },
  );
  const parts = [...Map.groupBy(rows, (row) => JSON.stringify([row.name, row.scope])).values()];
  return parts.map(rewardPart).toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.scope < b.scope ? -1 : 1));
}

function rewardPart(rows: readonly RewardRow[]): RewardPart {
  const [first] = rows as readonly [RewardRow, ...RewardRow[]];
  const { scores, missing, nan } = numbersOf(rows.map((row) => row.score));
  const weighted = rows.flatMap((row) => {
    const [score, weight] = [floatOf(row.score), floatOf(row.weight)];
    return score === null || weight === null || !Number.isFinite(score) ? [] : [score * weight];
  });
  return {
    name: first.name,
    scope: first.scope,
    sourceKinds: [...new Set(rows.flatMap((row) => (row.kind === null ? [] : [row.kind])))].toSorted(),
    missing,
    nan,
    score: summaryOf(scores),
    weights: [...new Set(rows.map((row) => floatOf(row.weight) ?? 1))].toSorted((a, b) => a - b),
    contribution: mean(weighted),
    rollouts: new Set(rows.map((row) => row.rollout)).size,
  };
}

export async function readMetricParts(reader: Reader, run: string, among: readonly string[] | null): Promise<MetricPart[]> {
  const rows = await reader.rows<MetricRow>(
    `SELECT scope, name, tupleElement(argMax(tuple(value), _offset), 1) AS value FROM metric_events FINAL
     WHERE ${reader.within()} AND run = {run:String} AND scope IN ('rollout', 'trace')${amongRollouts(among)} GROUP BY rollout, scope, trace, name`,
    { run },
  );
  const parts = [...Map.groupBy(rows, (row) => JSON.stringify([row.name, row.scope]))].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return parts.map(([, same]) => {
    const [first] = same as [MetricRow, ...MetricRow[]];
    const { scores, missing, nan } = numbersOf(same.map((row) => row.value));
    return { name: first.name, scope: first.scope, missing, nan, value: summaryOf(scores) };
  });
}

function numbersOf(values: readonly StoredFloat[]): { scores: number[]; missing: number; nan: number } {
  const read = values.map(floatOf);
  const known = read.filter((value) => value !== null);
  const scores = known.filter((value) => Number.isFinite(value));
  return { scores, missing: read.length - known.length, nan: known.length - scores.length };
}
