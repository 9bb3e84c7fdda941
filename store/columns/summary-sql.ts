/**
 * The SQL behind the summaries: a pure function of the facts, so that a redo and a rebuild give the same rows. Each fact table is read once, by key.
 * Sums of floats run over sorted lists, so that the order in which parts are read cannot change the last bit.
 */
import { knownTime } from './known-time.ts';
import type { RolloutKey } from './projections/touched.ts';
import { stringLiteral } from './sql-literal.ts';
import { rolloutSummary } from './tables/rollout-summary.ts';
import { traceSummary } from './tables/trace-summary.ts';

/** Stop conditions that mean a limit cut the trace off (as verifiers counts them). */
export const TRUNCATING = "('max_turns', 'max_input_tokens', 'max_output_tokens', 'max_total_tokens', 'context_length')";

const KEY = 'project, run, rollout';
const TRACE_KEY = 'project, run, rollout, trace';
const INSERT_SETTINGS = "SETTINGS async_insert = 0, deduplicate_insert = 'disable', optimize_on_insert = 0";
const SELECT_SETTINGS = 'SETTINGS join_use_nulls = 1, least_greatest_legacy_null_behavior = 0';

/** What one fact table says about a key: an aggregate per column, and the rows they are taken from. */
type Source = { readonly columns: Readonly<Record<string, string>>; readonly from: string };

/** Gives the rows of one table that belong to the touched rollouts. */
type Facts = (table: string, columns: string, where?: string) => string;

/** Facts up to a log position: `before` is a condition on `_partition` and `_offset`; `db` is the back-quoted database of the tables with a dot behind it. */
export type AsOf = { readonly db: string; readonly before: string; readonly touched: string };

const ALL_FACTS: Facts = (table, columns, where = '') =>
  `(SELECT ${columns} FROM ${table} FINAL WHERE (${KEY}) IN (SELECT ${KEY} FROM touched)${where === '' ? '' : ` AND ${where}`})`;

function factsBefore({ db, before }: AsOf): Facts {
  return (table, columns, where = '') =>
    `(SELECT ${columns} FROM ${db}${table} FINAL WHERE (${KEY}) IN (SELECT ${KEY} FROM touched) AND ${before}${where === '' ? '' : ` AND ${where}`})`;
}

/** The latest value that is not NULL; all events of a rollout lie in one log partition. */
function latest(column: string): string {
  return `argMaxIf(${column}, _offset, isNotNull(${column}))`;
}

function latestOf(columns: readonly string[]): Record<string, string> {
  return Object.fromEntries(columns.map((column) => [column, latest(`\`${column}\``)]));
}

/** Sum of a nullable float per group, in a fixed order; NULL when nothing was measured. */
function orderedSum(value: string): string {
  return `if(count(${value}) = 0, NULL, arraySum(arraySort(groupArray(${value}))))`;
}

const listOf = (columns: readonly string[]): string => columns.map((column) => `\`${column}\``).join(', ');

/**
 * One row per key with the columns of all sources. Each source gives its columns as one tuple in a list, the others the empty list, whose first element
 * is a tuple of NULLs: the planner then sees one column per source and not the product of columns and sources.
 */
function unionOf(key: string, sources: readonly Source[]): string {
  const branches = sources.map(({ columns, from }, source) => {
    const values = Object.values(columns).map((value) => `toNullable(${value})`);
    const lists = sources.map((_, other) => `${other === source ? `[tuple(${values.join(', ')})]` : '[]'} AS s${other}`);
    return `SELECT ${key}, ${lists.join(', ')} FROM ${from} AS f GROUP BY ${key}`;
  });
  const merged = sources.map((_, source) => `arrayElement(groupArrayArray(s${source}), 1) AS t${source}`);
  const named = sources.flatMap(({ columns }, source) =>
    Object.keys(columns).map((name, place) => `tupleElement(t${source}, ${place + 1}) AS \`${name}\``),
  );
  return `(SELECT ${key}, ${named.join(', ')} FROM (SELECT ${key}, ${merged.join(', ')} FROM (${branches.join(' UNION ALL ')}) GROUP BY ${key}))`;
}

