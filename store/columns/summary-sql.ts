/**
 * The SQL behind the summaries: a pure function of the facts, so that a redo and a rebuild give the same rows. Sums of floats run over sorted
 * lists, so that the order in which parts are read cannot change the last bit.
 */

/** Stop conditions that mean a limit cut the trace off (as verifiers counts them). */
const TRUNCATING = "('max_turns', 'max_input_tokens', 'max_output_tokens', 'max_total_tokens', 'context_length')";

const KEY = 'project, run, rollout';
const TRACE_KEY = 'project, run, rollout, trace';

/** The latest value that is not NULL; all events of a rollout lie in one log partition. */
function latest(column: string): string {
  return `argMaxIf(${column}, _offset, ${column} IS NOT NULL) AS ${column}`;
}

function facts(table: string, columns: string, keys: string): string {
  return `(SELECT ${columns} FROM ${table} FINAL WHERE (${KEY}) IN (${keys}))`;
}

/** Sum of a nullable float per group, in a fixed order; NULL when nothing was measured. */
function orderedSum(value: string): string {
  return `if(count(${value}) = 0, NULL, arraySum(arraySort(groupArray(${value}))))`;
}

/** Sizes of each trace's graph: leaves are nodes that no stored node has as parent. */
function nodesByTrace(keys: string): string {
  return (
    `(SELECT ${TRACE_KEY}, count() AS nodes, countIf(sampled) AS turns, ` +
    `length(groupUniqArray(index)) - length(arrayIntersect(groupUniqArray(index), groupUniqArray(assumeNotNull(if(isNull(parent), 4294967295, parent))))) AS branches, ` +
    `sumOrNull(tokens) AS tokens, sumOrNull(sampled_tokens) AS sampled_tokens, min(policy_version_min) AS version_min, max(policy_version_max) AS version_max ` +
    `FROM ${facts('nodes', `${TRACE_KEY}, index, parent, sampled, tokens, sampled_tokens, policy_version_min, policy_version_max`, keys)} GROUP BY ${TRACE_KEY})`
  );
}

function callsByTrace(keys: string): string {
  return (
    `(SELECT ${TRACE_KEY}, count() AS calls, sumOrNull(prompt_tokens) AS prompt_tokens, sumOrNull(completion_tokens) AS completion_tokens, ` +
    `${orderedSum('cost')} AS cost, tupleElement(argMax(tuple(finish_reason), index), 1) AS last_finish, min(policy_version) AS version_min, max(ifNull(policy_version_end, policy_version)) AS version_max ` +
    `FROM ${facts('calls', `${TRACE_KEY}, index, prompt_tokens, completion_tokens, cost, finish_reason, policy_version, policy_version_end`, keys)} GROUP BY ${TRACE_KEY})`
  );
}

function eventsByTrace(keys: string): string {
  const columns = ['agent', 'model', 'trainable', 'started', 'ok', 'stop_condition', 'truncated', 'ended'];
  return (
    `(SELECT ${TRACE_KEY}, ${columns.map(latest).join(', ')}, min(_offset) AS first_offset, ` +
    `minIf(toNullable(time), type = 'trace.started') AS started_event, maxIf(toNullable(time), type = 'trace.ended') AS ended_event ` +
    `FROM ${facts('trace_events', `${TRACE_KEY}, type, ${columns.join(', ')}, time, _offset`, keys)} GROUP BY ${TRACE_KEY})`
  );
}

function eventsByRollout(keys: string): string {
  const columns = [
    'group', 'env', 'env_name', 'task_type', 'task_key', 'task_hash', 'work_type', 'step', 'policy_version', 'policy_version_end', 'attempt',
    'parent_rollout', 'fork_trace', 'fork_node', 'started', 'ok', 'stop_condition', 'ended', 'cancelled',
  ].map((name) => `\`${name}\``); // prettier-ignore
  return (
    `(SELECT ${KEY}, ${columns.map(latest).join(', ')}, minIf(toNullable(time), type = 'rollout.started') AS started_event, ` +
    `maxIf(toNullable(time), type IN ('rollout.ended', 'rollout.cancelled')) AS ended_event ` +
    `FROM ${facts('rollout_events', `${KEY}, type, ${columns.join(', ')}, time, _offset`, keys)} GROUP BY ${KEY})`
  );
}

