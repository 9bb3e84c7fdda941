/** One query of a foreign client: as ClickHouse would answer it in read-only mode, over the views of one project and nothing else. */
import { TapedeckError } from '../../base/errors.ts';
import type { Problem, Result } from '../../base/result.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { projectDatabase } from '../../store/columns/project-database.ts';
import { CATALOGUE } from '../../store/columns/views/catalogue.ts';
import { tokensOf } from '../sql/canonical-text.ts';
import { canonicalText, guardSelect } from '../sql/checked-query.ts';
import { limitsFor, PARSE_SETTINGS, querySettings, type SqlAccount, type SqlLimits } from '../sql/limits.ts';
import { missesView, type EnsureProject } from '../sql/project-views.ts';
import { REFUSED_FUNCTIONS } from '../sql/refused-functions.ts';
import type { QuerySlots } from '../sql/query-slots.ts';
import { bounded } from '../sql/run-sql.ts';
import { applySettings } from './client-settings.ts';
import { rewrite } from './rewrite.ts';
import { formatOf, statementOf, takeClauses } from './statement.ts';
import { SHOWN_DATABASE } from './system-tables.ts';

export type ClientQuery = {
  readonly text: string;
  /** Raw: in ClickHouse's escaped text form. */
  readonly params: ReadonlyMap<string, string>;
  readonly settings: ReadonlyMap<string, string>;
  readonly format: string | null;
  readonly database: string | null;
  readonly project: string;
  readonly account: SqlAccount | null;
  /** The whole answer is awaited before its first byte, so that its summary is true. */
  readonly waitsForEnd: boolean;
  /** Under which the store knows the query while it runs. */
  readonly runId: string;
  readonly signal: AbortSignal;
};

export type ClientAnswer = {
  readonly body: AsyncIterable<Uint8Array>;
  /** Of the engine; for the Content-Type. */
  readonly mediaType: string;
  readonly format: string;
  readonly summary: string | null;
};

export type ClickHouseRunner = (query: ClientQuery) => Promise<ClientAnswer>;

export type ClickHouseRunnerOptions = {
  readonly store: ColumnStore;
  readonly limits: SqlLimits;
  readonly slots: QuerySlots;
  /** Makes the views of a project that has no data yet: a client may connect before the first event. */
  readonly ensureProject: EnsureProject;
  /** Ends a running query of the same project; false: there is none. */
  readonly kill: (project: string, queryId: string) => boolean;
};

const VIEWS: ReadonlySet<string> = new Set(CATALOGUE.map(({ name }) => name));

export function createClickHouseRunner(options: ClickHouseRunnerOptions): ClickHouseRunner {
  return async (query) => {
    const base = limitsFor(options.limits, query.account);
    const applied = required(applySettings(query.settings, base));
    refuseOtherDatabase(query);
    return bounded(options.slots, applied.limits, { ...query, query: query.text }, async () => {
      try {
        return await open(options, query, applied.limits, applied.settings);
      } catch (failure) {
        const error = withOwnNumber(failure);
        const isNew = error instanceof TapedeckError && error.code !== 'not_found' && error.details['clickhouseCode'] === UNKNOWN_DATABASE;
        if (!isNew && !missesView(error)) throw error;
        await options.ensureProject(query.project);
        return open(options, query, applied.limits, applied.settings);
      }
    });
  };
}

/** A function that the engine does not know either is told as the engine would. */
function withOwnNumber(error: unknown): unknown {
  if (!(error instanceof TapedeckError) || error.code !== 'sql_refused' || error.details['clickhouseCode'] !== undefined) return error;
  const name = error.details['refused'];
  if (
    typeof name !== 'string' ||
    !error.message.startsWith(`${name} is refused: the function `) ||
    REFUSED_FUNCTIONS.has(name.toLowerCase())
  )
    return error;
  return new TapedeckError(error.code, error.message, {
    details: { ...error.details, clickhouseCode: 46, clickhouseType: 'UNKNOWN_FUNCTION' },
  });
}

const UNKNOWN_DATABASE = 81;
type Settings = Readonly<Record<string, string | number>>;