/** Sizes of each trace's graph. Leaves are nodes that no stored node has as its parent. */
function graphs(facts: Facts): Source {
  const parents = 'groupUniqArray(assumeNotNull(if(isNull(parent), 4294967295, parent)))';
  return {
    columns: {
      nodes: 'count()',
      turns: 'countIf(sampled)',
      branches: `length(groupUniqArray(index)) - length(arrayIntersect(groupUniqArray(index), ${parents}))`,
      node_tokens: 'sumOrNull(tokens)',
      node_sampled: 'sumOrNull(sampled_tokens)',
      node_version_min: 'min(policy_version_min)',
      node_version_max: 'max(policy_version_max)',
    },
    from: facts('nodes', `${TRACE_KEY}, index, parent, sampled, tokens, sampled_tokens, policy_version_min, policy_version_max`),
  };
}

function exchanges(facts: Facts): Source {
  const columns = 'index, prompt_tokens, completion_tokens, cost, finish_reason, policy_version, policy_version_end';
  return {
    columns: {
      calls: 'count()',
      prompt_tokens: 'sumOrNull(prompt_tokens)',
      completion_tokens: 'sumOrNull(completion_tokens)',
      cost: orderedSum('cost'),
      last_finish: 'tupleElement(argMax(tuple(finish_reason), index), 1)',
      call_version_min: 'min(policy_version)',
      call_version_max: 'max(ifNull(policy_version_end, policy_version))',
    },
    from: facts('calls', `${TRACE_KEY}, ${columns}`),
  };
}

const TRACE_FIELDS = ['agent', 'model', 'trainable', 'mirror_of', 'started', 'ok', 'stop_condition', 'truncated', 'ended'];

function traceLife(facts: Facts): Source {
  return {
    columns: {
      ...latestOf(TRACE_FIELDS),
      started_event: `minIf(${knownTime('time')}, type = 'trace.started')`,
      ended_event: `maxIf(${knownTime('time')}, type = 'trace.ended')`,
      ends: "countIf(type = 'trace.ended')",
    },
    from: facts('trace_events', `${TRACE_KEY}, type, ${listOf(TRACE_FIELDS)}, time, _offset`),
  };
}

const ROLLOUT_FIELDS = [
  'group', 'env', 'env_name', 'task_type', 'task_key', 'task_hash', 'work_type', 'step', 'policy_version', 'policy_version_end', 'attempt',
  'parent_rollout', 'fork_trace', 'fork_node', 'mirror_of', 'started', 'ok', 'stop_condition', 'ended', 'cancelled',
]; // prettier-ignore

function rolloutLife(facts: Facts): Source {
  return {
    columns: {
      ...latestOf(ROLLOUT_FIELDS),
      started_event: `minIf(${knownTime('time')}, type = 'rollout.started')`,
      ended_event: `maxIf(${knownTime('time')}, type IN ('rollout.ended', 'rollout.cancelled'))`,
    },
    from: facts('rollout_events', `${KEY}, type, ${listOf(ROLLOUT_FIELDS)}, time, _offset`),
  };
}

/**
 * Sums over the latest reward of each name. A weighted NULL makes the sum NULL and is counted; with weight 0 it is not missed. Rewards of nodes are in
 * no sum.
 */
function rewardsOf(facts: Facts, scopes: string): Source {
  const entity = `${KEY}, scope, trace, name`;
  const last =
    `(SELECT ${entity}, tupleElement(last, 1) AS score, tupleElement(last, 2) AS weight FROM ` +
    `(SELECT ${entity}, argMax(tuple(score, ifNull(weight, 1.)), _offset) AS last FROM ${facts('reward_events', `${entity}, score, weight, _offset`, `scope IN (${scopes})`)} ` +
    `GROUP BY ${entity}))`;
  const missing = 'countIf(isNull(score) AND weight != 0)';
  return {
    columns: { rewards: 'count()', rewards_missing: missing, reward: `if(${missing} > 0, NULL, ${orderedSum('score * weight')})` },
    from: last,
  };
}

