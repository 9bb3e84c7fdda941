/** Values of a parsed record, exact: integers beyond 2^53 are bigints, floats with a whole value are boxed, so that 600.0 and 600 stay two things. */
import { WholeFloat } from '../../events/codec/whole-float.ts';
import { isMap } from '../../events/fields.ts';
import { PackedArray } from '../../events/packed-array.ts';

export type Json = null | boolean | number | bigint | string | WholeFloat | PackedArray | readonly Json[] | JsonRecord;
export type JsonRecord = { readonly [key: string]: Json };

export function isRecord(value: Json | undefined): value is JsonRecord {
  return isMap(value) && !(value instanceof WholeFloat);
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** The items of a list; none for anything else. */
export function itemsOf(value: Json | undefined): readonly Json[] {
  return isList(value) ? value : [];
}

/** Any number as a double, or null; bigints are rounded, so callers that need them exactly compare with the original. */
export function numberOf(value: Json | undefined): number | null {
  if (typeof value === 'number') return value;
  if (value instanceof WholeFloat) return value.value;
  return typeof value === 'bigint' ? Number(value) : null;
}

/** A non-negative safe integer written as one, or null. */
export function countOf(value: Json | undefined): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** A non-empty text of at most `limit` UTF-16 units, or null. */
export function nameOf(value: Json | undefined, limit = 1024): string | null {
  return typeof value === 'string' && value.length > 0 && value.length <= limit ? value : null;
}

export function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

export function recordOf(value: Json | undefined): JsonRecord | null {
  return isRecord(value) ? value : null;
}

export function boolOf(value: Json | undefined): boolean | null {
  return typeof value === 'boolean' ? value : null;
}

/** An id that an envelope may carry: 1 to 256 bytes of well-formed text. */
export function idOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value.length > 0 && value.length <= 256 && value.isWellFormed() && Buffer.byteLength(value) <= 256
    ? value
    : null;
}

/** Equal as a document: same kinds, same numbers (NaN equals NaN, -0 is not 0, 1.0 is not 1), same keys in any order. */
export function sameJson(a: Json | undefined, b: Json | undefined): boolean {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return Object.is(a, b);
  if (a instanceof WholeFloat || b instanceof WholeFloat) {
    return a instanceof WholeFloat && b instanceof WholeFloat && Object.is(a.value, b.value);
  }
  if (a instanceof PackedArray || b instanceof PackedArray) {
    return a instanceof PackedArray && b instanceof PackedArray && a.dtype === b.dtype && Buffer.compare(a.bytes, b.bytes) === 0;
  }
  if (isList(a) || isList(b)) return isList(a) && isList(b) && a.length === b.length && a.every((item, i) => sameJson(item, b[i]));
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && sameJson(a[key], b[key]));
}

/** The record without keys whose value is undefined; `__proto__` stays a key like any other. */
export function compact(record: { readonly [key: string]: Json | undefined }): JsonRecord {
  const kept: Record<string, Json> = {};
  for (const key of Object.keys(record)) {
    const value = record[key];
    if (value === undefined) continue;
    if (key === '__proto__') Object.defineProperty(kept, key, { value, writable: true, enumerable: true, configurable: true });
    else kept[key] = value;
  }
  return kept;
}

/** The named keys that the record has. */
export function pick(record: JsonRecord, keys: readonly string[]): JsonRecord {
  return Object.fromEntries(keys.filter((key) => Object.hasOwn(record, key)).map((key) => [key, record[key] as Json]));
}

/** The record without the named keys. */
export function omit(record: JsonRecord, keys: ReadonlySet<string>): JsonRecord {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !keys.has(key)));
}
