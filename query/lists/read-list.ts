/** Answers a list as of one log position: the page, how many there are, rank markers, histograms. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { positionText, type WantedPosition } from '../positions/log-position.ts';
import { storedPosition, summarisedPosition } from '../positions/read-position.ts';
import { hasLeaked, type AsOfRequest, type RolloutPlace } from './as-of.ts';
import { readHistograms, type Histogram } from './histograms.ts';
import { positionOfPage } from './cursor.ts';
import { cursorAfter, type ListRequest } from './list-request.ts';
import { readMarkers, type Markers } from './markers.ts';
import { fieldColumns, rowOf } from './row-json.ts';
import { afterSql, keyColumns, keyOf, orderSql } from './sort.ts';
import { Params } from './sql-params.ts';
import { fieldsIn, statementOf } from './statement.ts';

export type ListAnswer = {
  /** The log position the answer is true of; the same request with it as `asOf` gives the same answer for ever, unless a run is deleted. */
  readonly asOf: string;
  /** Absent when not asked for. `exact: false` means "at least so many". */
  readonly count?: { readonly value: string; readonly exact: boolean };
  readonly rows: readonly Record<string, unknown>[];
  /** Where the next page begins; null at the end. */
  readonly next: string | null;
  readonly markers?: Markers;
  readonly histograms?: Readonly<Record<string, Histogram>>;
};

export const TIMEOUT_MS = 30_000;
export const SETTINGS = { max_memory_usage: 2 * 1024 ** 3, max_result_bytes: 256 * 1024 * 1024, readonly: 2 };
/** Counts go up to here unless all are asked for. */
export const BOUNDED_COUNT = 10_000;
const MAX_TRIES = 12;

/** Errors: those of the store; `overloaded` when summaries were refreshed under the query again and again. */
export async function readList(store: ColumnStore, request: ListRequest, wanted: WantedPosition, signal: AbortSignal): Promise<ListAnswer> {
  const options: QueryOptions = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
  return asOfPosition(store, { project: request.project, isSummary: readsSummaries(request), wanted: positionOfPage(request.cursor, wanted), options }, (asOf) => answerAt(store, request, asOf, options)); // prettier-ignore
}

type Positioned = {
  readonly project: string;
  readonly isSummary: boolean;
  readonly wanted: WantedPosition;
  readonly options: QueryOptions;
  /** The only rollout whose summaries the query reads; absent: any. */
  readonly rollout?: RolloutPlace;
};

/** Runs a query at a position, again where summaries moved under it. `wanted` null: everything summarised, or stored where no summaries are read. */
export async function asOfPosition<T>(store: ColumnStore, { project, isSummary, wanted, options, rollout }: Positioned, work: (asOf: AsOfRequest) => Promise<T>): Promise<T> {
  const latest = wanted === 'latest' || (wanted === null && !isSummary) ? await storedPosition(store, options) : null;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const summarised = isSummary ? await summarisedPosition(store, options) : { events: [], feeds: [] };
    const position = latest ?? (wanted === null || wanted === 'latest' ? summarised : wanted);
    const asOf = { project, position, summarised: isSummary ? summarised : position, ...(rollout === undefined ? {} : { rollout }) };
    const answer = await work(asOf);
    if (!isSummary || !(await hasLeaked(store, asOf, new Params(), options))) return answer;
  }
  throw new TapedeckError('overloaded', 'summaries are refreshed faster than this list is read; ask again');
} // prettier-ignore

export function readsSummaries({ resource, fields, sort, filter, histograms }: ListRequest): boolean {
  const used = [...fields, ...sort.map((key) => key.field), ...histograms, ...fieldsIn(filter)];
  return resource.isSummary || used.some((field) => field.join === 'agent');
}

async function answerAt(store: ColumnStore, request: ListRequest, asOf: AsOfRequest, options: QueryOptions): Promise<ListAnswer> {
  const [page, count, markers, histograms] = await Promise.all([
    readPage(store, request, asOf, options),
    request.count === 'none' ? null : readCount(store, request, asOf, options),
    request.markers === 0 ? null : readMarkers(store, request, asOf, options),
    request.histograms.length === 0 ? null : readHistograms(store, request, asOf, options),
  ]);
  return {
    asOf: positionText(asOf.position),
    ...(count === null ? {} : { count }),
    ...page,
    ...(markers === null ? {} : { markers }),
    ...(histograms === null ? {} : { histograms }),
  };
}

async function readPage(
  store: ColumnStore,
  request: ListRequest,
  asOf: AsOfRequest,
  options: QueryOptions,
): Promise<Pick<ListAnswer, 'rows' | 'next'>> {
  const { fields, sort, cursor, limit } = request;
  const { sql, params } = statementOf(request, asOf, [...fields, ...sort.map((key) => key.field)], (bound) => ({
    select: [...fieldColumns(fields), ...keyColumns(sort)].join(', '),
    where: cursor === null || cursor.after.length === 0 ? '' : afterSql(sort, cursor.after, bound),
    rest: `ORDER BY ${orderSql(sort)} LIMIT ${bound.add(limit + 1, 'UInt32')}`,
  }));
  const rows = await store.rows<Record<string, unknown>>(sql, { ...options, params: params.values() });
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return {
    rows: page.map((row) => rowOf(fields, row)),
    next: last === undefined ? null : cursorAfter(request, asOf.position, keyOf(sort, last)),
  };
}

async function readCount(
  store: ColumnStore,
  request: ListRequest,
  asOf: AsOfRequest,
  options: QueryOptions,
): Promise<{ value: string; exact: boolean }> {
  const bound = request.count === 'bounded';
  const { sql, params } = statementOf(request, asOf, [], () => ({ select: '1', rest: bound ? `LIMIT ${BOUNDED_COUNT + 1}` : '' }));
  const [row] = await store.rows<{ n: string }>(`SELECT count() AS n FROM (${sql})`, { ...options, params: params.values() });
  const found = Number(row?.n ?? 0);
  return bound && found > BOUNDED_COUNT ? { value: String(BOUNDED_COUNT), exact: false } : { value: String(found), exact: true };
}