async function open(options: ClickHouseRunnerOptions, query: ClientQuery, limits: SqlLimits, asked: Settings): Promise<ClientAnswer> {
  const { store } = options;
  const database = projectDatabase(query.project);
  const parse: QueryOptions = { signal: query.signal, timeoutMs: limits.timeoutMs, settings: PARSE_SETTINGS };
  refuseWrites(query.text);
  const canonical = await canonicalText(store, query.text, parse);
  const clauses = takeClauses(canonical.text);
  const applied = required(applySettings(clauses.settings, limits));
  const format = formatOf(clauses.format, query.format);
  if (format === null)
    throw new TapedeckError('bad_request', `Unknown format ${clauses.format ?? query.format}`, { details: UNKNOWN_FORMAT });
  const rewritten = required(rewrite(clauses.text, ownNames(query.project), VIEWS));

  const run = async (sql: string, more: Pick<QueryOptions, 'params' | 'settings'>): Promise<ClientAnswer> => {
    const wait = query.waitsForEnd ? { wait_end_of_query: 1 } : {};
    const settings = { ...querySettings(applied.limits), ...asked, ...applied.settings, ...wait, ...more.settings };
    const { body, contentType, summary } = await store.stream(sql, format, {
      ...parse,
      timeoutMs: applied.limits.timeoutMs,
      queryId: query.runId,
      database,
      params: more.params ?? {},
      settings,
    });
    return { body, mediaType: contentType, format, summary };
  };

  const statement = statementOf(rewritten.text);
  switch (statement.kind) {
    case 'databases':
      return run(`SELECT '${SHOWN_DATABASE}' AS name`, {});
    case 'tables': {
      if (statement.database !== null && !ownNames(query.project).has(statement.database)) throw unknownDatabase(statement.database);
      return run(SHOW_TABLES, { params: { database, like: statement.like ?? '%' } });
    }
    case 'describe':
      return run(DESCRIBE, { params: { database, table: statement.table } });
    case 'exists':
      return run(EXISTS, { params: { database, table: statement.table } });
    case 'kill': {
      const status = options.kill(query.project, statement.queryId) ? 'waiting' : 'not found';
      return run("SELECT {status:String} AS kill_status, {id:String} AS query_id, 'default' AS user", { params: { status, id: statement.queryId } }); // prettier-ignore
    }
    case 'other':
      throw new TapedeckError('sql_refused', `Cannot execute ${statement.name} in readonly mode`, { details: READONLY });
    case 'select':
  }
  const wanted = tokensOf(rewritten.text).parameters.map(({ name }) => name);
  const params = Object.fromEntries([...query.params].filter(([name]) => wanted.includes(name)));
  const raw = Object.fromEntries(Object.entries(params).map(([name, value]) => [`param_${name}`, value]));
  await guardSelect(
    store,
    { text: rewritten.text, databases: canonical.databases },
    { query: query.text, params, bound: {}, database, base: { ...parse, settings: { ...PARSE_SETTINGS, ...raw } } },
  );
  try {
    // drivers write their own questions for a server whose joins give defaults
    const joins = rewritten.readsSystem ? { join_use_nulls: 0 } : {};
    return await run(rewritten.filledFor(database), { settings: { ...joins, ...raw } });
  } catch (error) {
    throw rewritten.readsSystem ? withoutScope(error) : error;
  }
}

/** The engine repeats the statement, with subqueries in it that the client did not write. */
function withoutScope(error: unknown): unknown {
  if (!(error instanceof TapedeckError)) return error;
  return new TapedeckError(error.code, error.message.replace(/ in scope [^]*$/, ''), { details: { ...error.details }, cause: error.cause });
}

const SHOW_TABLES = 'SELECT name FROM system.tables WHERE database = {database:String} AND name LIKE {like:String} ORDER BY name';
const DESCRIBE =
  "SELECT name, type, '' AS default_type, '' AS default_expression, comment, '' AS codec_expression, '' AS ttl_expression FROM system.columns WHERE database = {database:String} AND table = {table:String} ORDER BY position";
const EXISTS = 'SELECT toUInt8(count() > 0) AS result FROM system.tables WHERE database = {database:String} AND name = {table:String}';

const READONLY = { clickhouseCode: 164, clickhouseType: 'READONLY' };
const UNKNOWN_FORMAT = { clickhouseCode: 73, clickhouseType: 'UNKNOWN_FORMAT' };

/** Data behind an INSERT may be anything: it is refused before anybody reads it as SQL. */
function refuseWrites(text: string): void {
  const verb = /^(?:\s|--[^\n]*\n|#[^\n]*\n|\/\*[^]*?\*\/)*([A-Za-z]+)/.exec(text)?.[1]?.toUpperCase() ?? '';
  if (verb === 'INSERT')
    throw new TapedeckError('sql_refused', 'Cannot execute INSERT in readonly mode: events are sent to POST /v1/events', {
      details: READONLY,
    });
}

/** Under which names a client may call the project's database. */
function ownNames(project: string): ReadonlySet<string> {
  return new Set([SHOWN_DATABASE, project, projectDatabase(project)]);
}

function refuseOtherDatabase({ database, project }: ClientQuery): void {
  if (database !== null && database !== '' && !ownNames(project).has(database)) throw unknownDatabase(database);
}

function unknownDatabase(name: string): TapedeckError {
  return new TapedeckError('not_found', `Database ${name.slice(0, 200)} does not exist: there is one, ${SHOWN_DATABASE}`, {
    details: { clickhouseCode: UNKNOWN_DATABASE, clickhouseType: 'UNKNOWN_DATABASE' },
  });
}

function required<T>(result: Result<T>): T {
  if (result.ok) return result.value;
  throw new TapedeckError(result.error.code, result.error.message, { details: codeOf(result.error) });
}

/** ClickHouse's own numbers for what it refuses too. */
function codeOf({ code, message, field }: Problem): Record<string, unknown> {
  const named = field === undefined ? {} : { refused: field };
  if (code === 'forbidden') return { ...named, clickhouseCode: 497, clickhouseType: 'ACCESS_DENIED' };
  if (message.startsWith('Setting ')) return { ...named, clickhouseCode: 452, clickhouseType: 'SETTING_CONSTRAINT_VIOLATION' };
  if (message.includes("'readonly'")) return { ...named, ...READONLY };
  return named;
}
