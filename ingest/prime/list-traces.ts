/** `GET /api/v1/traces`: summaries of traces for the Prime client, read from the tables: a trace appears when the projector has stored it. */
import type { FastifyInstance, FastifyReply } from 'fastify';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { withoutMirrors } from '../../store/columns/views/run-views.ts';
import { recordOf, textOf, type JsonRecord } from '../importers/json-value.ts';
import { UPLOAD_LABEL } from '../importers/note-labels.ts';
import { jsonReader } from '../importers/read-json.ts';
import { jsonText } from '../importers/verifiers-v0-row.ts';
import { isoTime } from './evaluation.ts';
import { cursorOf, placeOf, SORT_SQL, traceQuery, type TraceQuery } from './trace-filters.ts';
import { storeRows } from './store-rows.ts';

type Row = {
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  readonly env: string | null;
  readonly task_key: string | null;
  readonly agent: string | null;
  readonly model: string | null;
  readonly has_error: number | boolean;
  readonly is_truncated: number | boolean;
  readonly reward: number | string | null;
  readonly tokens: string;
  readonly begun: string | null;
  readonly until: string | null;
  readonly value: number | string;
};
type Upload = { readonly id: string; readonly format: string; readonly context: JsonRecord };

/** A trace may be in several runs: of so many, one that came in an upload is taken. */
const SAME_ID = 10;

export function registerTraceList(app: FastifyInstance, { store }: { readonly store: ColumnStore }): void {
  app.get(
    '/api/v1/traces',
    { schema: { summary: 'List traces as the Prime client reads them', tags: ['uploads'] } },
    async (request, reply) => {
      const query = traceQuery(request.query as Record<string, unknown>);
      if (!query.ok) throw new TapedeckError(query.error.code, query.error.message, { details: { field: query.error.field } });
      // as in the view: a captured trace gives way to the upload of the same work
      const shown = { ...query.value, where: [...query.value.where, withoutMirrors('trace', { db: '', project: '{project:String}' })] };
      const { items, next } = await pageOf(shown, store, abortedWith(reply));
      return reply.type('application/json; charset=utf-8').send(jsonText({ items, next_cursor: next }));
    },
  );
  app.get<{ Params: { id: string } }>(
    '/api/v1/traces/:id',
    { schema: { summary: 'One trace as the Prime client reads it', tags: ['uploads'] } },
    async (request, reply) => {
      const { id } = request.params;
      if (Object.keys(request.query as object).length > 0)
        throw new TapedeckError(
          'invalid_filter',
          'raw documents are not served here: tapedeck export verifiers --run RUN --rollout EPISODE writes them',
        );
      const query: TraceQuery = {
        where: ['t.trace = {trace:String}'],
        params: { trace: id },
        sort: 'created_at',
        limit: SAME_ID,
        cursor: null,
        key: '',
      };
      const { items } = await pageOf(query, store, abortedWith(reply));
      const item = items.find((each) => each['upload_id'] !== '') ?? items[0];
      if (item === undefined)
        throw new TapedeckError('not_found', `there is no trace ${JSON.stringify(id)}, or it is not stored in the tables yet`);
      return reply.type('application/json; charset=utf-8').send(jsonText(item));
    },
  );
}

/** One page, newest first; `next` is null on the last one. */
async function pageOf(query: TraceQuery, store: ColumnStore, signal: AbortSignal): Promise<{ items: JsonRecord[]; next: string | null }> {
  const params: Record<string, unknown> = { ...query.params, project: DEFAULT_PROJECT, label: UPLOAD_LABEL, limit: query.limit + 1 };
  const where = ['t.project = {project:String}', ...query.where];
  const value = SORT_SQL[query.sort];
  if (query.cursor !== null) {
    const place = placeOf(query.cursor, query.key);
    if (!place.ok) throw new TapedeckError(place.error.code, place.error.message);
    const { value: last, run, rollout, trace } = place.value;
    // -inf is not a parameter; nothing is below it
    const isLast = last === -Infinity;
    where.push(`(${isLast ? '' : `${value} < {last:Float64} OR `}(${value} = ${isLast ? '-inf' : '{last:Float64}'} AND (t.run, t.rollout, t.trace) > ({last_run:String}, {last_rollout:String}, {last_trace:String})))`); // prettier-ignore
    Object.assign(params, { last_run: run, last_rollout: rollout, last_trace: trace, ...(!isLast && { last }) });
  }
  const sql =
    `SELECT t.run AS run, t.rollout AS rollout, t.trace AS trace, t.env AS env, t.task_key AS task_key, t.agent AS agent, t.model AS model, t.reward AS reward, ` +
    `(t.errors > 0 OR ifNull(NOT t.ok, false)) AS has_error, ifNull(t.truncated, false) AS is_truncated, toString(ifNull(t.input_tokens, 0) + ifNull(t.output_tokens, 0)) AS tokens, ` +
    `toString(toUnixTimestamp64Micro(t.started)) AS begun, toString(toUnixTimestamp64Micro(t.ended)) AS until, toString(${value}) AS value ` +
    `FROM trace_summary AS t FINAL WHERE ${where.join(' AND ')} ORDER BY ${value} DESC, t.run, t.rollout, t.trace LIMIT {limit:UInt32}`;
  const rows = await storeRows<Row>(store, sql, { params, signal });
  const page = rows.slice(0, query.limit);
  const [uploads, sizes] = await Promise.all([uploadsOf(page, store, signal), sizesOf(page, store, signal)]);
  const items = page.map((row) =>
    itemOf(row, uploads.get(keyOf(row.run, row.rollout)), sizes.get(keyOf(row.run, row.rollout, row.trace)) ?? 0),
  );
  const last = page.at(-1);
  const next =
    rows.length > query.limit && last !== undefined
      ? cursorOf({ value: numberIn(String(last.value)), run: last.run, rollout: last.rollout, trace: last.trace }, query.key)
      : null;
  return { items, next };
}

