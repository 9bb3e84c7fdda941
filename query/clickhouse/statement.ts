/** The statements of this interface, read from canonical text: the clauses behind a query, and what clients ask besides SELECT. Pure. */
import { outputFormat } from './output-formats.ts';
import { tokensOfText } from './rewrite.ts';

export type Clauses = {
  readonly text: string;
  /** The FORMAT clause, as it was written; null: none. */
  readonly format: string | null;
  readonly settings: readonly (readonly [string, string])[];
};

/** Takes FORMAT and SETTINGS from the end of the outermost level, in any order. In canonical text each stands at the beginning of a line of its own. */
export function takeClauses(canonical: string): Clauses {
  let text = canonical.trimEnd();
  let format: string | null = null;
  const settings: (readonly [string, string])[] = [];
  for (;;) {
    const line = text.slice(text.lastIndexOf('\n') + 1);
    const named = /^(?:.*\S )?FORMAT ([A-Za-z]\w*)$/.exec(line)?.[1];
    const isWhole = line.startsWith('FORMAT ');
    if (named !== undefined && format === null && (isWhole || isOneLiner(text))) format = named;
    else {
      const list = line.startsWith('SETTINGS ') ? settingsOf(line.slice('SETTINGS '.length)) : null;
      if (list === null) return { text, format, settings };
      settings.unshift(...list);
    }
    const cut = isWhole || line.startsWith('SETTINGS ') ? text.length - line.length : text.length - ` FORMAT ${named}`.length;
    text = text.slice(0, cut).trimEnd();
  }
}

/** SHOW, DESCRIBE and EXISTS are one line, with their FORMAT behind them. */
function isOneLiner(text: string): boolean {
  return /^(?:SHOW|DESCRIBE|EXISTS)\b/.test(text) && !text.includes('\n');
}

/** `a = 1, b = 'x'`; null when it is anything else. */
function settingsOf(list: string): (readonly [string, string])[] | null {
  const tokens = tokensOfText(list).filter(({ text }) => text.trim() !== '');
  const found: (readonly [string, string])[] = [];
  for (let at = 0; at < tokens.length;) {
    const name = tokens[at]?.name;
    if (name === null || name === undefined || tokens[at + 1]?.text !== '=') return null;
    let end = at + 2;
    while (end < tokens.length && tokens[end]?.text !== ',') end++;
    const value = tokens.slice(at + 2, end).map(({ text }) => text).join(''); // prettier-ignore
    found.push([name, value.startsWith("'") ? unquoted(value) : value]);
    at = end + 1;
  }
  return found;
}

export type Statement =
  | { readonly kind: 'select' }
  | { readonly kind: 'databases' }
  | { readonly kind: 'tables'; readonly database: string | null; readonly like: string | null }
  | { readonly kind: 'describe'; readonly table: string }
  | { readonly kind: 'exists'; readonly table: string }
  | { readonly kind: 'kill'; readonly queryId: string }
  | { readonly kind: 'other'; readonly name: string };

const NAME = '`?([A-Za-z_]\\w*)`?';
const TEXT = "('(?:[^'\\\\]|\\\\[^])*')";
const TABLES = new RegExp(`^SHOW (?:FULL )?TABLES(?: (?:FROM|IN) ${NAME})?(?: I?LIKE ${TEXT})?$`);
const DESCRIBE = new RegExp(`^DESCRIBE TABLE ${NAME}$`);
const EXISTS = new RegExp(`^EXISTS (?:TABLE|VIEW) ${NAME}$`);
const KILL = new RegExp(`^KILL QUERY WHERE query_id = ${TEXT}(?: (?:SYNC|ASYNC))?$`);

/** `text` without clauses and without qualifiers. */
export function statementOf(text: string): Statement {
  const flat = text.trim().replaceAll(/\s+/g, ' ');
  if (/^(?:SELECT|WITH|\()/.test(flat)) return { kind: 'select' };
  if (flat === 'SHOW DATABASES') return { kind: 'databases' };
  const tables = TABLES.exec(flat);
  if (tables) return { kind: 'tables', database: tables[1] ?? null, like: tables[2] === undefined ? null : unquoted(tables[2]) };
  const described = DESCRIBE.exec(flat)?.[1];
  if (described !== undefined) return { kind: 'describe', table: described };
  const looked = EXISTS.exec(flat)?.[1];
  if (looked !== undefined) return { kind: 'exists', table: looked };
  const killed = KILL.exec(flat)?.[1];
  if (killed !== undefined) return { kind: 'kill', queryId: unquoted(killed) };
  return { kind: 'other', name: /^[A-Z]+(?: [A-Z]+)?/.exec(flat)?.[0] ?? flat.slice(0, 20) };
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', '0': '\0', b: '\b', f: '\f' };

function unquoted(literal: string): string {
  return literal
    .slice(1, -1)
    .replaceAll(/\\([^])|''/g, (_, escaped: string | undefined) => (escaped === undefined ? "'" : (ESCAPES[escaped] ?? escaped)));
}

/** The format of an answer: that of the statement, else that of the request, else what ClickHouse takes. Null: it is not served. */
export function formatOf(clause: string | null, requested: string | null): string | null {
  return outputFormat(clause ?? requested ?? 'TabSeparated');
}
