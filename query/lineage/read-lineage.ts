/** Lineage both ways: step -> batch -> row -> node -> range of tokens, and from a node back to the steps that trained it. Every hop says whether its counts agree. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions, SqlParams } from '../../store/columns/column-store.ts';
import { viewSelect, type View } from '../../store/columns/views/view.ts';
import { batches, batchRows } from '../../store/columns/views/trainer-views.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { BOUND_FACTS, boundFacts } from '../positions/before-position.ts';
import { positionText, type LogPosition } from '../positions/log-position.ts';
import { pathTo, rowOf, type Forest } from '../traces/graph.ts';
import { locateTrace, noNode, readForest, type TraceRequest } from '../traces/read-trace.ts';
import { rowEntry, type LineageRow, type StoredRow } from './lineage-row.ts';

type Asked = { readonly project: string; readonly position: LogPosition; readonly signal: AbortSignal };
/** The log position an answer is true of: asked again with it as `asOf` it stays the same for ever, until the run is deleted. */
type Answered = { readonly asOf: string };
export type StepLineage = Answered & {
  readonly batches: readonly {
    readonly run: string | null;
    readonly feed: string;
    readonly timeline: string;
    readonly n: string;
    readonly batchId: string | null;
    readonly step: string | null;
    readonly abandoned: boolean;
    /** What is stored of its rows; the rows themselves: `GET /v1/batch_rows?feed=&timeline=&n=`. */
    readonly rows: string;
    readonly rollouts: string;
    readonly traces: string;
    readonly tokens: string;
    readonly trained: string;
    /** Rows as the cut counted them; null where it did not say. */
    readonly rowsAtCut: string | null;
    /** Whether both counts agree; null where the cut did not say. */
    readonly agrees: boolean | null;
  }[];
};
export type RowLineage = Answered & {
  readonly row: LineageRow;
  /** Nodes from the root to the leaf with the range of tokens of each in the row; a row that was cut short ends inside a node. */
  readonly nodes: readonly { readonly node: number; readonly from: number; readonly to: number; readonly whole: boolean }[];
  /** Tokens of the branch, and of the row: they differ where the row was cut short. */
  readonly branchTokens: number;
  readonly agrees: boolean;
};
export type NodeLineage = Answered & {
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  readonly node: number;
  readonly tokens: number;
  /** Rows whose branch goes through the node, newest batch last, with the node's range of tokens in each; an empty range was cut off. */
  readonly rows: readonly (LineageRow & { readonly from: number; readonly to: number })[];
};

const MAX_ROWS = 10_000;

function relation(view: View): string {
  return `(${viewSelect(view, BOUND_FACTS)})`;
}

/** What a step trained on: the batches that were committed for it, abandoned ones included. */
export async function readStep(
  store: ColumnStore,
  { step, run, feed, ...asked }: Asked & { readonly step: number; readonly run?: string | undefined; readonly feed?: string | undefined },
): Promise<StepLineage> {
  const where = ['step = {step:UInt64}', ...(run === undefined ? [] : ['run = {run:String}']), ...(feed === undefined ? [] : ['feed = {feed:String}'])];
  const params = { step, ...(run === undefined ? {} : { run }), ...(feed === undefined ? {} : { feed }) };
  const of = `SELECT run, feed, timeline, n, batch_id, step, committed, abandoned, data FROM ${relation(batches)} WHERE ${where.join(' AND ')}`;
  const counts = `SELECT feed, timeline, n, count() AS row_count, uniqExact(run, rollout) AS rollout_count, uniqExact(run, rollout, trace) AS trace_count, sum(seq_len) AS token_count, sum(trained) AS trained_count FROM ${relation(batchRows)} WHERE step = {step:UInt64} GROUP BY feed, timeline, n`;
  type Row = { run: string | null; feed: string; timeline: string; n: string; batch_id: string | null; step: string | null; abandoned: boolean; at_cut: string | null; row_count: string | null; rollout_count: string | null; trace_count: string | null; token_count: string | null; trained_count: string | null };
  const rows = await ask<Row>(
    store,
    `SELECT b.run AS run, b.feed AS feed, b.timeline AS timeline, b.n AS n, b.batch_id AS batch_id, b.step AS step, b.abandoned AS abandoned, ` +
      `if(JSONHas(ifNull(b.data, '{}'), 'counts', 'rows'), JSONExtract(ifNull(b.data, '{}'), 'counts', 'rows', 'Nullable(UInt64)'), NULL) AS at_cut, ` +
      `r.row_count AS row_count, r.rollout_count AS rollout_count, r.trace_count AS trace_count, r.token_count AS token_count, r.trained_count AS trained_count ` +
      `FROM (${of}) AS b LEFT JOIN (${counts}) AS r ON b.feed = r.feed AND b.timeline = r.timeline AND b.n = r.n ORDER BY feed, timeline, n`,
    params,
    asked,
  );
  return {
    asOf: positionText(asked.position),
    batches: rows.map((row) => ({
      run: row.run, feed: row.feed, timeline: row.timeline, n: row.n, batchId: row.batch_id, step: row.step, abandoned: row.abandoned,
      rows: row.row_count ?? '0', rollouts: row.rollout_count ?? '0', traces: row.trace_count ?? '0', tokens: row.token_count ?? '0', trained: row.trained_count ?? '0',
      rowsAtCut: row.at_cut, agrees: row.at_cut === null ? null : row.at_cut === (row.row_count ?? '0'),
    })),
  };
} // prettier-ignore

