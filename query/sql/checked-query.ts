/** The checks that every text of a person passes before it runs, whatever interface it came by. */
import { TapedeckError } from '../../base/errors.ts';
import type { Result } from '../../base/result.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { PROJECT_DATABASE_PREFIX } from '../../store/columns/project-database.ts';
import { stringLiteral } from '../../store/columns/sql-literal.ts';
import { parseAst } from './ast-tree.ts';
import { checkNames, checkParameters, forbiddenClause, tokensOf } from './canonical-text.ts';
import { checkSelect } from './guard.ts';
import { MAX_QUERY_BYTES } from './limits.ts';
import { refusal } from './sql-error.ts';

export type Canonical = {
  readonly text: string;
  /** Databases of the engine besides those of projects. */
  readonly databases: ReadonlySet<string>;
};

export type GuardOptions = {
  /** The person's own text, for places in errors. */
  readonly query: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** What is bound by value; default `params`. Nothing, where `base.settings` carries them as text. */
  readonly bound?: Readonly<Record<string, unknown>>;
  readonly database: string;
  readonly base: QueryOptions;
};

/** `query` as the engine's formatter prints it: one statement, no comments, strings and names in one notation. Refuses what is not one statement of well-formed text. */
export async function canonicalText(store: ColumnStore, query: string, base: QueryOptions): Promise<Canonical> {
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
  return { text: row.canonical, databases: new Set(row.databases) };
}

/** Throws `sql_refused` unless `text` is a SELECT that may run in the database of the project. */
export async function guardSelect(store: ColumnStore, { text, databases }: Canonical, options: GuardOptions): Promise<void> {
  const { query, params, database, base } = options;
  const clause = forbiddenClause(text);
  if (clause) throw refusal({ code: 'sql_refused', field: clause.clause, message: `${clause.clause} is refused: ${clause.remedy}` }, query);
  const tokens = tokensOf(text);
  required(checkNames(tokens.quotedNames), query);
  required(checkParameters(tokens.parameters, params), query);
  const lines = await store.rows<{ explain: string }>(`EXPLAIN AST ${text}\nFORMAT Null`, {
    ...base,
    params: options.bound ?? params,
    database,
  });
  const tree = required(parseAst(lines.flatMap((row) => row.explain.split('\n'))), query);
  required(checkSelect(tree, { databases }), query);
}

function required<T>(result: Result<T>, query: string): T {
  if (!result.ok) throw refusal(result.error, query);
  return result.value;
}
