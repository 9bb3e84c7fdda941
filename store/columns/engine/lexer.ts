/**
 * ClickHouse's tokens, as far as finding clauses and the ends of statements needs them: what is a comment, what is quoted, what is a word.
 * Works on text decoded as latin1, so that every position is a byte offset; it must agree with ClickHouse's own lexer about quotes and comments,
 * else a `;` or a clause could be hidden from us (`lexer.int.test.ts` compares the two).
 */
export type Token = {
  readonly kind: 'word' | 'string' | 'name' | 'punctuation';
  readonly start: number;
  readonly end: number;
  /** False for a quote that never closes: the text may go on in bytes that have not arrived. */
  readonly isClosed: boolean;
};

const WORD = /[A-Za-z0-9_$\x80-\xff]/;
/** White space of more than one byte, in UTF-8 read as latin1: no-break, en/em and ideographic spaces, line separators, byte order mark. */
const WIDE_SPACES = ['\xc2\xa0', '\xe3\x80\x80', '\xef\xbb\xbf', '\xe2\x81\x9f', '\xe2\x80\xaf', '\xe2\x80\xa8', '\xe2\x80\xa9'];
const EN_SPACE_FAMILY = /^\xe2\x80[\x80-\x8d]/;
const LEFT_SINGLE = '\xe2\x80\x98';
const RIGHT_SINGLE = '\xe2\x80\x99';
const LEFT_DOUBLE = '\xe2\x80\x9c';
const RIGHT_DOUBLE = '\xe2\x80\x9d';

export function* tokens(sql: string, from = 0): Generator<Token> {
  for (let at = from; ;) {
    at = skipBlank(sql, at);
    if (at >= sql.length) return;
    const token = tokenAt(sql, at);
    yield token;
    at = token.end;
  }
}

/** The text of a bare word in capitals, or '' for anything quoted. */
export function keyword(sql: string, token: Token | undefined): string {
  return token?.kind === 'word' ? sql.slice(token.start, token.end).toUpperCase() : '';
}

export function isPunctuation(sql: string, token: Token | undefined, mark: string): boolean {
  return token?.kind === 'punctuation' && sql[token.start] === mark;
}

/** The position of the next thing that is neither white space nor a comment. */
function skipBlank(sql: string, start: number): number {
  let at = start;
  for (;;) {
    const before = at;
    while (at < sql.length && /\s/.test(sql[at] as string) && sql[at] !== '\xa0') at++;
    at += wideSpace(sql, at);
    at = skipComment(sql, at);
    if (at === before) return at;
  }
}

function wideSpace(sql: string, at: number): number {
  const code = sql.charCodeAt(at);
  if (code < 0xc2) return 0;
  const three = sql.slice(at, at + 3);
  if (EN_SPACE_FAMILY.test(three)) return 3;
  return WIDE_SPACES.find((space) => three.startsWith(space))?.length ?? 0;
}

function skipComment(sql: string, at: number): number {
  const two = sql.slice(at, at + 2);
  if (two === '--' || two === '//' || two === '# ' || two === '#!') {
    const end = sql.indexOf('\n', at);
    return end < 0 ? sql.length : end + 1;
  }
  if (two !== '/*') return at;
  // Comments nest, as in standard SQL.
  let depth = 1;
  for (let i = at + 2; i < sql.length; i++) {
    if (sql[i] === '/' && sql[i + 1] === '*') {
      depth++;
      i++;
    } else if (sql[i] === '*' && sql[i + 1] === '/') {
      depth--;
      i++;
      if (depth === 0) return i + 1;
    }
  }
  return sql.length;
}

function tokenAt(sql: string, start: number): Token {
  const first = sql[start] as string;
  if (first === "'") return quoted(sql, start, "'", 'string');
  if (first === '"' || first === '`') return quoted(sql, start, first, 'name');
  if (first === '$') {
    const tag = /^\$\w*\$/.exec(sql.slice(start, start + 256))?.[0];
    const end = tag === undefined ? -1 : sql.indexOf(tag, start + tag.length);
    if (tag !== undefined && end >= 0) return { kind: 'string', start, end: end + tag.length, isClosed: true };
  }
  const three = sql.slice(start, start + 3);
  if (three === LEFT_SINGLE) return until(sql, start, RIGHT_SINGLE, 'string');
  if (three === LEFT_DOUBLE) return until(sql, start, RIGHT_DOUBLE, 'name');
  if (!WORD.test(first)) return { kind: 'punctuation', start, end: start + 1, isClosed: true };
  let end = start + 1;
  while (end < sql.length && WORD.test(sql[end] as string) && wideSpace(sql, end) === 0) end++;
  return { kind: 'word', start, end, isClosed: true };
}

/** Backslash escapes the next byte; a doubled quote stands for itself. */
function quoted(sql: string, start: number, quote: string, kind: 'string' | 'name'): Token {
  for (let at = start + 1; at < sql.length; at++) {
    if (sql[at] === '\\') at++;
    else if (sql[at] === quote) {
      if (sql[at + 1] === quote) at++;
      else return { kind, start, end: at + 1, isClosed: true };
    }
  }
  return { kind, start, end: sql.length, isClosed: false };
}

function until(sql: string, start: number, close: string, kind: 'string' | 'name'): Token {
  const end = sql.indexOf(close, start + close.length);
  return end < 0 ? { kind, start, end: sql.length, isClosed: false } : { kind, start, end: end + close.length, isClosed: true };
}
