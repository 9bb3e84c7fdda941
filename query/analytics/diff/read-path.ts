/** Reads the path of a rollout that a diff follows: the trace of the agent that is trained and began first, to its last leaf. */
import { buildForest, pathTo } from '../../traces/graph.ts';
import type { Reader } from '../reader.ts';
import { intOf, type StoredInt } from '../stored-number.ts';
import type { PathNode } from './first-difference.ts';

const NO_PARENT = 0xffff_ffff;

export type Path = { readonly trace: string; readonly agent: string | null; readonly leaf: number; readonly nodes: readonly PathNode[] };

type TraceRow = { trace: string; agent: string | null; trainable: boolean | null; start: StoredInt };
type SkeletonRow = { index: number; parent: number | null };
type NodeRow = {
  index: number; role: string; sampled: boolean; text: string | null; reasoning: string | null; names: string[]; args: string[]; tokens: StoredInt; ids_hash: string;
}; // prettier-ignore

/** Null when the rollout has no trace with nodes. `trace` names another one than that which speaks for the rollout. */
export async function readPath(reader: Reader, run: string, rollout: string, trace: string | null): Promise<Path | null> {
  const within = `${reader.within()} AND run = {run:String} AND rollout = {rollout:String}`;
  const chosen = trace === null ? await speakingTrace(reader, within, { run, rollout }) : { trace, agent: null };
  if (chosen === null) return null;
  const params = { run, rollout, trace: chosen.trace };
  const rows = await reader.rows<SkeletonRow>(`SELECT index, parent FROM nodes FINAL WHERE ${within} AND trace = {trace:String} ORDER BY index`, params);
  const forest = buildForest({
    index: Uint32Array.from(rows, (row) => row.index),
    parent: Uint32Array.from(rows, (row) => row.parent ?? NO_PARENT),
    tokens: new Float64Array(rows.length),
  });
  const leaf = forest.leaves.at(-1);
  const path = leaf === undefined ? undefined : pathTo(forest, leaf);
  if (leaf === undefined || path === undefined) return null;
  const nodes = await reader.rows<NodeRow>(
    `SELECT index, role, sampled, text, reasoning, tool_call_names AS names, tool_call_arguments AS args, tokens, hex(sipHash128(token_ids)) AS ids_hash
     FROM node_payloads FINAL WHERE ${within} AND trace = {trace:String} AND index <= {leaf:UInt32} ORDER BY index`,
    { ...params, leaf },
  );
  const onPath = new Set(path);
  return { ...chosen, leaf, nodes: nodes.filter((node) => onPath.has(node.index)).map(nodeOf) };
} // prettier-ignore

async function speakingTrace(reader: Reader, within: string, params: { run: string; rollout: string }): Promise<{ trace: string; agent: string | null } | null> {
  const latest = (column: string): string => `argMaxIf(${column}, _offset, isNotNull(${column}))`;
  const [started, withNodes] = await Promise.all([
    reader.rows<TraceRow>(
      `SELECT trace, ${latest('agent')} AS agent, ${latest('trainable')} AS trainable, toUnixTimestamp64Micro(ifNull(${latest('started')}, minIf(nullIf(time, toDateTime64(0, 6, 'UTC')), type = 'trace.started'))) AS start
       FROM (SELECT trace, type, agent, trainable, started, time, _offset FROM trace_events FINAL WHERE ${within}) GROUP BY trace`,
      params,
    ),
    reader.rows<{ trace: string }>(`SELECT DISTINCT trace FROM nodes FINAL WHERE ${within} ORDER BY trace`, params),
  ]);
  const known = new Map(started.map((row) => [row.trace, row]));
  const candidates = withNodes.map(({ trace }) => known.get(trace) ?? { trace, agent: null, trainable: null, start: null });
  const rank = (row: TraceRow): number => (row.trainable === false ? 1 : 0);
  const start = (row: TraceRow): number => intOf(row.start) ?? Infinity;
  const [first] = candidates.toSorted((a, b) => rank(a) - rank(b) || start(a) - start(b) || (a.trace < b.trace ? -1 : 1));
  return first === undefined ? null : { trace: first.trace, agent: first.agent };
} // prettier-ignore

function nodeOf(row: NodeRow): PathNode {
  return {
    index: row.index,
    role: row.role,
    sampled: Boolean(row.sampled),
    text: row.text,
    reasoning: row.reasoning,
    toolCalls: row.names.map((name, place) => ({ name, arguments: row.args[place] ?? '' })),
    tokensHash: row.tokens === null ? null : row.ids_hash,
  };
}
