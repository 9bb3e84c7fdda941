/** What the server said to a batch, reduced to what a sender does next (docs/http.md). Checked by hand: the package carries no schema library. */
import { ERROR_CODES, type ErrorCode } from '../../base/errors.ts';
import type { Problem } from './reports.ts';

/** Why one event was not taken; `index` is its place in the batch. */
export type Refusal = { readonly index: number; readonly code: string; readonly message: string; readonly field?: string };

export type Answer =
  /** Every event has its final answer. */
  | { readonly kind: 'settled'; readonly duplicates: number; readonly rejected: readonly Refusal[] }
  /** Send the same again, after `waitMs` where the server said how long. */
  | { readonly kind: 'again'; readonly problem: Problem; readonly waitMs: number | null }
  /** The request as a whole was refused for what it is: a smaller one may pass. */
  | { readonly kind: 'smaller'; readonly problem: Problem }
  /** A newer epoch of the same producer is at work. */
  | { readonly kind: 'fenced'; readonly problem: Problem }
  /** Nothing an event can help: wrong address, no access, no Tapedeck there. */
  | { readonly kind: 'stuck'; readonly problem: Problem };

const MAX_RETRY_AFTER_MS = 60_000;

export function answerOf(status: number, body: string, retryAfter: string | null): Answer {
  const parsed = jsonOf(body);
  if (status === 200)
    return settledOf(parsed) ?? stuck('the server answered 200 with something else than Tapedeck does: is the address right?');
  const error = errorOf(parsed);
  const waitMs = retryAfterMs(retryAfter);
  const message = error?.message ?? `the server answered with status ${status}`;
  if (error === null) return foreign(status, message, waitMs);
  const { code } = error;
  if (code === 'producer_fenced') return { kind: 'fenced', problem: { code, message } };
  if (ERROR_CODES[code].retry || code === 'internal') return { kind: 'again', problem: { code, message }, waitMs };
  if (status === 401 || status === 403 || status === 404 || status === 405) return { kind: 'stuck', problem: { code, message } };
  return { kind: 'smaller', problem: { code, message } };
}

/** Somebody between us and the server spoke: a proxy, or another program at that address. */
function foreign(status: number, message: string, waitMs: number | null): Answer {
  if (status === 413) return { kind: 'smaller', problem: { code: 'body_too_large', message } };
  if (status === 429) return { kind: 'again', problem: { code: 'overloaded', message }, waitMs };
  if (status === 408 || status >= 500) return { kind: 'again', problem: { code: 'log_unavailable', message }, waitMs };
  return stuck(message);
}

function stuck(message: string): Answer {
  return { kind: 'stuck', problem: { code: 'bad_request', message } };
}

function settledOf(parsed: unknown): Answer | null {
  if (!isMap(parsed) || !isCount(parsed['accepted']) || !isCount(parsed['duplicates']) || !Array.isArray(parsed['rejected'])) return null;
  const rejected = parsed['rejected'].map(refusalOf);
  if (rejected.includes(null)) return null;
  return { kind: 'settled', duplicates: parsed['duplicates'], rejected: rejected as Refusal[] };
}

function refusalOf(value: unknown): Refusal | null {
  if (!isMap(value) || !isCount(value['index']) || typeof value['code'] !== 'string' || typeof value['message'] !== 'string') return null;
  const { index, code, message, field } = value as { index: number; code: string; message: string; field?: unknown };
  return typeof field === 'string' ? { index, code, message, field } : { index, code, message };
}

function errorOf(parsed: unknown): Problem | null {
  const error = isMap(parsed) ? parsed['error'] : null;
  if (!isMap(error) || typeof error['code'] !== 'string' || typeof error['message'] !== 'string') return null;
  return Object.hasOwn(ERROR_CODES, error['code']) ? { code: error['code'] as ErrorCode, message: error['message'] } : null;
}

/** Whole seconds, as our server writes it; dates and nonsense are ignored. */
function retryAfterMs(header: string | null): number | null {
  return header !== null && /^\d{1,6}$/.test(header) ? Math.min(Number(header) * 1000, MAX_RETRY_AFTER_MS) : null;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}