/** The latest reward of each name per entity; rewards of nodes are not part of any sum. A NULL score with weight 0 is not missed. */
function latestRewards(keys: string): string {
  return (
    `(SELECT ${KEY}, scope, trace, name, tupleElement(last, 1) AS score, tupleElement(last, 2) AS weight FROM ` +
    `(SELECT ${KEY}, scope, trace, name, argMax(tuple(score, ifNull(weight, 1.)), _offset) AS last ` +
    `FROM ${facts('reward_events', `${KEY}, scope, trace, name, score, weight, _offset`, keys)} WHERE scope != 'node' GROUP BY ${KEY}, scope, trace, name))`
  );
}

const REWARD_SUMS =
  `count() AS rewards, countIf(isNull(score) AND weight != 0) AS rewards_missing, ` +
  `if(countIf(isNull(score) AND weight != 0) > 0, NULL, ${orderedSum('score * weight')}) AS reward`;

function errorsBy(key: string, keys: string): string {
  return `(SELECT ${key}, count() AS errors, argMax(type, _offset) AS error_type FROM ${facts('errors', `${TRACE_KEY}, type, _offset`, keys)} GROUP BY ${key})`;
}

function keysOf(key: string, tables: readonly string[], keys: string): string {
  return tables
    .map((table) => `SELECT ${key} FROM ${table} WHERE (${KEY}) IN (${keys})${key === TRACE_KEY ? " AND trace != ''" : ''}`)
    .join(' UNION DISTINCT ');
}

function joinOn(key: string, source: string, alias: string): string {
  const equal = key.split(', ').map((column) => `k.${column} = ${alias}.${column}`);
  return `LEFT JOIN ${source} AS ${alias} ON ${equal.join(' AND ')}`;
}

/** An own flag, else what stop condition and last answer say; NULL while the trace has not ended. */
const TRACE_TRUNCATED = `multiIf(isNotNull(e.truncated), e.truncated, isNull(e.ended_event), NULL, ifNull(e.stop_condition IN ${TRUNCATING}, false) OR ifNull(c.last_finish = 'length', false))`;

function perTrace(keys: string): string {
  return (
    `SELECT k.project AS project, k.run AS run, k.rollout AS rollout, k.trace AS trace, e.agent AS agent, e.model AS model, e.trainable AS trainable, ` +
    `least(n.version_min, c.version_min) AS policy_version_min, greatest(n.version_max, c.version_max) AS policy_version_max, ` +
    `e.ok AS ok, e.stop_condition AS stop_condition, e.first_offset AS first_offset, CAST(${TRACE_TRUNCATED}, 'Nullable(Bool)') AS truncated, ` +
    `if(isNull(n.tokens), c.prompt_tokens, toUInt64(n.tokens - n.sampled_tokens)) AS input_tokens, if(isNull(n.tokens), c.completion_tokens, n.sampled_tokens) AS output_tokens, ` +
    `ifNull(n.nodes, 0) AS nodes, ifNull(c.calls, 0) AS calls, ifNull(n.turns, 0) AS turns, ifNull(n.branches, 0) AS branches, c.cost AS cost, ` +
    `ifNull(e.started, e.started_event) AS started, ifNull(e.ended, e.ended_event) AS ended ` +
    `FROM (${keysOf(TRACE_KEY, ['trace_events', 'nodes', 'calls', 'reward_events', 'errors'], keys)}) AS k ` +
    `${joinOn(TRACE_KEY, nodesByTrace(keys), 'n')} ${joinOn(TRACE_KEY, callsByTrace(keys), 'c')} ${joinOn(TRACE_KEY, eventsByTrace(keys), 'e')}`
  );
}

const SETTINGS =
  "SETTINGS join_use_nulls = 1, least_greatest_legacy_null_behavior = 0, async_insert = 0, deduplicate_insert = 'disable', optimize_on_insert = 0";

