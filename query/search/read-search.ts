/** Full-text search over messages, through the word index that follows the other tables by seconds. */
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { cursorText, positionOfPage, readCursor, type QueryIdentity } from '../lists/cursor.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { Params } from '../lists/sql-params.ts';
import { positionText, type LogPosition, type WantedPosition } from '../positions/log-position.ts';
import { heldPosition, positionOfTask } from '../positions/read-position.ts';
import { fragmentsOf, hitsIn, type Fragment } from './highlight.ts';
import { readTerms, termsSql } from './search-terms.ts';

export type SearchRequest = {
  readonly project: string;
  readonly q: string;
  readonly run?: string | undefined;
  readonly rollout?: string | undefined;
  readonly trace?: string | undefined;
  readonly roles: readonly string[];
  /** Case as written, or also in lower case, upper case and capitalised. */
  readonly isExact: boolean;
  readonly limit: number;
  readonly chars: number;
  readonly cursor?: string | undefined;
  /** What a first page says of how many hits there are: `page` what it knows itself, `bounded` looks for further ones, up to 1,000. */
  readonly count: 'page' | 'bounded';
  /** Null and `latest`: everything indexed. */
  readonly wanted: WantedPosition;
};

export type SearchHit = {
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  readonly index: number;
  readonly role: string;
  /** Hits in the text, or in the part of it that was looked through. */
  readonly hits: number;
  readonly fragments: readonly Fragment[];
  /** Bytes of the whole text. */
  readonly bytes: string;
  /** True when only the first MiB was looked through for hits to show. */
  readonly cut: boolean;
};

export type SearchAnswer = {
  /** The log position the answer is true of; when none was asked for, the one up to which messages are indexed. */
  readonly asOf: string;
  readonly count?: { readonly value: string; readonly exact: boolean };
  readonly hits: readonly SearchHit[];
  readonly next: string | null;
};

const BOUNDED_COUNT = 1_000;
/**
 * Hits that the index finds are read in the order of the key, a granule at a time and no further than the page goes: with buffers before the merge of the parts, or several readers,
 * every granule that holds the word is read first, which over a whole project are nearly all. What the index does not help with is looked for by all threads.
 */
const IN_ORDER = { read_in_order_use_buffering: 0, max_block_size: '8192', max_threads: 1 } as const;
const SHOWN_BYTES = 1024 * 1024;
const FRAGMENTS = 3;
const KEY = ['run', 'rollout', 'trace', 'index'] as const;

/** Hits come in the order of run, rollout, trace and node. Errors: `bad_request`, `invalid_cursor`, `not_ready` for a position beyond the index, and those of the store. */
export async function search(store: ColumnStore, request: SearchRequest, signal: AbortSignal): Promise<SearchAnswer> {
  const options: QueryOptions = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
  const identity = identityOf(request);
  const cursor = request.cursor === undefined ? null : readCursor(request.cursor, identity, KEY.length);
  const position = await indexedPosition(store, positionOfPage(cursor, request.wanted), options);
  const rows = await readHits(store, request, position, cursor?.after.map(([, text]) => text) ?? null, options);
  const isAll = rows.length <= request.limit;
  const count = cursor === null ? await readCount(store, request, position, rows.length, options) : undefined;
  const page = rows.slice(0, request.limit);
  const last = isAll ? undefined : page.at(-1);
  const terms = readTerms(request.q);
  return {
    asOf: positionText(position),
    ...(count === undefined ? {} : { count }),
    hits: page.map(({ text: stored, bytes, ...row }) => {
      const text = Number(bytes) > SHOWN_BYTES ? stored.replace(/\ufffd$/, '') : stored; // the cut may have gone through a character
      const hits = hitsIn(text, terms, request.isExact);
      const fragments = fragmentsOf(text, hits, { chars: request.chars, most: FRAGMENTS });
      return { ...row, hits: hits.length, fragments, bytes: String(bytes), cut: Number(bytes) > SHOWN_BYTES };
    }),
    next: last === undefined ? null : cursorText(identity, position, KEY.map((name) => [0, String(last[name])] as const)),
  };
} // prettier-ignore

