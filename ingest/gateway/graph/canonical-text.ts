/** One text per JSON value, whatever the order of its keys: for comparing only, never stored. Integers beyond 2^53 stay exact. */
import type { Json } from '../dialects/dialect.ts';

/** Keys sorted by UTF-16 code units, no spaces, -0 as 0. Bytes, which a log may hold, are told apart by their elements. */
export function canonicalText(value: Json): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object') return Object.is(value, -0) ? '0' : String(value);
  if (value === null) return 'null';
  if (Array.isArray(value)) return `[${value.map((item: Json) => canonicalText(item)).join(',')}]`;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalText(item)}`).join(',')}}`;
}
