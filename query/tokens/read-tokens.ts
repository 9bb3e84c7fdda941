/** The tokens of a branch by range and column, with what trainers and teachers said about them joined by (trace, leaf, position). */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { BOUND_FACTS } from '../positions/before-position.ts';
import { positionText } from '../positions/log-position.ts';
import { pathTo, rowOf, type Skeleton } from '../traces/graph.ts';
import { bytesOf, locateTrace, noNode, optionsOf, readForest, type Place, type TraceRequest } from '../traces/read-trace.ts';
import { RowBinary } from '../traces/row-binary.ts';
import { planStreams } from '../traces/stream-plan.ts';
import { layAnnotation, layNode, openStretch, type Alignment, type Annotation, type NodeTokens, type Stretch } from './node-tokens.ts';
import type { TokenColumnName } from './token-columns.ts';

export type TokensRequest = TraceRequest & {
  readonly leaf: number;
  readonly from: number;
  /** One behind the last token; the end of the branch when absent. */
  readonly to?: number | undefined;
  readonly columns: readonly TokenColumnName[];
  /** Which teacher's scores; the last ones when absent. */
  readonly teacher?: string | undefined;
  /** Which annotation; the last one when absent. */
  readonly feed?: string | undefined;
  readonly step?: number | undefined;
};

export type TokensAnswer = {
  readonly place: Place;
  readonly trace: string;
  /** The log position the answer is true of. */
  readonly asOf: string;
  readonly leaf: number;
  /** Tokens of the whole branch. */
  readonly tokens: number;
  /** Nodes of the stretch with the range of tokens of each in the branch. */
  readonly segments: readonly { readonly node: number; readonly from: number; readonly to: number }[];
  readonly stretch: Stretch;
  /** Null when no column of it was asked for, or there is none. */
  readonly annotation: { readonly step: number | null; readonly feed: string | null; readonly alignments: Readonly<Record<string, Alignment>> } | null;
}; // prettier-ignore

/** Tokens of one answer. */
export const MAX_TOKENS = 2_000_000;

/** Errors: `not_found`, `bad_request` (ambiguous id, range), `result_too_large`, and those of the store. */
export async function readTokens(store: ColumnStore, request: TokensRequest): Promise<TokensAnswer> {
  const place = await locateTrace(store, request);
  const forest = await readForest(store, request, place);
  const { skeleton } = forest;
  const path = pathTo(forest, request.leaf);
  if (path === undefined) throw noNode(request.trace, request.leaf, forest);
  const starts = startsOf(skeleton, path);
  const tokens = starts.at(-1) as number;
  const { from, to } = rangeOf(request, tokens);
  const inside = path.filter((_, at) => (starts[at + 1] as number) > from && (starts[at] as number) < to);
  const first = path.indexOf(inside[0] ?? -1);
  const annotated = request.columns.some((name) => name === 'trainer_logprob' || name === 'entropy' || name === 'is_masked');
  const stretch = openStretch(from, to, annotated && !request.columns.includes('mask') ? [...request.columns, 'mask'] : request.columns);
  const place2 = { request, place, store };
  const nodes = await readNodes(place2, skeleton, inside);
  for (const [at, index] of inside.entries()) {
    const node = nodes.get(index);
    if (node !== undefined) layNode(stretch, node, starts[first + at] as number);
  }
  const annotation = annotated ? await annotate(place2, stretch, { path, starts, tokens }) : null;
  const segments = inside.map((node, at) => ({ node, from: starts[first + at] as number, to: starts[first + at + 1] as number }));
  const columns = new Map(request.columns.flatMap((name) => (stretch.columns.has(name) ? [[name, stretch.columns.get(name)] as const] : [])));
  return { place, trace: request.trace, asOf: positionText(request.position), leaf: request.leaf, tokens, segments, stretch: { from, to, columns: columns as Stretch['columns'] }, annotation };
} // prettier-ignore

/** Where each node of a path begins, and the end. */
function startsOf(skeleton: Skeleton, path: readonly number[]): number[] {
  const starts = [0];
  for (const node of path) {
    starts.push((starts.at(-1) as number) + (skeleton.tokens[rowOf(skeleton.index, node) as number] as number));
  }
  return starts;
}

