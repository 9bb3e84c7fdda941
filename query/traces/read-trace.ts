/** Reads one trace at a log position. A trace that is still being written opens like any other. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions, SqlParams } from '../../store/columns/column-store.ts';
import { sourceAsOf, type AsOfRequest, type RolloutPlace } from '../lists/as-of.ts';
import { asOfPosition } from '../lists/read-list.ts';
import { Params } from '../lists/sql-params.ts';
import { boundFacts } from '../positions/before-position.ts';
import { positionText, type LogPosition } from '../positions/log-position.ts';
import { joinStreams } from './branch-tokens.ts';
import type { NodeStreams } from './branch-tokens.ts';
import { branchesOf, buildForest, pathTo } from './graph.ts';
import type { Forest, Skeleton } from './graph.ts';
import { RowBinary } from './row-binary.ts';
import { SharedReads } from './shared-reads.ts';
import { planStreams, tokensOf } from './stream-plan.ts';
import type { StreamFetch } from './stream-plan.ts';
import type { BranchTokens, TraceAnswer } from './trace-answer.ts';
import { CALLS, ERRORS, LINKS, NODES, PLACES, REWARDS, SKELETON, STREAMS_BETWEEN, STREAMS_OF, summarySql, TOOLS } from './trace-queries.ts';
import { callOf, errorOf, linkOf, nodeOf, rewardOf, summaryOf, toolOf } from './trace-rows.ts';

export type TraceRequest = {
  readonly project: string;
  readonly trace: string;
  /** Needed only when several runs use the same trace id. */
  readonly run?: string | undefined;
  /** What counts: everything before it. */
  readonly position: LogPosition;
  readonly signal: AbortSignal;
};

export type WindowRequest = TraceRequest & {
  readonly from: number;
  readonly limit: number;
  /** Characters of each text that are wanted; all when absent. */
  readonly chars?: number | undefined;
};

/** Entries of each list in an answer; what is cut is named in `cut`. */
const MAX_LIST = 1_000;
const MAX_BRANCH_TOKENS = 8 * 1024 * 1024;
const TIMEOUT_MS = 30_000;
const SETTINGS = { max_result_bytes: 256 * 1024 * 1024, max_memory_usage: 2 * 1024 ** 3, readonly: 2 };

export type Place = RolloutPlace;
type Ask = <T>(sql: string, params?: SqlParams) => Promise<T[]>;

/** The graph of a trace and a window of its nodes. Errors: not_found, bad_request (ambiguous id), and those of the store. */
export async function readTrace(store: ColumnStore, request: WindowRequest): Promise<TraceAnswer> {
  const { project, trace, from, limit } = request;
  const place = await locateTrace(store, request);
  const options = optionsOf(request, place);
  const ask: Ask = (sql, params = {}) => store.rows(sql, { ...options, params: { ...options.params, ...params } });
  const forest = await readForest(store, request, place);
  const { index } = forest.skeleton;
  const start = index.findIndex((node) => node >= from);
  const window = start < 0 ? index.subarray(index.length) : index.subarray(start, start + limit);
  const to = window.length === 0 ? from : (window.at(-1) as number);
  const next = start < 0 ? undefined : index[start + limit];
  const most = { most: MAX_LIST + 1 };
  const range = { from, to };
  const cut: string[] = [];
  const list = async <R, T>(name: string, sql: string, read: (row: R) => T, params: SqlParams = most): Promise<T[]> => {
    const rows = await ask<R>(sql, params);
    if (rows.length > MAX_LIST) cut.push(name);
    return rows.slice(0, MAX_LIST).map(read);
  };
  const [summary, nodes, calls, tools, links, rewards, errors] = await Promise.all([
    readSummary(store, request, place),
    window.length === 0 ? [] : ask<Parameters<typeof nodeOf>[0]>(NODES, { ...range, chars: request.chars ?? 0 }),
    list('calls', CALLS, callOf, { ...most, ...range }),
    list('tools', TOOLS, toolOf, { ...most, ...range }),
    list('links', LINKS, linkOf),
    list('rewards', REWARDS, rewardOf),
    list('errors', ERRORS, errorOf),
  ]);
  const branches = branchesOf(forest);
  if (branches.length > MAX_LIST) cut.push('branches');
  return {
    project,
    ...place,
    trace,
    asOf: positionText(request.position),
    // not "ended": that is NULL, too, where the files that a trace came from held no times
    open: summary === undefined || summary.truncated === null,
    summary: summary === undefined ? null : summaryOf(summary),
    graph: {
      nodes: index.length,
      roots: forest.roots.slice(0, MAX_LIST),
      orphans: forest.orphans.slice(0, MAX_LIST),
      branchCount: branches.length,
      lastLeaf: forest.leaves.at(-1) ?? null,
      branches: branches.slice(0, MAX_LIST),
    },
    window: { from, limit, next: next ?? null },
    nodes: nodes.map((row) => nodeOf(row, request.chars)),
    calls,
    tools,
    links,
    rewards,
    errors,
    cut,
  };
}