/** As the engine writes floats. */
function numberIn(text: string): number {
  return text === '-inf' ? -Infinity : text === 'inf' ? Infinity : Number(text);
}

/** The latest upload of each rollout. */
async function uploadsOf(page: readonly Row[], store: ColumnStore, signal: AbortSignal): Promise<Map<string, Upload>> {
  if (page.length === 0) return new Map();
  const rows = await storeRows<{ run: string; rollout: string; said: string | null }>(
    store,
    'SELECT run, rollout, argMax(extra, (_partition, _offset)) AS said FROM notes FINAL WHERE project = {project:String} AND run IN {runs:Array(String)} AND rollout IN {rollouts:Array(String)} AND label = {label:String} GROUP BY run, rollout',
    { params: { ...idsOf(page), label: UPLOAD_LABEL }, signal },
  );
  return new Map(
    rows.map(({ run, rollout, said }) => {
      const read = jsonReader()(Buffer.from(said ?? '{}'));
      const extra = read.ok ? (recordOf(read.value) ?? {}) : {};
      const upload = {
        id: textOf(extra['upload']) ?? '',
        format: textOf(extra['format']) ?? '',
        context: recordOf(extra['context']) ?? {},
      };
      return [keyOf(run, rollout), upload];
    }),
  );
}

/** Bytes of each trace's events in the log. */
async function sizesOf(page: readonly Row[], store: ColumnStore, signal: AbortSignal): Promise<Map<string, number>> {
  if (page.length === 0) return new Map();
  const rows = await storeRows<{ run: string; rollout: string; trace: string; size: string }>(
    store,
    "SELECT run, rollout, trace, toString(sum(bytes)) AS size FROM log_index FINAL WHERE project = {project:String} AND run IN {runs:Array(String)} AND rollout IN {rollouts:Array(String)} AND trace != '' AND status = 'stored' " +
      'GROUP BY run, rollout, trace SETTINGS use_skip_indexes_if_final = 1',
    { params: idsOf(page), signal },
  );
  return new Map(rows.map(({ run, rollout, trace, size }) => [keyOf(run, rollout, trace), Number(size)]));
}

function idsOf(page: readonly Row[]): { project: string; runs: string[]; rollouts: string[] } {
  return {
    project: DEFAULT_PROJECT,
    runs: [...new Set(page.map(({ run }) => run))],
    rollouts: [...new Set(page.map(({ rollout }) => rollout))],
  };
}

function keyOf(...ids: readonly string[]): string {
  return JSON.stringify(ids);
}

/**
 * The client's model has no null for times, durations and sizes: what is not known is the epoch and 0 there, the only place where Tapedeck says so. There is no clock of
 * arrival in the log, so `ingested_at` is the trace's own end.
 */
function itemOf(row: Row, upload: Upload | undefined, bytes: number): JsonRecord {
  const begun = row.begun === null ? null : Number(row.begun);
  const until = row.until === null ? null : Number(row.until);
  const reward = row.reward === null ? null : Number(row.reward);
  return {
    trace_id: row.trace,
    upload_id: upload?.id ?? '',
    episode_id: upload?.format === 'trace' ? null : row.rollout,
    created_at: isoTime(begun ?? until ?? 0),
    ingested_at: isoTime(until ?? begun ?? 0),
    run_id: row.run,
    environment_id: row.env,
    model: { provider: null, id: row.model },
    task_id: row.task_key,
    agent_name: row.agent,
    score: { reward: reward !== null && Number.isFinite(reward) ? reward : null, outcome: null },
    execution: {
      has_error: row.has_error === true || row.has_error === 1,
      is_truncated: row.is_truncated === true || row.is_truncated === 1,
    },
    duration_ms: begun === null || until === null ? 0 : Math.max(0, Math.round((until - begun) / 1000)),
    total_tokens: Number(row.tokens),
    size_bytes: bytes,
    context: upload?.context ?? {},
  };
}

function abortedWith(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new TapedeckError('aborted', 'the client went away'));
  });
  return gone.signal;
}
