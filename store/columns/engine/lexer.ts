/**
 * ClickHouse's tokens, as far as finding clauses and the ends of statements needs them: what is a comment, what is quoted, what is a word.
 * Works on text decoded as latin1, so that every position is a byte offset; it must agree with ClickHouse's own lexer about quotes and comments,
 * else a `;` or a clause could be hidden from us (`statement.int.test.ts` asks the engine).
 */
export type Token = {
  readonly kind: 'word' | 'string' | 'name' | 'punctuation';
  readonly start: number;
  readonly end: number;
};

/** White space of more than one byte, in UTF-8 read as latin1: no-break, en and em family, line separators, ideographic space, byte order mark. */
const WIDE_SPACE = '\\xc2\\xa0|\\xe2\\x80[\\x80-\\x8d\\xa8\\xa9\\xaf]|\\xe2\\x81\\x9f|\\xe3\\x80\\x80|\\xef\\xbb\\xbf';
const BLANK = new RegExp(`(?:[ \\t\\n\\r\\f\\v]|${WIDE_SPACE}|(?:--|//|# |#!)[^\\n]*)+`, 'y');
const COMMENT_MARK = /\/\*|\*\//g;
const WORD = new RegExp(`(?:[A-Za-z0-9_$]|(?!${WIDE_SPACE})[\\x80-\\xff])+`, 'y');
const HEREDOC = /\$\w*\$/y;
const LEFT_SINGLE = '\xe2\x80\x98';
const RIGHT_SINGLE = '\xe2\x80\x99';
const LEFT_DOUBLE = '\xe2\x80\x9c';
const RIGHT_DOUBLE = '\xe2\x80\x9d';

export function* tokens(sql: string, from = 0): Generator<Token> {
  for (let at = skipBlank(sql, from); at < sql.length;) {
    const token = tokenAt(sql, at);
    yield token;
    at = skipBlank(sql, token.end);
  }
}

/** The text of a bare word in capitals, or '' for anything else. */
export function keyword(sql: string, token: Token | undefined): string {
  return token?.kind === 'word' ? sql.slice(token.start, token.end).toUpperCase() : '';
}

export function isPunctuation(sql: string, token: Token | undefined, mark: string): boolean {
  return token?.kind === 'punctuation' && sql[token.start] === mark;
}

function endOf(pattern: RegExp, sql: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(sql) ? pattern.lastIndex : at;
}

/** The position of the next thing that is neither white space nor a comment. */
function skipBlank(sql: string, start: number): number {
  for (let at = start; ;) {
    const blank = endOf(BLANK, sql, at);
    const next = sql.startsWith('/*', blank) ? endOfComment(sql, blank) : blank;
    if (next === at) return at;
    at = next;
  }
}

/** Comments nest, as in standard SQL. One that never closes is no comment, but an error that counts as text. */
function endOfComment(sql: string, start: number): number {
  let depth = 0;
  COMMENT_MARK.lastIndex = start;
  for (let mark = COMMENT_MARK.exec(sql); mark !== null; mark = COMMENT_MARK.exec(sql)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return COMMENT_MARK.lastIndex;
  }
  return start;
}

function tokenAt(sql: string, start: number): Token {
  const first = sql[start] as string;
  if (first === "'") return { kind: 'string', start, end: endOfQuote(sql, start, first) };
  if (first === '"' || first === '`') return { kind: 'name', start, end: endOfQuote(sql, start, first) };
  if (first === '$') {
    const opened = endOf(HEREDOC, sql, start);
    const end = opened === start ? -1 : sql.indexOf(sql.slice(start, opened), opened);
    if (end >= 0) return { kind: 'string', start, end: end + opened - start };
  }
  if (sql.startsWith(LEFT_SINGLE, start)) return { kind: 'string', start, end: endAfter(sql, start, RIGHT_SINGLE) };
  if (sql.startsWith(LEFT_DOUBLE, start)) return { kind: 'name', start, end: endAfter(sql, start, RIGHT_DOUBLE) };
  const end = endOf(WORD, sql, start);
  return end === start ? { kind: 'punctuation', start, end: start + 1 } : { kind: 'word', start, end };
}

/** Backslash escapes the next byte; a doubled quote stands for itself. A quote that never closes reaches to the end. */
function endOfQuote(sql: string, start: number, quote: string): number {
  for (let at = start + 1; at < sql.length; at++) {
    if (sql[at] === '\\') at++;
    else if (sql[at] === quote) {
      if (sql[at + 1] !== quote) return at + 1;
      at++;
    }
  }
  return sql.length;
}

function endAfter(sql: string, start: number, close: string): number {
  const end = sql.indexOf(close, start + close.length);
  return end < 0 ? sql.length : end + close.length;
}