/** The token streams of the path from the root to `leaf`. Any node may be named; a leaf gives a whole branch. */
export async function readBranchTokens(
  store: ColumnStore,
  request: TraceRequest & { readonly leaf: number; readonly encoding: 'base64' | 'arrays' },
): Promise<BranchTokens> {
  const { project, trace, leaf, encoding } = request;
  const place = await locateTrace(store, request);
  const options = optionsOf(request, place);
  const forest = await readForest(store, request, place);
  const path = pathTo(forest, leaf);
  if (path === undefined) throw noNode(trace, leaf, forest);
  const tokens = tokensOf(forest, path);
  if (tokens > MAX_BRANCH_TOKENS) {
    throw new TapedeckError(
      'result_too_large',
      `the branch has ${tokens} tokens, more than ${MAX_BRANCH_TOKENS}: read its nodes in parts with SQL`,
      {
        details: { tokens, limit: MAX_BRANCH_TOKENS },
      },
    );
  }
  const streams: NodeStreams[] = [];
  for (const fetch of planStreams(forest.skeleton, path)) streams.push(...(await readStreams(store, options, fetch)));
  return { project, ...place, trace, asOf: positionText(request.position), leaf, path, ...joinStreams(streams, encoding) };
}

export function noNode(trace: string, leaf: number, forest: Forest): TapedeckError {
  const leaves = forest.leaves.slice(0, 20);
  return new TapedeckError(
    'not_found',
    `the trace "${trace}" has no node ${leaf}; its branches end in ${leaves.join(', ')}${forest.leaves.length > 20 ? ', …' : ''}`,
    {
      details: { leaf, leaves },
    },
  );
}

/** Summaries follow the facts by a second: at the position they are computed again where they are not those of it. */
async function readSummary(store: ColumnStore, request: TraceRequest, place: Place): Promise<Parameters<typeof summaryOf>[0] | undefined> {
  const options = optionsOf(request, place);
  const { project, position } = request;
  const at = async (asOf: AsOfRequest): Promise<Parameters<typeof summaryOf>[0] | undefined> => {
    const params = new Params();
    const sql = summarySql(sourceAsOf(asOf, params));
    const [row] = await store.rows<Parameters<typeof summaryOf>[0]>(sql, { ...options, params: { ...options.params, ...params.values() } });
    return row;
  };
  return asOfPosition(store, { project, isSummary: true, wanted: position, options, rollout: place }, at);
} // prettier-ignore

/** Errors: `not_found`; `bad_request` where several runs have the trace and none is named. */
export async function locateTrace(store: ColumnStore, { project, trace, run, position, signal }: TraceRequest): Promise<Place> {
  const params = { ...boundFacts(project, position), trace };
  const rows = await store.rows<Place>(PLACES, { params, settings: SETTINGS, timeoutMs: TIMEOUT_MS, signal });
  const places = run === undefined ? rows : rows.filter((row) => row.run === run);
  const [place, ...others] = places;
  if (place === undefined) {
    const where = run === undefined ? '' : ` in the run "${run}"`;
    throw new TapedeckError('not_found', `there is no trace "${trace}" in the project "${project}"${where}`, {
      details: { trace, project },
    });
  }
  if (others.length > 0) {
    throw new TapedeckError('bad_request', `several runs or rollouts have a trace "${trace}": name the run`, { details: { places } });
  }
  return place;
}

/** What every statement about a trace binds: where it is, and what counts. */
export function optionsOf({ project, trace, position, signal }: TraceRequest, place: Place): QueryOptions & { readonly params: SqlParams } {
  return { params: { ...boundFacts(project, position), ...place, trace }, settings: SETTINGS, timeoutMs: TIMEOUT_MS, signal };
}

const graphReads = new WeakMap<ColumnStore, SharedReads<Forest>>();

/** The graph of a trace, read once for all who ask for it in the same moment. */
export async function readForest(store: ColumnStore, request: TraceRequest, place: Place): Promise<Forest> {
  const reads = graphReads.get(store) ?? new SharedReads<Forest>();
  graphReads.set(store, reads);
  const key = JSON.stringify([request.project, positionText(request.position), place.run, place.rollout, request.trace]);
  return reads.read(key, request.signal, async (signal) => buildForest(await readSkeleton(store, { ...request, signal }, place)));
}

/** The shape of a trace, from the narrow table of nodes: three words a node. */
async function readSkeleton(store: ColumnStore, request: TraceRequest, place: Place): Promise<Skeleton> {
  const bytes = await bytesOf(store, SKELETON, optionsOf(request, place));
  const words = new Uint32Array(new Uint8Array(bytes).buffer);
  const size = words.length / 3;
  const skeleton = { index: new Uint32Array(size), parent: new Uint32Array(size), tokens: new Float64Array(size) };
  for (let row = 0; row < size; row++) {
    skeleton.index[row] = words[row * 3] as number;
    skeleton.parent[row] = words[row * 3 + 1] as number;
    skeleton.tokens[row] = words[row * 3 + 2] as number;
  }
  return skeleton;
}

async function readStreams(store: ColumnStore, options: QueryOptions, fetch: StreamFetch): Promise<NodeStreams[]> {
  const { nodes } = fetch;
  const range = { first: nodes[0] ?? 0, last: nodes.at(-1) ?? 0 };
  const rows = new RowBinary(
    fetch.kind === 'range'
      ? await bytesOf(store, STREAMS_BETWEEN, { ...options, params: { ...options.params, ...range } })
      : await bytesOf(store, STREAMS_OF, { ...options, params: { ...options.params, nodes: [...nodes] } }),
  );
  const wanted = new Set(nodes);
  const found: NodeStreams[] = [];
  while (!rows.isAtEnd) {
    const node = { node: rows.uint32(), ids: rows.list(4), mask: rows.list(1), logprobs: rows.list(4) };
    if (wanted.has(node.node)) found.push(node);
  }
  return found;
}

export async function bytesOf(store: ColumnStore, sql: string, options: QueryOptions): Promise<Uint8Array> {
  const { body } = await store.stream(sql, 'RowBinary', options);
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts);
}
