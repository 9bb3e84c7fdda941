/** Reads rollouts from the event tables as of a position. The latest values are taken as the summaries take them (store/columns/summary-sql.ts); a test holds both equal. */
import { knownTime } from '../../store/columns/known-time.ts';
import { amongRollouts } from './chosen-rollouts.ts';
import type { Reader } from './reader.ts';
import type { RolloutRow } from './rollout-row.ts';
import { floatOf, intOf, type StoredFloat, type StoredInt } from './stored-number.ts';

const latest = (column: string): string => `argMaxIf(\`${column}\`, _offset, isNotNull(\`${column}\`))`;
const micros = (time: string): string => `toUnixTimestamp64Micro(${time})`;

type LifeRow = {
  rollout: string; grp: string | null; env: string | null; task_key: string | null; task_hash: string | null; task_type: string | null; work_type: string | null;
  stp: StoredInt; okay: boolean | null; cancel: string | null; has_ended: boolean; start: StoredInt; stop: StoredInt; stop_condition: string | null;
  version: StoredInt; version_end: StoredInt; mirror: string | null;
}; // prettier-ignore

/**
 * The rollouts of a run in order of their ids, without mirrors of what is there itself, and how many mirrors were left out. Rollouts asked for by their ids are
 * there whatever they mirror.
 */
export async function readAllRollouts(
  reader: Reader,
  run: string,
  among: readonly string[] | null = null,
): Promise<{ rollouts: RolloutRow[]; mirrors: number }> {
  const rows = await reader.rows<LifeRow>(
    `SELECT rollout, ${latest('group')} AS grp, ${latest('env')} AS env, ${latest('task_key')} AS task_key, ${latest('task_hash')} AS task_hash, ${latest('task_type')} AS task_type,
      ${latest('work_type')} AS work_type, ${latest('step')} AS stp, ${latest('ok')} AS okay, ${latest('cancelled')} AS cancel, countIf(type IN ('rollout.ended', 'rollout.cancelled')) > 0 AS has_ended,
      ${micros(`ifNull(${latest('started')}, minIf(${knownTime('time')}, type = 'rollout.started'))`)} AS start,
      ${micros(`ifNull(${latest('ended')}, maxIf(${knownTime('time')}, type IN ('rollout.ended', 'rollout.cancelled')))`)} AS stop,
      ${latest('stop_condition')} AS stop_condition, ${latest('policy_version')} AS version, ${latest('policy_version_end')} AS version_end, ${latest('mirror_of')} AS mirror
    FROM (SELECT rollout, type, \`group\`, env, task_key, task_hash, task_type, work_type, step, ok, cancelled, started, ended, stop_condition, policy_version, policy_version_end, mirror_of, time, _offset
      FROM rollout_events FINAL WHERE ${reader.within()} AND run = {run:String}${amongRollouts(among)}) GROUP BY rollout ORDER BY rollout`,
    { run },
  ); // prettier-ignore
  const found = rows.map(rolloutOf);
  const mirrored = among === null && found.some((row) => row.mirrorOf !== null) ? await originalsThere(reader, run) : new Set<string>();
  const rollouts = found.filter((row) => row.mirrorOf === null || !mirrored.has(row.mirrorOf));
  return { rollouts, mirrors: found.length - rollouts.length };
}

function rolloutOf(row: LifeRow): RolloutRow {
  return {
    rollout: row.rollout,
    group: row.grp,
    env: row.env,
    taskKey: row.task_key,
    taskHash: row.task_hash,
    taskType: row.task_type,
    workType: row.work_type,
    step: intOf(row.stp),
    ok: row.okay,
    cancelled: row.cancel,
    hasEnded: Boolean(row.has_ended),
    started: intOf(row.start),
    ended: intOf(row.stop),
    stopCondition: row.stop_condition,
    policyVersion: intOf(row.version),
    policyVersionEnd: intOf(row.version_end),
    mirrorOf: row.mirror,
  };
}

/** Originals, mirrored by rollouts of this run, that are there themselves: a rollout may be the mirror of a rollout or of a trace. */
async function originalsThere(reader: Reader, run: string): Promise<Set<string>> {
  const mirrored = `(SELECT id FROM ids WHERE ${reader.within()} AND kind = 'rollout_mirror' AND run = {run:String})`;
  const rows = await reader.rows<{ id: string }>(
    `SELECT DISTINCT id FROM ids WHERE ${reader.within()} AND kind IN ('rollout', 'trace') AND id GLOBAL IN ${mirrored}`,
    { run },
  );
  return new Set(rows.map(({ id }) => id));
}

/** The latest reward of each name within an entity; weighted 1 when none was given. Rewards of nodes are not among them. */
function latestRewards(reader: Reader, where: string): string {
  const entity = 'rollout, scope, trace, name';
  return (
    `(SELECT ${entity}, tupleElement(last, 1) AS score, tupleElement(last, 2) AS weight FROM (SELECT ${entity}, argMax(tuple(score, ifNull(weight, 1.)), _offset) AS last ` +
    `FROM (SELECT ${entity}, score, weight, _offset FROM reward_events FINAL WHERE ${reader.within()} AND run = {run:String} AND scope IN ('rollout', 'trace')${where}) GROUP BY ${entity}))`
  );
}

/**
 * The reward of each rollout that was given one: the sum of score times weight over the latest reward of each name, null when a weighted score is null.
 * A named reward is its score, unweighted; where several traces of a rollout carry it, their sum.
 */
