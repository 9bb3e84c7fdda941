/**
 * The fixed queries of a trace over the views of its project (docs/sql.md) as they were at a log position (before-position.ts). Each takes {run}, {rollout}, {trace}, so
 * that a view reads one key range. Times come as integer microseconds.
 */
import { errors, rewards } from '../../store/columns/views/judgement-views.ts';
import { ids, traces } from '../../store/columns/views/run-views.ts';
import { calls, links, nodes, tools } from '../../store/columns/views/trace-views.ts';
import { viewSelect, type View, type ViewSource } from '../../store/columns/views/view.ts';
import { BOUND_FACTS } from '../positions/before-position.ts';

const then = (view: View): string => `(${viewSelect(view, BOUND_FACTS)})`;
const IN_TRACE = 'run = {run:String} AND rollout = {rollout:String} AND trace = {trace:String}';
const IN_WINDOW = '{from:UInt32} AND {to:UInt32}';
const micros = (column: string): string => `toUnixTimestamp64Micro(${column}) AS ${column}`;
/** The first {chars} characters of a text, or all of it when {chars} is 0. */
const preview = (column: string): string => `if({chars:UInt32} = 0, ${column}, substringUTF8(${column}, 1, {chars:UInt32}))`;

/** Where a trace is: more than one row when runs share the id. */
export const PLACES = `SELECT DISTINCT run, rollout FROM ${then(ids)} WHERE kind = 'trace' AND id = {trace:String} ORDER BY run, rollout LIMIT 100`;

/** RowBinary of the table itself, which is narrow, not of the view: index, parent (4294967295 = none) and tokens, UInt32 each. */
export const SKELETON = `SELECT index, ifNull(parent, 4294967295), toUInt32(ifNull(tokens, 0)) FROM nodes FINAL WHERE project = {project:String} AND ${IN_TRACE} AND ${BOUND_FACTS.before('')} ORDER BY index`;

/** RowBinary: index UInt32, token_ids, mask, logprobs, of all nodes of a range. */
export const STREAMS_BETWEEN = `SELECT toUInt32(index), token_ids, mask, logprobs FROM ${then(nodes)} WHERE ${IN_TRACE} AND index BETWEEN {first:UInt32} AND {last:UInt32} ORDER BY index`;
/** The same of nodes by name: for paths that are scattered over a large trace. */
export const STREAMS_OF = `SELECT toUInt32(index), token_ids, mask, logprobs FROM ${then(nodes)} WHERE ${IN_TRACE} AND index IN ({nodes:Array(UInt32)}) ORDER BY index`;

/** The trace as it is listed; `source` are its summaries at the position. */
export function summarySql(source: ViewSource): string {
  return `SELECT agent, model, trainable, ok, stop_condition, truncated, reward, turns, calls, input_tokens, output_tokens, ${micros('started')}, ${micros('ended')} FROM (${viewSelect(traces, source)}) WHERE ${IN_TRACE} LIMIT 1`;
}

const NODE_CELLS = `SELECT n.index AS index, n.parent AS parent, n.role AS role, n.sampled AS sampled, n.tokens AS tokens, n.sampled_tokens AS sampled_tokens,
  ${preview('n.text')} AS text, ${preview('n.reasoning')} AS reasoning,
  CAST(arrayMap(c -> (c.1, c.2, ${preview('c.3')}), n.tool_calls), 'Array(Tuple(id String, name String, arguments String))') AS tool_calls,
  n.fork_reason AS fork_reason, n.call AS call, n.policy_version AS policy_version, toUnixTimestamp64Micro(n.time) AS time,
  greatest(ifNull(lengthUTF8(n.text), 0), ifNull(lengthUTF8(n.reasoning), 0), arrayMax(arrayMap(c -> lengthUTF8(c.3), arrayConcat([('', '', '')], n.tool_calls)))) AS longest
FROM ${then(nodes)} AS n WHERE ${IN_TRACE}`;

export const NODES = `${NODE_CELLS} AND n.index BETWEEN ${IN_WINDOW} ORDER BY n.index`;
/** The same of nodes by name. */
export const NODES_OF = `${NODE_CELLS} AND n.index IN ({nodes:Array(UInt32)}) ORDER BY n.index`;

export const CALLS = `SELECT index, node, model, finish_reason, prompt_tokens, completion_tokens, policy_version, ${micros('started')}, ${micros('ended')}, retry_of, error_type, error_message
FROM ${then(calls)} WHERE ${IN_TRACE} AND (node IS NULL OR node BETWEEN ${IN_WINDOW}) ORDER BY index LIMIT {most:UInt32}`;

export const TOOLS = `SELECT tool_call_id, name, node, result_node, ${micros('started')}, ${micros('ended')}, error
FROM ${then(tools)} WHERE ${IN_TRACE} AND (node IS NULL OR node BETWEEN ${IN_WINDOW}) ORDER BY node, tool_call_id LIMIT {most:UInt32}`;

export const LINKS = `SELECT from_trace, from_node, to_trace, to_node, type FROM ${then(links)}
WHERE run = {run:String} AND rollout = {rollout:String} AND (from_trace = {trace:String} OR to_trace = {trace:String}) ORDER BY from_trace, from_node, to_trace, to_node, type LIMIT {most:UInt32}`;

export const REWARDS = `SELECT scope, node, name, score, weight, source_kind AS source FROM ${then(rewards)}
WHERE run = {run:String} AND rollout = {rollout:String} AND (trace = {trace:String} OR scope = 'rollout') ORDER BY scope, node, name LIMIT {most:UInt32}`;

export const ERRORS = `SELECT scope, node, type, message, status_code FROM ${then(errors)}
WHERE run = {run:String} AND rollout = {rollout:String} AND (trace = {trace:String} OR scope = 'rollout') ORDER BY time, type LIMIT {most:UInt32}`;