function errorsOf(facts: Facts, where = ''): Source {
  return {
    columns: { errors: 'count()', error_type: 'argMax(type, _offset)' },
    from: facts('errors', `${TRACE_KEY}, type, _offset`, where),
  };
}

/** An own flag, else what stop condition and last answer say; NULL while the trace has not ended. */
const TRACE_TRUNCATED = `multiIf(isNotNull(k.truncated), k.truncated, ifNull(k.ends, 0) = 0, NULL, ifNull(k.stop_condition IN ${TRUNCATING}, false) OR ifNull(k.last_finish = 'length', false))`;

/** Columns that the sources give as they are. */
const AS_THEY_ARE = ['ok', 'reward', 'cost', 'error_type', 'agent', 'model', 'trainable', 'stop_condition'];
const ZERO_WHEN_ABSENT = ['rewards', 'rewards_missing', 'nodes', 'calls', 'turns', 'branches', 'errors'];

const SHARED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(AS_THEY_ARE.map((name) => [name, `k.${name}`])),
  ...Object.fromEntries(ZERO_WHEN_ABSENT.map((name) => [name, `ifNull(k.${name}, 0)`])),
  started: 'ifNull(k.started, k.started_event)',
  ended: 'ifNull(k.ended, k.ended_event)',
};

/** Tokens count once per node; without tokens in any node, what the calls reported stands in. */
const TRACE_CELLS: Readonly<Record<string, string>> = {
  ...SHARED,
  group: 'o.`group`',
  env: 'o.env',
  task_key: 'o.task_key',
  policy_version_min: 'least(k.node_version_min, k.call_version_min)',
  policy_version_max: 'greatest(k.node_version_max, k.call_version_max)',
  truncated: TRACE_TRUNCATED,
  input_tokens: 'if(isNull(k.node_tokens), k.prompt_tokens, toUInt64(k.node_tokens - k.node_sampled))',
  output_tokens: 'if(isNull(k.node_tokens), k.completion_tokens, k.node_sampled)',
};

/** One row per trace of the touched rollouts; `version` is an integer literal. */
export function traceSummarySql(touched: readonly RolloutKey[], version: string): string {
  return insertSelect('trace_summary', Object.keys(traceSummary.columns), TRACE_CELLS, traceSource(ALL_FACTS), { touched, version });
}

/** The rows of `trace_summary` as of a position, for rollouts that `touched` (a SELECT of project, run, rollout) names. */
export function traceSummaryAsOf(asOf: AsOf): string {
  return `(WITH touched AS (${asOf.touched}) SELECT ${namedCells(traceSummary.columns, TRACE_CELLS)} FROM ${traceSource(factsBefore(asOf))} ${SELECT_SETTINGS})`;
}

function traceSource(facts: Facts): string {
  const sources = [graphs(facts), exchanges(facts), traceLife(facts), rewardsOf(facts, "'trace'"), errorsOf(facts, "trace != ''")];
  const task = facts('rollout_events', `${KEY}, \`group\`, env, task_key, _offset`);
  const rollouts = `(SELECT ${KEY}, ${latest('`group`')} AS \`group\`, ${latest('env')} AS env, ${latest('task_key')} AS task_key FROM ${task} GROUP BY ${KEY})`;
  const join = 'k.project = o.project AND k.run = o.run AND k.rollout = o.rollout';
  return `${unionOf(TRACE_KEY, sources)} AS k LEFT JOIN ${rollouts} AS o ON ${join} WHERE k.trace != ''`;
}

const ROLLOUT_CELLS: Readonly<Record<string, string>> = {
  ...SHARED,
  ...Object.fromEntries(
    ['group', 'env', 'env_name', 'task_type', 'task_key', 'task_hash', 'work_type', 'attempt', 'parent_rollout', 'fork_trace', 'fork_node', 'step', 'cancelled',
      'input_tokens', 'output_tokens'].map((name) => [name, `k.\`${name}\``]),
  ),
  policy_version_min: 'least(k.version_min, k.policy_version)',
  policy_version_max: 'greatest(k.version_max, k.policy_version, k.policy_version_end)',
  stop_condition: 'ifNull(k.stop_condition, k.trace_stop)',
  truncated: `if(ifNull(k.stop_condition IN ${TRUNCATING}, false), true, k.any_truncated)`,
  traces: 'ifNull(k.traces, 0)',
}; // prettier-ignore

