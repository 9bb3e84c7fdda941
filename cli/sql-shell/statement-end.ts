/** Where a statement ends in what was typed so far. Pure. */

const TOKEN =
  /'(?:[^'\\]|\\[^]|'')*'|"(?:[^"\\]|\\[^])*"|`(?:[^`\\]|\\[^])*`|--[^\n]*|#[! ][^\n]*|\/\*[^]*?\*\/|['"`]|\/\*|;|[^'"`;\-#/]+|[^]/g;

/** The offset behind the first `;` that is not inside a string, a quoted name or a comment; null when there is none yet. */
export function statementEnd(text: string): number | null {
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    if (token === ';') return index + 1;
    // a quote or comment that is not closed yet: the rest belongs to it
    if (token === '/*' || token === "'" || token === '"' || token === '`') return null;
  }
  return null;
}
