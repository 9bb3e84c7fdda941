/** SQL text for values that do not fit into bound parameters (long key lists travel in the request body, parameters in the address). */

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '\0': '\\0', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** A string literal; every character survives. */
export function stringLiteral(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return `'${text.replaceAll(/[\\'\0\n\r\t]/g, (c) => ESCAPES[c] as string)}'`;
}

/** A tuple of string and integer literals. */
export function tupleLiteral(values: readonly (string | number)[]): string {
  return `(${values.map((v) => (typeof v === 'number' ? String(v) : stringLiteral(v))).join(',')})`;
}

/** Settings for statements that carry a key list of this length in their text. */
export function listSettings(sqlLength: number): Record<string, number> {
  return { max_query_size: Math.max(262_144, sqlLength * 2), max_ast_elements: 10_000_000, max_expanded_ast_elements: 10_000_000 };
}