function rangeOf(request: TokensRequest, tokens: number): { from: number; to: number } {
  const { from } = request;
  const to = Math.min(request.to ?? tokens, tokens);
  if (from > tokens || to < from) {
    throw new TapedeckError('bad_request', `the branch has ${tokens} tokens; the range ${from} to ${request.to ?? 'its end'} lies outside`, { details: { tokens } });
  }
  if (to - from > MAX_TOKENS) {
    throw new TapedeckError('result_too_large', `the range has ${to - from} tokens, more than ${MAX_TOKENS}: read it in parts with from and to`, { details: { tokens, limit: MAX_TOKENS } });
  }
  return { from, to };
} // prettier-ignore

type Where = { readonly store: ColumnStore; readonly request: TokensRequest; readonly place: Place };

const NODE_KEY = `project = {project:String} AND run = {run:String} AND rollout = {rollout:String} AND trace = {trace:String} AND ${BOUND_FACTS.before('')}`;
const NO_VERSION = '18446744073709551615';

/** The streams that these columns need; others are not read. */
function nodeSql(columns: readonly TokenColumnName[], condition: string): string {
  const when = (name: TokenColumnName, column: string, type: string): string => (columns.includes(name) ? column : `CAST([], 'Array(${type})')`); // prettier-ignore
  return (
    `SELECT index, token_ids, mask, ${when('is_content', 'is_content', 'UInt8')}, ${when('logprob', 'logprobs', 'Float32')}, ${when('reference_logprob', 'reference_logprobs', 'Float32')}, ` +
    `${when('advantage', 'advantages', 'Float32')}, ifNull(policy_version, ${NO_VERSION}), policy_run_lengths, policy_run_versions ` +
    `FROM node_payloads FINAL WHERE ${NODE_KEY} AND ${condition} ORDER BY index`
  );
}

async function readNodes({ store, request, place }: Where, skeleton: Skeleton, path: readonly number[]): Promise<Map<number, NodeTokens>> {
  const options = optionsOf(request, place);
  const teachers = request.columns.includes('teacher_logprob') ? await readTeacher(store, request, options) : new Map<number, Float32Array>();
  const found = new Map<number, NodeTokens>();
  for (const { kind, nodes } of path.length === 0 ? [] : planStreams(skeleton, path)) {
    const sql = nodeSql(request.columns, kind === 'range' ? 'index BETWEEN {first:UInt32} AND {last:UInt32}' : 'index IN ({nodes:Array(UInt32)})');
    const named = kind === 'range' ? { first: nodes[0] ?? 0, last: nodes.at(-1) ?? 0 } : { nodes: [...nodes] };
    const rows = new RowBinary(await bytesOf(store, sql, { ...options, params: { ...options.params, ...named } }));
    const wanted = new Set(nodes);
    while (!rows.isAtEnd) {
      const node = nodeFrom(rows, teachers);
      if (wanted.has(node.node)) found.set(node.node, node);
    }
  }
  return found;
} // prettier-ignore

function nodeFrom(rows: RowBinary, teachers: ReadonlyMap<number, Float32Array>): NodeTokens {
  const node = rows.uint32();
  const ids = words(rows.list(4));
  const [mask, isContent] = [rows.list(1), rows.list(1)];
  const [logprobs, referenceLogprobs, advantages] = [floats(rows.list(4)), floats(rows.list(4)), floats(rows.list(4))];
  const version = rows.uint64();
  const [lengths, versions] = [longs(rows.list(8)), longs(rows.list(8))];
  const policyRuns = lengths.map((length, at) => ({ length, version: versions[at] as number }));
  const policyVersion = version > Number.MAX_SAFE_INTEGER ? null : version;
  return { node, ids, mask, isContent, logprobs, referenceLogprobs, advantages, teacherLogprobs: teachers.get(node) ?? new Float32Array(0), policyVersion, policyRuns };
} // prettier-ignore

