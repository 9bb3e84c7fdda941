/** Our errors as ClickHouse's clients read them: its number, its name, its words. */
import { isTapedeckError, type ErrorCode } from '../../base/errors.ts';
import type { WireError } from '../../store/columns/engine/wire-error.ts';
import { wireErrorOf } from '../../store/columns/engine/wire-error.ts';

const NUMBERS: Partial<Readonly<Record<ErrorCode, readonly [number, string]>>> = {
  unauthorized: [516, 'AUTHENTICATION_FAILED'],
  forbidden: [497, 'ACCESS_DENIED'],
  sql_refused: [497, 'ACCESS_DENIED'],
  rate_limited: [201, 'QUOTA_EXCEEDED'],
  overloaded: [202, 'TOO_MANY_SIMULTANEOUS_QUERIES'],
  query_timeout: [159, 'TIMEOUT_EXCEEDED'],
  deadline_exceeded: [159, 'TIMEOUT_EXCEEDED'],
  result_too_large: [396, 'TOO_MANY_ROWS_OR_BYTES'],
  bad_request: [36, 'BAD_ARGUMENTS'],
  invalid_utf8: [36, 'BAD_ARGUMENTS'],
  body_too_large: [191, 'QUERY_IS_TOO_LARGE'],
  not_found: [81, 'UNKNOWN_DATABASE'],
  aborted: [394, 'QUERY_WAS_CANCELLED'],
  closed: [210, 'NETWORK_ERROR'],
  store_unavailable: [210, 'NETWORK_ERROR'],
};

/** What HTTP says where ClickHouse's numbers would say 500. */
const STATUS: Partial<Readonly<Record<ErrorCode, number>>> = {
  unauthorized: 403, forbidden: 403, sql_refused: 403, rate_limited: 429, overloaded: 503, store_unavailable: 503, closed: 503, result_too_large: 413, query_timeout: 408, bad_request: 400,
}; // prettier-ignore

export type ClientError = WireError & { readonly status: number | null; readonly retryAfter: string | null };

export function clientErrorOf(error: unknown): ClientError {
  if (!isTapedeckError(error)) return { ...wireErrorOf(error), status: null, retryAfter: null };
  const { code, details, message } = error;
  const number = details['clickhouseCode'];
  const name = details['clickhouseType'] ?? details['clickhouseName'];
  const [ownNumber, ownName] = NUMBERS[code] ?? [1002, 'UNKNOWN_EXCEPTION'];
  const refused = details['refused'];
  const missing =
    code === 'bad_request' && typeof refused === 'string' && refused.startsWith('params.')
      ? ([456, 'UNKNOWN_QUERY_PARAMETER'] as const)
      : null;
  const known = typeof number === 'number';
  return {
    code: known ? number : (missing?.[0] ?? ownNumber),
    name: known && typeof name === 'string' ? name : (missing?.[1] ?? ownName),
    text: code === 'internal' ? 'something failed that nobody foresaw; the server log has it' : message + placeOf(details['position']),
    status: known ? null : (STATUS[code] ?? null),
    retryAfter: error.retriable && error.status >= 429 ? retryAfter(details) : null,
  };
}

function placeOf(position: unknown): string {
  const { line, column } = (position ?? {}) as { line?: unknown; column?: unknown };
  return typeof line === 'number' && typeof column === 'number' ? ` (line ${line}, col ${column})` : '';
}

function retryAfter({ retryAfterSeconds }: Readonly<Record<string, unknown>>): string {
  return typeof retryAfterSeconds === 'number' ? String(retryAfterSeconds) : '1';
}
