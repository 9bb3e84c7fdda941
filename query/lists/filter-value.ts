import { ok, type Result } from '../../base/result.ts';
import { microsOfText } from '../positions/time-text.ts';
import type { FieldType } from './field.ts';

/** A value to compare with: 64-bit integers and times are bigint. */
export type FilterValue = string | number | bigint | boolean;

const INT64 = { least: -(2n ** 63n), most: 2n ** 63n - 1n } as const;
const FLOATS: Readonly<Record<string, number>> = { NaN, Infinity, '-Infinity': -Infinity };
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

/** Reads a value of a filter, from JSON or from an address, as the type of its field. Nothing is rounded or guessed. */
export function readValue(type: FieldType, value: unknown): Result<FilterValue, string> {
  switch (type) {
    case 'bool':
      if (value === true || value === 'true') return ok(true);
      return value === false || value === 'false' ? ok(false) : bad('must be true or false');
    case 'int':
    case 'long':
      return readInteger(value);
    case 'time':
      return readTime(value);
    case 'float':
      return readFloat(value);
    case 'string':
    case 'strings':
    case 'json':
    case 'floats':
    case 'ints':
    case 'records':
      return typeof value === 'string' ? ok(value) : bad('must be a string');
  }
}

function readInteger(value: unknown): Result<bigint, string> {
  if (typeof value === 'number' ? !Number.isSafeInteger(value) : typeof value !== 'string' || !/^-?\d{1,20}$/.test(value)) {
    return bad('must be an integer; one beyond 2^53 is written as a string');
  }
  const read = BigInt(value as number | string);
  return read < INT64.least || read > INT64.most ? bad('is beyond 64 bits') : ok(read);
}

function readFloat(value: unknown): Result<number, string> {
  if (typeof value === 'number') return ok(value);
  const text = typeof value === 'object' && value !== null ? (value as { $float?: unknown }).$float : value;
  if (typeof text !== 'string') return bad('must be a number');
  const special = FLOATS[text];
  if (special !== undefined) return ok(special);
  return NUMBER.test(text) ? ok(Number(text)) : bad('must be a number, NaN, Infinity or -Infinity');
}

/** Microseconds, or RFC 3339. */
function readTime(value: unknown): Result<bigint, string> {
  if (typeof value !== 'string' || !value.includes('-', 1)) return readInteger(value);
  const micros = microsOfText(value);
  return micros === null ? bad('must be a time that exists, such as 2026-01-31T12:00:00Z, or microseconds since 1970') : ok(micros);
}

function bad(problem: string): Result<never, string> {
  return { ok: false, error: problem };
}
