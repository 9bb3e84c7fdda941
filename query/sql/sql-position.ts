/** A place in the text of a query. `line` and `column` count from 1; columns count UTF-16 units of that line. */
export type SqlPosition = {
  readonly offset: number;
  readonly line: number;
  readonly column: number;
  readonly excerpt: string;
  readonly caret: string;
};

const MAX_EXCERPT = 120;

/** The place at `offset` (UTF-16 units from 0) with one line of context and a caret under it. */
export function positionAt(query: string, offset: number): SqlPosition {
  const at = Math.max(0, Math.min(offset, query.length));
  const lineStart = query.lastIndexOf('\n', at - 1) + 1;
  const lineEnd = query.indexOf('\n', at) < 0 ? query.length : query.indexOf('\n', at);
  const from = Math.max(lineStart, Math.min(at - MAX_EXCERPT / 2, lineEnd - MAX_EXCERPT));
  const excerpt = printable(query.slice(from, Math.min(lineEnd, from + MAX_EXCERPT)));
  const line = query.slice(0, lineStart).split('\n').length;
  return { offset: at, line, column: at - lineStart + 1, excerpt, caret: `${' '.repeat(at - from)}^` };
}

/** One column per UTF-16 unit stays one column: control characters become spaces. */
function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
}

/** The engine counts bytes of UTF-8 from 1; this is the offset in UTF-16 units from 0. */
export function offsetOfByte(query: string, bytePosition: number): number {
  return Buffer.from(query, 'utf8')
    .subarray(0, Math.max(0, bytePosition - 1))
    .toString('utf8').length;
}

/** Where a name stands in the query outside of strings and comments, as a whole word; undefined when it does not. */
export function offsetOfName(query: string, name: string): number | undefined {
  const token = /'(?:[^'\\]|\\[^]|'')*'|--[^\n]*|\/\*[^]*?\*\/|[`"]?([A-Za-z_@$][\w.@$]*)[`"]?/g;
  const last = name.slice(name.lastIndexOf('.') + 1);
  let partial: number | undefined;
  for (const match of query.matchAll(token)) {
    const word = match[1];
    if (word === undefined) continue;
    const start = match.index + match[0].indexOf(word);
    if (word.toLowerCase() === name.toLowerCase()) return start;
    if (partial === undefined && (word === last || word.split('.').includes(last))) partial = start;
  }
  return partial;
}
