/**
 * SQL from people. The pipeline: (1) the engine formats the text given as a string, which refuses several statements and drops comments;
 * (2) the engine prints the syntax tree of that canonical text; (3) allow-lists decide over the tree; (4) the canonical text itself runs, in a
 * session of its own, read only and capped, with the database of the project as the current one. Text that was checked is the text that runs.
 */
import { TapedeckError } from '../../base/errors.ts';
import type { Result } from '../../base/result.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { projectDatabase, PROJECT_DATABASE_PREFIX } from '../../store/columns/project-database.ts';
import { stringLiteral } from '../../store/columns/sql-literal.ts';
import { parseAst } from './ast-tree.ts';
import { checkNames, checkParameters, classify, forbiddenClause, tokensOf } from './canonical-text.ts';
import { FORMAT_SETTINGS, SQL_FORMATS } from './formats.ts';
import type { SqlFormat } from './formats.ts';
import { checkSelect } from './guard.ts';
import { limitsFor, MAX_QUERY_BYTES, PARSE_SETTINGS, querySettings } from './limits.ts';
import type { SqlAccount, SqlLimits } from './limits.ts';
import { createQuerySlots } from './query-slots.ts';
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

export type SqlRunner = (request: SqlRequest) => Promise<SqlAnswer>;

/** Runs queries over `store`. Errors: sql_refused, sql_error, query_timeout, result_too_large, bad_request, not_found, overloaded, and those of the store. */
export function createSqlRunner(options: { readonly store: ColumnStore; readonly limits: SqlLimits }): SqlRunner {
  const { store } = options;
  const slots = createQuerySlots(options.limits.concurrent);
  return async (request) => {
    const { account = null } = request;
    const limits = limitsFor(options.limits, account);
    const giveBack = slots.take(account);
    const release = (): void => {
      giveBack();
      request.signal.removeEventListener('abort', release);
    };
    request.signal.addEventListener('abort', release, { once: true });
    try {
      const answer = await open(store, limits, request);
      return { ...answer, body: counted(answer.body, request, limits, release) };
    } catch (error) {
      release();
      throw explainSqlError(error, request.query, limits, request.project);
    }
  };
}

/**
 * Passes the answer on and counts its bytes: the engine's own limits on results miss rows made by arrayJoin on the outermost level.
 * `done` is called once it has ended, failed or been given up.
 */
async function* counted(
  body: AsyncIterable<Uint8Array>,
  request: SqlRequest,
  limits: SqlLimits,
  done: () => void,
): AsyncGenerator<Uint8Array> {
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

async function open(store: ColumnStore, limits: SqlLimits, request: SqlRequest): Promise<SqlAnswer> {
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

  const { canonical, databases } = await canonicalText(store, query, base);
  const statement = classify(canonical);
  if (statement.kind === 'show-tables') return run(SHOW_TABLES, { database });
  if (statement.kind === 'describe') return run(DESCRIBE, { database, table: statement.table });
  if (statement.kind === 'other') {
    throw refusal({ code: 'sql_refused', field: statement.name, message: OTHER_STATEMENT(statement.name) }, query);
  }
  const clause = forbiddenClause(canonical);
  if (clause) throw refusal({ code: 'sql_refused', field: clause.clause, message: `${clause.clause} is refused: ${clause.remedy}` }, query);
  const tokens = tokensOf(canonical);
  required(checkNames(tokens.quotedNames), query);
  required(checkParameters(tokens.parameters, request.params), query);
  const lines = await store.rows<{ explain: string }>(`EXPLAIN AST ${canonical}\nFORMAT Null`, {
    ...base,
    params: request.params,
    database,
  });
  const tree = required(parseAst(lines.flatMap((row) => row.explain.split('\n'))), query);
  required(checkSelect(tree, { databases: new Set(databases) }), query);
  return run(canonical, request.params);
}

/** Trusted statements in place of SHOW TABLES and DESCRIBE: only names of the project's own views come out. */
const SHOW_TABLES = 'SELECT name FROM system.tables WHERE database = {database:String} ORDER BY name';
const DESCRIBE =
  'SELECT name, type, comment FROM system.columns WHERE database = {database:String} AND table = {table:String} ORDER BY position';
const OTHER_STATEMENT = (name: string): string =>
  `${name} is refused: only SELECT, SHOW TABLES and DESCRIBE <view> may run; the store is written through events only`;

async function canonicalText(store: ColumnStore, query: string, base: QueryOptions): Promise<{ canonical: string; databases: string[] }> {
  if (Buffer.byteLength(query) > MAX_QUERY_BYTES) {
    throw new TapedeckError('bad_request', `the query is longer than ${MAX_QUERY_BYTES} bytes: pass long lists as params`, {
      details: { limit: MAX_QUERY_BYTES },
    });
  }
  if (!query.isWellFormed())
    throw new TapedeckError('invalid_utf8', 'the query holds half of a surrogate pair: it must be well-formed Unicode');
  const text = stringLiteral(query);
  const [row] = await store.rows<{ canonical: string; valid: number; databases: string[] }>(
    `SELECT formatQuery(${text}) AS canonical, isValidUTF8(canonical) AS valid, ` +
      `(SELECT groupArray(name) FROM system.databases WHERE NOT startsWith(name, '${PROJECT_DATABASE_PREFIX}')) AS databases`,
    base,
  );
  if (row === undefined) throw new TapedeckError('internal', 'the engine did not format the query');
  if (row.valid !== 1) {
    throw new TapedeckError('sql_refused', "a string of the query is not UTF-8: write such bytes as unhex('ff')", {
      details: { refused: 'bytes' },
    });
  }
  return row;
}

function required<T>(result: Result<T>, query: string): T {
  if (!result.ok) throw refusal(result.error, query);
  return result.value;
}
