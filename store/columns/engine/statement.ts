import type { Result } from '../../../base/result.ts';
import type { Token } from './lexer.ts';
import { isPunctuation, keyword, tokens } from './lexer.ts';
import type { WireError } from './wire-error.ts';

/**
 * What a request asks for:
 * - `rows`: a statement with a result; INTO OUTFILE goes between `head` and `tail`, and `format` is its own FORMAT (in `tail`), if it names one;
 * - `insert`: an INSERT whose data follow from byte `dataAt` on; FROM INFILE goes between `head` and `clauses` (SETTINGS or nothing);
 * - `plain`: anything else, run as it is.
 */
export type Statement =
  | { readonly kind: 'rows'; readonly verb: string; readonly head: string; readonly tail: string; readonly format: string | null }
  | { readonly kind: 'insert'; readonly head: string; readonly clauses: string; readonly format: string; readonly dataAt: number }
  | { readonly kind: 'plain'; readonly text: string; readonly verb: string };

const WITH_RESULT = new Set([
  'SELECT',
  'WITH',
  'FROM',
  'SHOW',
  'DESCRIBE',
  'DESC',
  'EXISTS',
  'EXPLAIN',
  'CHECK',
  'BACKUP',
  'RESTORE',
  'KILL',
]);

/**
 * Reads the first statement of `bytes`. `isWhole` says that nothing follows; otherwise null asks for more bytes.
 * Text behind a `;`, INTO OUTFILE and FROM INFILE are refused: the files would be ours.
 */
export function readStatement(bytes: Buffer, isWhole: boolean): Result<Statement, WireError> | null {
  const sql = bytes.toString('latin1');
  const first = tokens(sql).next();
  if (first.done === true) return isWhole ? refuse(62, 'SYNTAX_ERROR', 'Empty query') : null;
  if (keyword(sql, first.value) === 'INSERT') {
    const insert = readInsert(sql, isWhole);
    if (insert !== 'select') return insert;
  }
  return isWhole ? readWhole(sql) : null;
}

function readWhole(sql: string): Result<Statement, WireError> {
  const all = [...tokens(sql)];
  while (isPunctuation(sql, all.at(-1), ';')) all.pop();
  const first = all[0];
  const last = all.at(-1);
  if (first === undefined || last === undefined) return refuse(62, 'SYNTAX_ERROR', 'Empty query');
  if (all.some((token) => isPunctuation(sql, token, ';'))) return refuse(62, 'SYNTAX_ERROR', 'Multi-statements are not allowed');
  if (all.some((token) => isPunctuation(sql, token, '\0'))) return refuse(62, 'SYNTAX_ERROR', 'Unrecognized token: a NUL byte');
  const words = all.map((token) => keyword(sql, token));
  for (let i = 0; i + 1 < words.length; i++) {
    if (words[i] === 'INTO' && words[i + 1] === 'OUTFILE')
      return refuse(344, 'SUPPORT_IS_DISABLED', 'INTO OUTFILE is not allowed over HTTP');
    if (words[i] === 'FROM' && words[i + 1] === 'INFILE') return refuse(344, 'SUPPORT_IS_DISABLED', 'FROM INFILE is not allowed over HTTP');
  }
  const verb = isPunctuation(sql, first, '(') ? 'SELECT' : (words[0] as string);
  const end = last.end;
  const isInsert = words.some((word, i) => word === 'INSERT' && words[i + 1] === 'INTO');
  if (!WITH_RESULT.has(verb) || (verb === 'WITH' && isInsert))
    return { ok: true, value: { kind: 'plain', text: utf8(sql.slice(0, end)), verb } };
  const clause = trailingFormat(sql, all, words);
  const at = clause?.at ?? end;
  return {
    ok: true,
    value: { kind: 'rows', verb, head: utf8(sql.slice(0, at)), tail: utf8(sql.slice(at, end)), format: clause?.format ?? null },
  };
}

/** The statement's own `FORMAT x`: the last one outside parentheses that ends the text or is followed by SETTINGS. */
function trailingFormat(sql: string, all: readonly Token[], words: readonly string[]): { at: number; format: string } | null {
  let depth = 0;
  let found: { at: number; format: string } | null = null;
  all.forEach((token, i) => {
    if (isPunctuation(sql, token, '(') || isPunctuation(sql, token, '[')) depth++;
    else if (isPunctuation(sql, token, ')') || isPunctuation(sql, token, ']')) depth--;
    else if (depth === 0 && words[i] === 'FORMAT' && all[i + 1]?.kind === 'word' && (i + 2 >= all.length || words[i + 2] === 'SETTINGS')) {
      const name = all[i + 1] as Token;
      found = { at: token.start, format: sql.slice(name.start, name.end) };
    }
  });
  return found;
}

