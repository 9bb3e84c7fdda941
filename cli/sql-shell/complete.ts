/** What the tab key offers: views, their columns, and words of SQL. Pure. */

export type Names = { readonly views: ReadonlyMap<string, readonly string[]> };

const WORDS = [
  'SELECT', 'FROM', 'WHERE', 'GROUP BY', 'ORDER BY', 'LIMIT', 'HAVING', 'WITH', 'JOIN', 'LEFT JOIN', 'USING', 'ON', 'AS', 'AND', 'OR', 'NOT', 'IN', 'IS NULL', 'DISTINCT', 'UNION ALL',
  'DESC', 'ASC', 'SHOW TABLES', 'DESCRIBE', 'count()', 'avg(', 'sum(', 'min(', 'max(', 'countIf(', 'avgIf(', 'sumIf(', 'quantile(', 'uniq(', 'round(', 'groupArray(', 'argMax(', 'arraySum(', 'length(',
]; // prettier-ignore
const COMMANDS = ['\\d', '\\timing', '\\q', '\\?'];
const AFTER_TABLE_WORD = /(?:\b(?:from|join|describe|desc)|\\d)\s+(\w*)$/i;

/** As `readline` wants it: the candidates, and the part of the line they replace. `before` are the lines of the same statement above. */
export function completions(line: string, before: string, names: Names): [string[], string] {
  const asksTable = AFTER_TABLE_WORD.exec(line)?.[1];
  if (asksTable !== undefined) return [starting([...names.views.keys()], asksTable), asksTable];
  if (line.startsWith('\\')) return [starting(COMMANDS, line), line];
  const word = /[\w(]*$/.exec(line)?.[0] ?? '';
  const text = `${before}\n${line}`;
  const used = [...names.views].filter(([view]) => new RegExp(`\\b${view}\\b`).test(text));
  const columns = (used.length > 0 ? used : [...names.views]).flatMap(([, list]) => list);
  return [starting([...new Set([...columns, ...names.views.keys(), ...WORDS])], word), word];
}

function starting(candidates: readonly string[], prefix: string): string[] {
  const lower = prefix.toLowerCase();
  return candidates.filter((candidate) => candidate.toLowerCase().startsWith(lower)).toSorted();
}