/** The last scores of each node, of one teacher or of any. */
async function readTeacher(store: ColumnStore, { teacher }: TokensRequest, options: QueryOptions): Promise<Map<number, Float32Array>> {
  const sql =
    `SELECT node, argMax(logprobs, _offset) FROM (SELECT node, logprobs, _offset FROM reference_scores FINAL WHERE ${NODE_KEY}` +
    `${teacher === undefined ? '' : ' AND source = {teacher:String}'}) GROUP BY node`;
  const rows = new RowBinary(await bytesOf(store, sql, { ...options, params: { ...options.params, ...(teacher === undefined ? {} : { teacher }) } })); // prettier-ignore
  const found = new Map<number, Float32Array>();
  while (!rows.isAtEnd) found.set(rows.uint32(), floats(rows.list(4)));
  return found;
}

type Branch = { readonly path: readonly number[]; readonly starts: readonly number[]; readonly tokens: number };

async function annotate({ store, request, place }: Where, stretch: Stretch, branch: Branch): Promise<TokensAnswer['annotation']> {
  const { leaf, feed, step } = request;
  const options = optionsOf(request, place);
  const sql =
    `SELECT ifNull(step, ${NO_VERSION}), feed, trainer_logprobs, entropies, is_masked FROM trainer_annotations FINAL WHERE ${NODE_KEY} AND leaf = {leaf:UInt32}` +
    `${feed === undefined ? '' : ' AND feed = {feed:String}'}${step === undefined ? '' : ' AND step = {step:UInt64}'} ORDER BY timeline DESC, _offset DESC LIMIT 1`;
  const params = { ...options.params, leaf, ...(feed === undefined ? {} : { feed }), ...(step === undefined ? {} : { step }) };
  const rows = new RowBinary(await bytesOf(store, sql, { ...options, params }));
  if (rows.isAtEnd) return null;
  const at = rows.uint64();
  const name = Buffer.from(rows.list(1)).toString(); // text is a list of bytes
  const annotation: Annotation = { trainerLogprobs: floats(rows.list(4)), entropies: floats(rows.list(4)), isMasked: rows.list(1) };
  const sampled = await readSampled(store, options, branch, stretch.from);
  const mask = stretch.columns.get('mask')?.values as Uint8Array;
  const alignments = layAnnotation(stretch, annotation, { tokens: branch.tokens, ...sampled, mask });
  return { step: at > Number.MAX_SAFE_INTEGER ? null : at, feed: name === '' ? null : name, alignments };
} // prettier-ignore

/** Sampled tokens of the branch, and of it before a token: by node counts, and the mask of the node that the token lies in. */
async function readSampled(
  store: ColumnStore,
  options: QueryOptions,
  { path, starts }: Branch,
  from: number,
): Promise<{ sampled: number; sampledBefore: number }> {
  const sql = `SELECT index, toUInt32(ifNull(sampled_tokens, 0)) FROM nodes FINAL WHERE ${NODE_KEY} ORDER BY index`;
  const rows = new RowBinary(await bytesOf(store, sql, options));
  const counts = new Map<number, number>();
  while (!rows.isAtEnd) counts.set(rows.uint32(), rows.uint32());
  let [sampled, sampledBefore] = [0, 0];
  for (const [at, node] of path.entries()) {
    const count = counts.get(node) ?? 0;
    sampled += count;
    if ((starts[at + 1] as number) <= from) sampledBefore += count;
    else if ((starts[at] as number) < from) sampledBefore += await sampledWithin(store, options, node, from - (starts[at] as number));
  }
  return { sampled, sampledBefore };
}

async function sampledWithin(store: ColumnStore, options: QueryOptions, node: number, tokens: number): Promise<number> {
  const sql = `SELECT toUInt32(arrayCount(m -> m = 1, arraySlice(mask, 1, {tokens:UInt32}))) FROM node_payloads FINAL WHERE ${NODE_KEY} AND index = {node:UInt32}`;
  const rows = new RowBinary(await bytesOf(store, sql, { ...options, params: { ...options.params, node, tokens } }));
  return rows.isAtEnd ? 0 : rows.uint32();
}

/** Copies, so that the words are aligned whatever lay before them. */
function words(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(new Uint8Array(bytes).buffer);
}

function floats(bytes: Uint8Array): Float32Array {
  return new Float32Array(new Uint8Array(bytes).buffer);
}

function longs(bytes: Uint8Array): number[] {
  return Array.from(new BigUint64Array(new Uint8Array(bytes).buffer), Number);
}
