/** What a view is: its columns with their meaning, and the SQL behind each. The views of a project, docs/sql.md and the catalogue test all come from this. */

export type ViewColumn = {
  readonly name: string;
  /** The expression over the tables in `from` (aliased `t`). */
  readonly sql: string;
  readonly meaning: string;
  /** Of numbers and times: `none` where none makes sense (numbers of things, ratios). Text and truth values have none at all. */
  readonly unit?: string;
};

export type ViewSource = {
  /** Back-quoted name of the database that holds the tables, with a dot behind it. */
  readonly db: string;
  /** The project as a string literal: the only project the view can ever show. */
  readonly project: string;
  /** Only what lay before a log position: a condition on `_partition` and `_offset` of the rows, given the alias in front of them. Absent: all rows. */
  readonly before?: (alias: string) => string;
  /** The summaries as they were at that position, as a subquery, in place of the stored ones. */
  readonly summary?: (table: 'rollout_summary' | 'trace_summary') => string;
};

export type View = {
  readonly name: string;
  readonly about: string;
  readonly columns: readonly ViewColumn[];
  /** Everything behind the column list. */
  readonly from: (source: ViewSource) => string;
  /** A query people start from; a test runs it. */
  readonly example: string;
  /** Further questions that the view answers, each with its query; a test runs them. */
  readonly questions?: readonly { readonly asks: string; readonly sql: string }[];
};

export function column(name: string, sql: string, meaning: string, unit?: string): ViewColumn {
  return unit === undefined ? { name, sql, meaning } : { name, sql, meaning, unit };
}

/** A column of the table under its own name. */
export function plain(name: string, meaning: string, unit?: string): ViewColumn {
  return column(name, `t.\`${name}\``, meaning, unit);
}

/** Columns of the table under their own names, each with its meaning, or its meaning and unit. */
export function plains(meanings: Readonly<Record<string, string | readonly [meaning: string, unit: string]>>): ViewColumn[] {
  return Object.entries(meanings).map(([name, said]) => (typeof said === 'string' ? plain(name, said) : plain(name, ...said)));
}

/** A key column in which an absent id is the empty string. */
export function maybeId(name: string, meaning: string): ViewColumn {
  return column(name, `nullIf(t.\`${name}\`, '')`, meaning);
}

/** A key column in which "no node" is 4294967295. */
export function maybeNode(name: string, stored: string, meaning: string): ViewColumn {
  return column(name, `nullIf(t.\`${stored}\`, 4294967295)`, meaning, 'none');
}

export const PROJECT_AND_RUN = [plain('project', 'tenant'), plain('run', 'run id')] as const;
export const ROLLOUT = plain('rollout', 'rollout id');
export const TRACE = plain('trace', 'trace id');

/** `FROM table FINAL` of one project. */
export function finalOf(table: string): (source: ViewSource) => string {
  return (source) => `FROM ${source.db}${table} AS t FINAL WHERE t.project = ${source.project}${before(source, 't.')}`;
}

/** ` AND …` where only rows before a position count, else nothing. */
export function before(source: ViewSource, alias = ''): string {
  return source.before === undefined ? '' : ` AND ${source.before(alias)}`;
}

/** `FROM summary` of one project, whose own rows have no position. */
export function summaryOf(table: 'rollout_summary' | 'trace_summary'): (source: ViewSource) => string {
  return ({ db, project, summary }) =>
    `FROM ${summary === undefined ? `${db}${table} AS t FINAL` : `${summary(table)} AS t`} WHERE t.project = ${project}`;
}

/** The statement behind a view. LEFT JOINs inside give NULL for what is not there. */
export function viewSelect(view: View, source: ViewSource): string {
  const list = view.columns.map(({ name, sql }) => `${sql} AS \`${name}\``).join(', ');
  return `SELECT ${list} ${view.from(source)} SETTINGS join_use_nulls = 1`;
}

/** The names of bits as an array column: which of them are set in `bits`. */
export function bitNames(bits: string, names: Readonly<Record<string, number>>): string {
  const pairs = Object.entries(names).map(([name, bit]) => `('${name}', ${bit})`);
  return `arrayMap(x -> x.1, arrayFilter(x -> bitAnd(${bits}, x.2) != 0, [${pairs.join(', ')}]))`;
}
