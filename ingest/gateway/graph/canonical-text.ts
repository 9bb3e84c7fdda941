/** One text per JSON value, whatever the order of its keys: for comparing only, never stored. Integers beyond 2^53 stay exact. */
import type { Json } from '../dialects/dialect.ts';
import { isObject } from '../dialects/json.ts';

/** Keys sorted by UTF-16 code units, no spaces, -0 as 0; bytes, which a log may hold, by their content. */
export function canonicalText(value: Json): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value !== 'object') return Object.is(value, -0) ? '0' : String(value);
  if (value === null) return 'null';
  if (Array.isArray(value)) return `[${value.map((item: Json) => canonicalText(item)).join(',')}]`;
  if (!isObject(value)) return `bytes(${bytesText(value)})`;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalText(item)}`).join(',')}}`;
}

function bytesText(value: object): string {
  const bytes: unknown = ArrayBuffer.isView(value) ? value : (value as { readonly bytes?: unknown }).bytes;
  if (!ArrayBuffer.isView(bytes)) return JSON.stringify(value);
  return Buffer.from(bytes.buffer as ArrayBuffer, bytes.byteOffset, bytes.byteLength).toString('base64');
}