async function indexedPosition(store: ColumnStore, wanted: WantedPosition, options: QueryOptions): Promise<LogPosition> {
  const indexed = await positionOfTask(store, 'search', options);
  if (wanted === null || wanted === 'latest') return indexed;
  return heldPosition(wanted, { ...indexed, feeds: wanted.feeds }, 'the word index'); // feeds hold no messages
}

type Row = { run: string; rollout: string; trace: string; index: number; role: string; text: string; bytes: string };

async function readHits(
  store: ColumnStore,
  request: SearchRequest,
  position: LogPosition,
  after: readonly string[] | null,
  options: QueryOptions,
): Promise<Row[]> {
  const params = new Params();
  const where = conditions(request, position, params);
  if (after !== null) {
    const places = after.map((text, at) => params.add(text, at === 3 ? 'UInt32' : 'String'));
    const steps = KEY.map((name, at) => [`\`${name}\``, places[at] as string] as const);
    where.push(steps.reduceRight((rest, [name, place]) => (rest === '' ? `${name} > ${place}` : `(${name} >= ${place} AND (${name} > ${place} OR ${rest}))`), ''));
  }
  // rows of one key are the same event, stored again after a crash: any of them will do, and FINAL would read what lies beside each
  const key = KEY.map((name) => `\`${name}\``).join(', ');
  const sql =
    `SELECT ${key}, role, substring(t.text, 1, ${SHOWN_BYTES}) AS text, length(t.text) AS bytes FROM node_search AS t ` +
    `WHERE ${where.join(' AND ')} ORDER BY ${key} LIMIT 1 BY ${key} LIMIT ${params.add(request.limit + 1, 'UInt32')}`;
  const isIndexed = readTerms(request.q).some((term) => !term.isExcluded && term.words.length > 0);
  const settings = { ...options.settings, ...(isIndexed ? IN_ORDER : {}) };
  return store.rows<Row>(sql, { ...options, settings, params: params.values() });
} // prettier-ignore

/** What a first page says of how many hits there are. `found` hits were read, one more than the page holds when it is not all. */
async function readCount(
  store: ColumnStore,
  request: SearchRequest,
  position: LogPosition,
  found: number,
  options: QueryOptions,
): Promise<{ value: string; exact: boolean }> {
  if (found <= request.limit) return { value: String(found), exact: true };
  if (request.count === 'page') return { value: String(request.limit), exact: false };
  const counted = await countHits(store, request, position, options);
  return { value: String(Math.min(counted, BOUNDED_COUNT)), exact: counted <= BOUNDED_COUNT };
}

/** Hits up to one more than is counted. A node lies at one place in the log, which is narrower than its key. */
async function countHits(store: ColumnStore, request: SearchRequest, position: LogPosition, options: QueryOptions): Promise<number> {
  const params = new Params();
  const hits = `SELECT DISTINCT _partition, _offset FROM node_search AS t WHERE ${conditions(request, position, params).join(' AND ')} LIMIT ${BOUNDED_COUNT + 1}`;
  const [row] = await store.rows<{ n: string }>(`SELECT count() AS n FROM (${hits})`, { ...options, params: params.values() });
  return Number(row?.n ?? 0);
}

function conditions(request: SearchRequest, position: LogPosition, params: Params): string[] {
  const where = [`project = ${params.add(request.project, 'String')}`];
  for (const name of ['run', 'rollout', 'trace'] as const) {
    const value = request[name];
    if (value !== undefined) where.push(`${name} = ${params.add(value, 'String')}`);
  }
  if (request.roles.length > 0) where.push(`role IN ${params.add(request.roles, 'Array(String)')}`);
  where.push(`_offset < arrayElement(${params.add([...position.events], 'Array(UInt64)')}, _partition + 1)`);
  where.push(termsSql(readTerms(request.q), request.isExact, params));
  return where;
}

function identityOf({ project, q, run, rollout, trace, roles, isExact }: SearchRequest): QueryIdentity {
  return { resource: 'search', project, filter: JSON.stringify([q, run, rollout, trace, [...roles].toSorted(), isExact]), sort: '' };
}
