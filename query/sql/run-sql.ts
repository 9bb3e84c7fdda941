/**
 * SQL from people. The pipeline: (1) the engine formats the text given as a string, which refuses several statements and drops comments;
 * (2) the engine prints the syntax tree of that canonical text; (3) allow-lists decide over the tree; (4) the canonical text itself runs, in a
 * session of its own, read only and capped, with the database of the project as the current one. Text that was checked is the text that runs.
 */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import { classify } from './canonical-text.ts';
import { canonicalText, guardSelect } from './checked-query.ts';
import { FORMAT_SETTINGS, SQL_FORMATS } from './formats.ts';
import type { SqlFormat } from './formats.ts';
import { limitsFor, PARSE_SETTINGS, querySettings } from './limits.ts';
import type { SqlAccount, SqlLimits } from './limits.ts';
import { missesView, type EnsureProject } from './project-views.ts';
import { createQuerySlots, type QuerySlots } from './query-slots.ts';
import { explainSqlError, refusal } from './sql-error.ts';

export type SqlRequest = {
  readonly query: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly format: SqlFormat;
  readonly project: string;
  /** The key that asks, with limits of its own; null: the server's limits only. */
  readonly account?: SqlAccount | null;
  /** Aborting cancels the query; abort also when an answer is abandoned without being read. */
  readonly signal: AbortSignal;
};

/** `body` fails with a TapedeckError when the query breaks off; ending the iteration cancels the query. */
export type SqlAnswer = { readonly body: AsyncIterable<Uint8Array>; readonly mediaType: string };

/** What limits and errors need to know of a request. */
export type Asked = Pick<SqlRequest, 'query' | 'project' | 'account' | 'signal'>;

export type SqlRunnerOptions = {
  readonly store: ColumnStore;
  readonly limits: SqlLimits;
  readonly ensureProject: EnsureProject;
  /** Shared with other ways to ask; default: slots of its own. */
  readonly slots?: QuerySlots;
};

export type SqlRunner = (request: SqlRequest) => Promise<SqlAnswer>;

/** Runs queries over `store`. Errors: sql_refused, sql_error, query_timeout, result_too_large, bad_request, not_found, overloaded, and those of the store. */
export function createSqlRunner(options: SqlRunnerOptions): SqlRunner {
  const slots = options.slots ?? createQuerySlots(options.limits.concurrent);
  return async (request) => {
    const limits = limitsFor(options.limits, request.account ?? null);
    return bounded(slots, limits, request, () => open(options, limits, request));
  };
}

/** Opens an answer within a slot, which is given back when the answer has ended, failed, or been given up. */
export async function bounded<A extends SqlAnswer>(
  slots: QuerySlots,
  limits: SqlLimits,
  request: Asked,
  work: () => Promise<A>,
): Promise<A> {
  const giveBack = slots.take(request.account ?? null);
  const release = (): void => {
    giveBack();
    request.signal.removeEventListener('abort', release);
  };
  request.signal.addEventListener('abort', release, { once: true });
  try {
    const answer = await work();
    return { ...answer, body: counted(answer.body, request, limits, release) };
  } catch (error) {
    release();
    throw explainSqlError(error, request.query, limits, request.project);
  }
}

/**
 * Passes the answer on and counts its bytes: the engine's own limits on results miss rows made by arrayJoin on the outermost level.
 * `done` is called once it has ended, failed or been given up.
 */
async function* counted(body: AsyncIterable<Uint8Array>, request: Asked, limits: SqlLimits, done: () => void): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > limits.resultBytes) throw new TapedeckError('result_too_large', 'the answer grew beyond its limit');
      yield chunk;
    }
  } catch (error) {
    throw explainSqlError(error, request.query, limits, request.project);
  } finally {
    done();
  }
}

async function open({ store, ensureProject }: SqlRunnerOptions, limits: SqlLimits, request: SqlRequest): Promise<SqlAnswer> {
  const { query, signal } = request;
  const base: QueryOptions = { signal, timeoutMs: limits.timeoutMs, settings: PARSE_SETTINGS };
  const format = SQL_FORMATS[request.format];
  const database = projectDatabase(request.project);
  const run = async (sql: string, params: SqlRequest['params'], settings: QueryOptions['settings'] = {}): Promise<SqlAnswer> => {
    const { body } = await store.stream(sql, format.engine, {
      ...base,
      params,
      database,
      settings: { ...querySettings(limits), ...settings, ...FORMAT_SETTINGS },
    });
    return { body, mediaType: format.mediaType };
  };

  const canonical = await canonicalText(store, query, base);
  const statement = classify(canonical.text);
  if (statement.kind === 'show-tables') return run(SHOW_TABLES, { database });
  if (statement.kind === 'describe') return run(DESCRIBE, { database, table: statement.table });
  if (statement.kind === 'other') {
    throw refusal({ code: 'sql_refused', field: statement.name, message: OTHER_STATEMENT(statement.name) }, query);
  }
  await guardSelect(store, canonical, { query, params: request.params, database, base });
  try {
    return await run(canonical.text, request.params);
  } catch (error) {
    if (!missesView(error)) throw error;
    await ensureProject(request.project);
    return run(canonical.text, request.params);
  }
}

/** Trusted statements in place of SHOW TABLES and DESCRIBE: only names of the project's own views come out. */
const SHOW_TABLES = 'SELECT name FROM system.tables WHERE database = {database:String} ORDER BY name';
const DESCRIBE =
  'SELECT name, type, comment FROM system.columns WHERE database = {database:String} AND table = {table:String} ORDER BY position';
const OTHER_STATEMENT = (name: string): string =>
  `${name} is refused: only SELECT, SHOW TABLES and DESCRIBE <view> may run; the store is written through events only`;
