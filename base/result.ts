import type { ErrorCode } from './errors.ts';

/** Expected bad input is a value, not an exception. */
export type Result<T, E = Problem> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: E };

/** What is wrong with one item: the code, a sentence naming the field, the limit and the remedy, and the path of the field. */
export type Problem = { readonly code: ErrorCode; readonly message: string; readonly field?: string };

export function ok<T>(value: T): { readonly ok: true; readonly value: T } {
  return { ok: true, value };
}

export function fail(code: ErrorCode, message: string, field?: string): { readonly ok: false; readonly error: Problem } {
  return { ok: false, error: field === undefined ? { code, message } : { code, message, field } };
}