export async function readScores(
  reader: Reader,
  run: string,
  name: string | null,
  among: readonly string[] | null = null,
): Promise<Map<string, number | null>> {
  const value = name === null ? 'score * weight' : 'score';
  const missing = name === null ? 'countIf(isNull(score) AND weight != 0)' : 'countIf(isNull(score))';
  const from = latestRewards(reader, `${amongRollouts(among)}${name === null ? '' : ' AND name = {name:String}'}`);
  const sum = `if(count(${value}) = 0, NULL, arraySum(arraySort(groupArray(${value}))))`;
  const rows = await reader.rows<{ rollout: string; value: StoredFloat }>(
    `SELECT rollout, if(${missing} > 0, NULL, ${sum}) AS value FROM ${from} GROUP BY rollout`,
    name === null ? { run } : { run, name },
  );
  return new Map(rows.map((row) => [row.rollout, floatOf(row.value)]));
}

/** The value of one metric per rollout: the metric of the rollout itself, else of its traces where exactly one carries it. */
export async function readMetric(reader: Reader, run: string, name: string): Promise<Map<string, number | null>> {
  const rows = await reader.rows<{ rollout: string; scope: string; last: [StoredFloat] }>(
    `SELECT rollout, scope, argMax(tuple(value), _offset) AS last FROM metric_events FINAL WHERE ${reader.within()} AND run = {run:String} AND name = {name:String} AND scope IN ('rollout', 'trace')
     GROUP BY rollout, scope, trace ORDER BY rollout, scope`,
    { run, name },
  ); // prettier-ignore
  const byRollout = Map.groupBy(rows, (row) => row.rollout);
  const values = [...byRollout].map(([rollout, entries]): [string, number | null] => {
    const own = entries.filter((entry) => entry.scope === 'rollout');
    const chosen = own.length > 0 ? own : entries;
    const [only] = chosen;
    return [rollout, chosen.length === 1 && only !== undefined ? floatOf(only.last[0]) : null];
  });
  return new Map(values);
}

/** Names of rewards and metrics of rollouts and traces in the run. */
export async function readNames(reader: Reader, run: string): Promise<{ rewards: string[]; metrics: string[] }> {
  const rows = await reader.rows<{ kind: string; names: string[] }>(
    ['reward', 'metric'].map((kind) => `SELECT '${kind}' AS kind, arraySort(groupUniqArray(name)) AS names FROM ${kind}_events WHERE ${reader.within()} AND run = {run:String} AND scope IN ('rollout', 'trace')`).join(' UNION ALL '),
    { run },
  ); // prettier-ignore
  const of = (kind: string): string[] => rows.find((row) => row.kind === kind)?.names ?? [];
  return { rewards: of('reward'), metrics: of('metric') };
}

/** Oldest and newest policy version that sampled in each rollout, from its nodes and calls. */
export async function readVersions(
  reader: Reader,
  run: string,
  among: readonly string[] | null = null,
): Promise<Map<string, { min: number | null; max: number | null }>> {
  const rows = await reader.rows<{ rollout: string; low: StoredInt; high: StoredInt }>(
    `SELECT rollout, min(low) AS low, max(high) AS high FROM (
       SELECT rollout, policy_version_min AS low, policy_version_max AS high FROM nodes FINAL WHERE ${reader.within()} AND run = {run:String} AND isNotNull(policy_version_min)${amongRollouts(among)}
       UNION ALL SELECT rollout, policy_version AS low, ifNull(policy_version_end, policy_version) AS high FROM calls FINAL WHERE ${reader.within()} AND run = {run:String} AND (isNotNull(policy_version) OR isNotNull(policy_version_end))${amongRollouts(among)}
     ) GROUP BY rollout`,
    { run },
  ); // prettier-ignore
  return new Map(rows.map((row) => [row.rollout, { min: intOf(row.low), max: intOf(row.high) }]));
}

/** How many rollouts each group announced, or was sealed with. */
export async function readGroupSizes(reader: Reader, run: string): Promise<Map<string, number>> {
  const rows = await reader.rows<{ grp: string; size: StoredInt }>(
    `SELECT \`group\` AS grp, ifNull(argMaxIf(sealed_size, _offset, isNotNull(sealed_size)), max(size)) AS size
     FROM group_events FINAL WHERE ${reader.within()} AND run = {run:String} GROUP BY grp`,
    { run },
  );
  return new Map(rows.flatMap(({ grp, size }) => (size === null ? [] : [[grp, Number(size)] as const])));
}

/** Whether anything was said about the run, and what it said of itself. */
export async function readRun(reader: Reader, run: string): Promise<{ known: boolean; hasEnded: boolean; model: string | null; name: string | null; kind: string | null }> {
  const [row] = await reader.rows<{ n: StoredInt; ends: StoredInt; model: string | null; called: string | null; kind: string | null }>(
    `SELECT count() AS n, countIf(type = 'run.ended') AS ends, ${latest('model')} AS model, ${latest('name')} AS called, ${latest('kind')} AS kind
     FROM (SELECT type, model, name, kind, _offset FROM run_events FINAL WHERE ${reader.within()} AND run = {run:String})`,
    { run },
  ); // prettier-ignore
  return { known: Number(row?.n ?? 0) > 0, hasEnded: Number(row?.ends ?? 0) > 0, model: row?.model ?? null, name: row?.called ?? null, kind: row?.kind ?? null };
} // prettier-ignore
