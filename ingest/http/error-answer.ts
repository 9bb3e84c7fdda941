import { TapedeckError, type ErrorCode } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { Answer } from './idempotency.ts';

/** The one shape of every failure. */
export type ErrorBody = { error: { code: ErrorCode; message: string; details?: Readonly<Record<string, unknown>> } };

export function errorBody(error: Pick<TapedeckError, 'code' | 'message' | 'details'>): ErrorBody {
  const { code, message, details } = error;
  return { error: Object.keys(details).length > 0 ? { code, message, details } : { code, message } };
}

/** The answer to a failure: the status of its code, and `Retry-After` where sending the same again can help. */
export function errorAnswer(error: TapedeckError, random: Random): Answer {
  const waits = error.retriable && error.status >= 429;
  const headers = { 'content-type': 'application/json; charset=utf-8' };
  return {
    status: error.status,
    body: JSON.stringify(errorBody(error)),
    headers: waits ? { ...headers, 'retry-after': String(retryAfterSeconds(error, random)) } : headers,
  };
}

/** What the error says; else one to three seconds, spread so that clients refused together do not return together. */
function retryAfterSeconds({ details }: TapedeckError, random: Random): number {
  const { retryAfterSeconds: said } = details;
  if (typeof said === 'number') return said;
  return 1 + Math.floor(random.next() * 3);
}

const BY_STATUS: Readonly<Record<number, ErrorCode>> = {
  404: 'not_found',
  405: 'method_not_allowed',
  408: 'slow_body',
  413: 'body_too_large',
  415: 'unsupported_media_type',
};

/** Ours as it is; those of the HTTP framework by their status; anything else is `internal`, and its text stays in the server log. */
export function toTapedeckError(error: unknown): TapedeckError {
  if (error instanceof TapedeckError) return error;
  const { statusCode, message } = (error ?? {}) as { statusCode?: unknown; message?: unknown };
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new TapedeckError(BY_STATUS[statusCode] ?? 'bad_request', typeof message === 'string' ? message : 'bad request', {
      cause: error,
    });
  }
  return new TapedeckError('internal', 'something failed that nobody foresaw; the server log has it', { cause: error });
}