/** Reads the summaries of the traces, so these are written first. The reward is that of the traces plus the rewards with scope rollout. */
export function rolloutSummarySql(touched: readonly RolloutKey[], version: string): string {
  const traces = ALL_FACTS('trace_summary', `${TRACE_KEY}, ${TRACE_COLUMNS.join(', ')}`);
  return insertSelect('rollout_summary', Object.keys(rolloutSummary.columns), ROLLOUT_CELLS, rolloutSource(ALL_FACTS, traces), {
    touched,
    version,
  });
}

/** The rows of `rollout_summary` as of a position, for rollouts that `touched` (a SELECT of project, run, rollout) names. */
export function rolloutSummaryAsOf(asOf: AsOf): string {
  const from = rolloutSource(factsBefore(asOf), traceSummaryAsOf(asOf));
  return `(WITH touched AS (${asOf.touched}) SELECT ${namedCells(rolloutSummary.columns, ROLLOUT_CELLS)} FROM ${from} ${SELECT_SETTINGS})`;
}

const TRACE_COLUMNS = ['trainable', 'stop_condition', 'truncated', 'started', 'policy_version_min', 'policy_version_max', 'input_tokens', 'output_tokens', 'nodes', 'calls', 'turns', 'branches', 'cost']; // prettier-ignore

function rolloutSource(facts: Facts, traceRows: string): string {
  const sums = ['nodes', 'calls', 'turns', 'branches'];
  const traces: Source = {
    columns: {
      traces: 'count()',
      ...Object.fromEntries(sums.map((name) => [name, `sum(${name})`])),
      input_tokens: 'sumOrNull(input_tokens)',
      output_tokens: 'sumOrNull(output_tokens)',
      cost: orderedSum('cost'),
      version_min: 'min(policy_version_min)',
      version_max: 'max(policy_version_max)',
      any_truncated: 'max(truncated)',
      // the agent that is trained and began first speaks for the rollout
      trace_stop: "argMinIf(stop_condition, (ifNull(started, toDateTime64('2200-01-01 00:00:00', 6, 'UTC')), trace), isNotNull(stop_condition) AND ifNull(trainable, true))",
    },
    from: traceRows,
  }; // prettier-ignore
  const sources = [rolloutLife(facts), traces, rewardsOf(facts, "'trace', 'rollout'"), errorsOf(facts)];
  return `${unionOf(KEY, sources)} AS k`;
}

/** The cells under the names and with the types that they have in the table. */
function namedCells(columns: Readonly<Record<string, { readonly sql: string }>>, cells: Readonly<Record<string, string>>): string {
  return Object.entries(columns)
    .filter(([name]) => name !== '_version')
    .map(([name, { sql }]) => `CAST(${cells[name] ?? `k.\`${name}\``}, ${stringLiteral(sql)}) AS \`${name}\``)
    .join(', ');
}

function insertSelect(
  table: string,
  columns: readonly string[],
  cells: Readonly<Record<string, string>>,
  from: string,
  { touched, version }: { readonly touched: readonly RolloutKey[]; readonly version: string },
): string {
  const select = columns.map((name) => (name === '_version' ? version : (cells[name] ?? `k.${name}`)));
  return (
    `INSERT INTO ${table} (${listOf(columns)}) ${INSERT_SETTINGS} WITH touched AS (${touchedSql(touched)}) ` +
    `SELECT ${select.join(', ')} FROM ${from} ${SELECT_SETTINGS}`
  );
}

/** The keys as rows out of one string literal: a list of tuple literals costs the planner far more than the work itself. */
function touchedSql(touched: readonly RolloutKey[]): string {
  const lines = touched.map((key) => JSON.stringify(key)).join('\n');
  return `SELECT ${KEY} FROM format(JSONCompactEachRow, 'project String, run String, rollout String', ${stringLiteral(lines)})`;
}