/** `keys` is a list of (project, run, rollout) literals, `version` an integer literal. */
export function traceSummarySql(keys: string, version: string): string {
  const columns =
    'project, run, rollout, trace, `group`, env, task_key, agent, model, trainable, policy_version_min, policy_version_max, ok, stop_condition, truncated, reward, rewards, rewards_missing, ' +
    'input_tokens, output_tokens, nodes, calls, turns, branches, cost, errors, error_type, started, ended, _version';
  return (
    `INSERT INTO trace_summary (${columns}) SELECT k.project, k.run, k.rollout, k.trace, o.\`group\`, o.env, o.task_key, k.agent, k.model, k.trainable, k.policy_version_min, k.policy_version_max, ` +
    `k.ok, k.stop_condition, k.truncated, r.reward, ifNull(r.rewards, 0), ifNull(r.rewards_missing, 0), k.input_tokens, k.output_tokens, k.nodes, k.calls, k.turns, k.branches, k.cost, ` +
    `ifNull(x.errors, 0), x.error_type, k.started, k.ended, ${version} FROM (${perTrace(keys)}) AS k ` +
    `${joinOn(KEY, eventsByRollout(keys), 'o')} ` +
    `${joinOn(TRACE_KEY, `(SELECT ${TRACE_KEY}, ${REWARD_SUMS} FROM ${latestRewards(keys)} WHERE scope = 'trace' GROUP BY ${TRACE_KEY})`, 'r')} ` +
    `${joinOn(TRACE_KEY, errorsBy(TRACE_KEY, keys), 'x')} ${SETTINGS}`
  );
}

/** The reward of a rollout is that of its traces plus the rewards with scope rollout. */
export function rolloutSummarySql(keys: string, version: string): string {
  const columns =
    'project, run, rollout, `group`, env, env_name, task_type, task_key, task_hash, work_type, attempt, parent_rollout, fork_trace, fork_node, step, policy_version_min, policy_version_max, ok, stop_condition, cancelled, truncated, ' +
    'reward, rewards, rewards_missing, input_tokens, output_tokens, traces, nodes, calls, turns, branches, cost, errors, error_type, started, ended, _version';
  const traces =
    `(SELECT ${KEY}, count() AS traces, min(policy_version_min) AS version_min, max(policy_version_max) AS version_max, ` +
    `argMinIf(stop_condition, ifNull(first_offset, 0), isNotNull(stop_condition) AND ifNull(trainable, true)) AS trace_stop, max(truncated) AS truncated, sumOrNull(input_tokens) AS input_tokens, ` +
    `sumOrNull(output_tokens) AS output_tokens, sum(nodes) AS nodes, sum(calls) AS calls, sum(turns) AS turns, sum(branches) AS branches, ${orderedSum('cost')} AS cost FROM (${perTrace(keys)}) GROUP BY ${KEY})`;
  return (
    `INSERT INTO rollout_summary (${columns}) SELECT k.project, k.run, k.rollout, e.\`group\`, e.env, e.env_name, e.task_type, e.task_key, e.task_hash, e.work_type, e.attempt, e.parent_rollout, e.fork_trace, e.fork_node, e.step, ` +
    `least(t.version_min, e.policy_version) AS policy_version_min, greatest(t.version_max, e.policy_version, e.policy_version_end) AS policy_version_max, e.ok, ifNull(e.stop_condition, t.trace_stop), e.cancelled, ` +
    `if(ifNull(e.stop_condition IN ${TRUNCATING}, false), true, t.truncated), r.reward, ifNull(r.rewards, 0), ifNull(r.rewards_missing, 0), t.input_tokens, t.output_tokens, ` +
    `ifNull(t.traces, 0), ifNull(t.nodes, 0), ifNull(t.calls, 0), ifNull(t.turns, 0), ifNull(t.branches, 0), t.cost, ifNull(x.errors, 0), x.error_type, ` +
    `ifNull(e.started, e.started_event), ifNull(e.ended, e.ended_event), ${version} FROM (${keysOf(KEY, ['rollout_events', 'trace_events', 'nodes', 'calls', 'reward_events', 'errors'], keys)}) AS k ` +
    `${joinOn(KEY, eventsByRollout(keys), 'e')} ${joinOn(KEY, traces, 't')} ` +
    `${joinOn(KEY, `(SELECT ${KEY}, ${REWARD_SUMS} FROM ${latestRewards(keys)} GROUP BY ${KEY})`, 'r')} ` +
    `${joinOn(KEY, errorsBy(KEY, keys), 'x')} ${SETTINGS}`
  );
}