/** Which tokens of which nodes a row is made of. Errors: `not_found`; `bad_request` where several batches hold the row. */
export async function readRow(
  store: ColumnStore,
  { rowId, feed, timeline, n, ...asked }: Asked & { readonly rowId: string; readonly feed?: string | undefined; readonly timeline?: number | undefined; readonly n?: number | undefined },
): Promise<RowLineage> {
  const given = { feed, timeline, n };
  const where = ['row_id = {row:String}', ...(feed === undefined ? [] : ['feed = {feed:String}']), ...(timeline === undefined ? [] : ['timeline = {timeline:UInt64}']), ...(n === undefined ? [] : ['n = {n:UInt64}'])];
  const params = { row: rowId, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
  const rows = await ask<StoredRow>(store, `SELECT * FROM ${relation(batchRows)} WHERE ${where.join(' AND ')} ORDER BY feed, timeline, n LIMIT 20`, params, asked);
  const [row, ...others] = rows;
  if (row === undefined) throw new TapedeckError('not_found', `there is no row ${JSON.stringify(rowId)} in a batch of the project ${JSON.stringify(asked.project)}`);
  if (others.length > 0) {
    throw new TapedeckError('bad_request', 'several batches hold that row: name feed, timeline and n', { details: { batches: rows.map((each) => ({ feed: each.feed, timeline: each.timeline, n: each.n })) } });
  }
  const forest = await forestOf(store, { ...asked, trace: row.trace, run: row.run ?? undefined });
  const ranges = rangesOf(forest, row.leaf);
  if (ranges === undefined) throw noNode(row.trace, row.leaf, forest);
  const branchTokens = ranges.at(-1)?.to ?? 0;
  const length = row.seq_len === null ? branchTokens : Number(row.seq_len);
  const nodes = ranges.filter((range) => range.from < length || range.from === range.to).map(({ node, from, to }) => ({ node, from, to: Math.min(to, length), whole: to <= length }));
  return { asOf: positionText(asked.position), row: rowEntry(row), nodes, branchTokens, agrees: length <= branchTokens };
} // prettier-ignore

/** Which steps trained a node, as which tokens of which rows. Errors: `not_found`, `bad_request` (ambiguous id), `result_too_large`. */
export async function readNode(
  store: ColumnStore,
  request: Asked & { readonly trace: string; readonly run?: string | undefined; readonly node: number },
): Promise<NodeLineage> {
  const { trace, node } = request;
  const place = await locateTrace(store, request);
  const forest = await readForest(store, request, place);
  const at = rowOf(forest.skeleton.index, node);
  if (at === undefined) throw noNode(trace, node, forest);
  const rows = await ask<StoredRow>(
    store,
    `SELECT * FROM ${relation(batchRows)} WHERE run = {run:String} AND rollout = {rollout:String} AND trace = {trace:String} ORDER BY feed, timeline, n, row_id LIMIT {most:UInt32}`,
    { ...place, trace, most: MAX_ROWS + 1 },
    request,
  );
  if (rows.length > MAX_ROWS) throw new TapedeckError('result_too_large', `more than ${MAX_ROWS} rows were cut from this trace: list them with /v1/batch_rows`);
  const found = rows.flatMap((row) => {
    const range = rangesOf(forest, row.leaf)?.find((each) => each.node === node);
    if (range === undefined) return [];
    const end = row.seq_len === null ? range.to : Math.min(range.to, Number(row.seq_len));
    return [{ ...rowEntry(row), from: Math.min(range.from, end), to: end }];
  });
  return { asOf: positionText(request.position), ...place, trace, node, tokens: forest.skeleton.tokens[at] as number, rows: found };
} // prettier-ignore

async function forestOf(store: ColumnStore, request: TraceRequest): Promise<Forest> {
  return readForest(store, request, await locateTrace(store, request));
}

type Range = { readonly node: number; readonly from: number; readonly to: number };

function rangesOf(forest: Forest, leaf: number): Range[] | undefined {
  let end = 0;
  return pathTo(forest, leaf)?.map((node) => {
    const from = end;
    end += forest.skeleton.tokens[rowOf(forest.skeleton.index, node) as number] as number;
    return { node, from, to: end };
  });
}

async function ask<T>(store: ColumnStore, sql: string, params: SqlParams, { project, position, signal }: Asked): Promise<T[]> {
  const options: QueryOptions = {
    params: { ...boundFacts(project, position), ...params },
    signal,
    timeoutMs: TIMEOUT_MS,
    settings: { ...SETTINGS, join_use_nulls: 1 },
  };
  return store.rows<T>(sql, options);
}
