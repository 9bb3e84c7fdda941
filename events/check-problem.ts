/** Turns the first complaint of a schema into a Problem: a code, and a sentence that names the field, the limit and the remedy. */
import type { z } from 'zod';
import type { ErrorCode } from '../base/errors.ts';
import { fail, type Problem } from '../base/result.ts';
import { MAX_ID_BYTES, MAX_MICROS } from './fields.ts';

type Failure = { readonly ok: false; readonly error: Problem };

/** Fields in microseconds, wherever they stand. */
const TIME_FIELDS = new Set(['time', 'started', 'ended', 'start', 'end', 'firstToken', 'expires']);

/** `value` is what the schema saw, `at` the path of it in the event. */
export function problemOf(error: z.ZodError, value: unknown, at: readonly string[]): Failure {
  const issue = error.issues[0];
  if (issue === undefined) return fail('invalid_event', 'the event does not fit its schema');
  const field = fieldName([...at, ...issue.path]);
  const found = valueAt(value, issue.path);
  if (found === undefined) return fail('missing_field', `${field} is missing: this type of event needs it`, field);
  return describe(issue, found, field);
}

function describe(issue: z.core.$ZodIssue, found: unknown, field: string): Failure {
  const last = issue.path.at(-1);
  const isTime = typeof last === 'string' && TIME_FIELDS.has(last);
  const say = (code: ErrorCode, text: string): Failure => fail(code, `${field} ${text}`, field);
  const timeRange = `must be integer microseconds since 1970 UTC, 0 to ${MAX_MICROS} (year 2200): convert seconds or nanoseconds`;
  switch (issue.code) {
    case 'invalid_type':
      if (isTime && (typeof found === 'number' || typeof found === 'bigint')) return say('time_range', timeRange);
      if (typeof found === 'bigint') return say('number_out_of_range', 'must be an integer of at most 2^53 - 1');
      if (typeof found === 'number') return say('wrong_type', 'must be an integer');
      return say('wrong_type', `must be ${article(issue.expected)}, not ${kindOf(found)}`);
    case 'too_big':
    case 'too_small':
      if (isTime) return say('time_range', timeRange);
      return outOfBounds(issue, field);
    case 'invalid_value':
      return say('invalid_value', `must be one of ${issue.values.map((v) => JSON.stringify(v)).join(', ')}`);
    case 'invalid_format':
      return say('invalid_value', `must match ${String(issue.pattern ?? issue.format)}`);
    case 'custom':
      return custom(issue.message, found, field);
    default:
      return say('wrong_type', `has the wrong form: ${issue.message}`);
  }
}

function outOfBounds(issue: z.core.$ZodIssueTooBig | z.core.$ZodIssueTooSmall, field: string): Failure {
  const limit = issue.code === 'too_big' ? `at most ${issue.maximum}` : `at least ${issue.minimum}`;
  if (issue.origin === 'string') {
    if (issue.code === 'too_small') return fail(field.includes('.') ? 'invalid_value' : 'invalid_id', `${field} must not be empty`, field);
    return fail('field_too_long', `${field} must be ${limit} characters: shorten it, or put the rest into extra`, field);
  }
  if (issue.origin === 'array') return fail('field_too_long', `${field} must have ${limit} entries`, field);
  return fail('number_out_of_range', `${field} must be ${limit}`, field);
}

/** Refinements of fields.ts, told apart by what was found and never by their text. */
function custom(message: string, found: unknown, field: string): Failure {
  if (typeof found !== 'string') return fail('wrong_type', `${field} ${message}, not ${kindOf(found)}`, field);
  if (field === 'id' || field.endsWith('.supersedes')) return fail('invalid_id', `${field} ${message}`, field);
  if (Buffer.byteLength(found) > MAX_ID_BYTES)
    return fail('id_too_long', `${field} ${message}: use a shorter id and keep the long one in extra`, field);
  return fail(found.isWellFormed() ? 'wrong_type' : 'invalid_id', `${field} ${message}`, field);
}

function fieldName(path: readonly PropertyKey[]): string {
  return path.map((part, i) => (typeof part === 'number' ? `[${part}]` : `${i === 0 ? '' : '.'}${String(part)}`)).join('');
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  let at = value;
  for (const part of path) at = typeof at === 'object' && at !== null ? (at as Record<PropertyKey, unknown>)[part] : undefined;
  return at;
}

function article(type: string): string {
  if (type === 'object' || type === 'record') return 'an object';
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (ArrayBuffer.isView(value)) return 'a byte string';
  if (typeof value === 'object') return 'dtype' in value && 'bytes' in value ? `a typed array of ${String(value.dtype)}` : 'an object';
  return article(typeof value);
}