/**
 * `INSERT INTO [TABLE] t [(columns)] [SETTINGS ...] FORMAT x <data>` or `VALUES <data>`. 'select' when it is an INSERT SELECT, which has no data.
 * As in ClickHouse the data begin behind one line feed, if only blanks stand before it, else at the first byte that is not blank.
 */
function readInsert(sql: string, isWhole: boolean): Result<Statement, WireError> | null | 'select' {
  const head = readInsertHead(sql);
  if (head === 'select' || head === 'infile') {
    return head === 'select' ? head : refuse(344, 'SUPPORT_IS_DISABLED', 'FROM INFILE is not allowed over HTTP');
  }
  // A word at the very end may go on in the next bytes.
  if (head === null || (!isWhole && head.end + 3 >= sql.length)) return isWhole ? 'select' : null;
  let dataAt = head.end;
  while (sql[dataAt] === ' ' || sql[dataAt] === '\t' || sql[dataAt] === '\f') dataAt++;
  if (sql[dataAt] === '\r') dataAt++;
  if (sql[dataAt] === '\n') dataAt++;
  if (dataAt >= sql.length && !isWhole) return null;
  const clauses = utf8(sql.slice(head.infileAt, head.clausesEnd));
  return { ok: true, value: { kind: 'insert', head: utf8(sql.slice(0, head.infileAt)), clauses, format: head.format, dataAt } };
}

type InsertHead = { infileAt: number; clausesEnd: number; format: string; end: number };

function readInsertHead(sql: string): InsertHead | null | 'select' | 'infile' {
  let depth = 0;
  let settingsAt = -1;
  let previous: Token | undefined;
  let before: Token | undefined;
  for (const token of tokens(sql)) {
    const word = keyword(sql, token);
    const isName = isPunctuation(sql, previous, '.') || namesTarget(keyword(sql, previous), word);
    if (isPunctuation(sql, token, '(')) depth++;
    else if (isPunctuation(sql, token, ')')) depth--;
    else if (word !== '' && !isName) {
      if (word === 'SELECT' || (word === 'WITH' && depth === 0)) return 'select';
      if (depth === 0 && word === 'INFILE' && keyword(sql, previous) === 'FROM') return 'infile';
      if (depth === 0 && word === 'SETTINGS') settingsAt = token.start;
      if (depth === 0 && word === 'VALUES')
        return { infileAt: settingsAt < 0 ? token.start : settingsAt, clausesEnd: token.start, format: 'Values', end: token.end };
    }
    if (depth === 0 && token.kind === 'word' && keyword(sql, previous) === 'FORMAT' && !isFormatATable(sql, before)) {
      const at = (previous as Token).start;
      return { infileAt: settingsAt < 0 ? at : settingsAt, clausesEnd: at, format: sql.slice(token.start, token.end), end: token.end };
    }
    before = previous;
    previous = token;
  }
  return null;
}

/** True when `word` stands where only a table name can: behind INTO, TABLE or FUNCTION. */
function namesTarget(previous: string, word: string): boolean {
  return (previous === 'INTO' && word !== 'TABLE' && word !== 'FUNCTION') || previous === 'TABLE' || previous === 'FUNCTION';
}

function isFormatATable(sql: string, before: Token | undefined): boolean {
  const word = keyword(sql, before);
  return word === 'INTO' || word === 'TABLE' || word === 'FUNCTION' || isPunctuation(sql, before, '.');
}

/** The names of the `{name:Type}` placeholders of a statement. */
export function placeholders(text: string): Set<string> {
  const names = new Set<string>();
  const sql = Buffer.from(text).toString('latin1');
  const all = [...tokens(sql)];
  for (let i = 0; i + 2 < all.length; i++) {
    const name = all[i + 1] as Token;
    if (isPunctuation(sql, all[i], '{') && name.kind === 'word' && isPunctuation(sql, all[i + 2], ':'))
      names.add(sql.slice(name.start, name.end));
  }
  return names;
}

/** `query_id` of a KILL cannot be matched, for the engine gives ids of its own: the request's id is in the setting `log_comment`. */
export function killByComment(text: string): string {
  const sql = Buffer.from(text).toString('latin1');
  const parts: string[] = [];
  let copied = 0;
  for (const token of tokens(sql)) {
    const isIdName = token.kind !== 'string' && /^[`"]?query_id[`"]?$/.test(sql.slice(token.start, token.end));
    if (!isIdName) continue;
    parts.push(sql.slice(copied, token.start), "Settings['log_comment']");
    copied = token.end;
  }
  return utf8(parts.join('') + sql.slice(copied));
}

function utf8(latin1: string): string {
  return Buffer.from(latin1, 'latin1').toString('utf8');
}

function refuse(code: number, name: string, text: string): { readonly ok: false; readonly error: WireError } {
  return { ok: false, error: { code, name, text } };
}
