import { ClickHouseError } from '@clickhouse/client';
import type { ErrorCode } from '../../base/errors.ts';
import { TapedeckError } from '../../base/errors.ts';

/** A read shows the caller ClickHouse's words (they are about the caller's SQL); a write keeps them in `cause`, since they may echo rows. */
export type Operation = 'read' | 'write';

/** ClickHouse codes after which the same request may succeed: keeper and network trouble, too many queries or parts, a replica that is read-only or restarting. */
const RETRIABLE = new Set([3, 107, 202, 203, 209, 210, 242, 252, 285, 319, 425, 999]);
const RESULT_LIMITS = new Set([158, 307, 396]);
const READONLY = 164;
const TIMEOUT_EXCEEDED = 159;
const NOT_ENOUGH_SPACE = 243;
const QUERY_WAS_CANCELLED = 394;

/** Which of our codes a ClickHouse error code is, so that callers can tell retriable from final. */
export function codeOf(clickhouseCode: number, operation: Operation): ErrorCode {
  if (RETRIABLE.has(clickhouseCode)) return 'store_unavailable';
  if (clickhouseCode === NOT_ENOUGH_SPACE) return 'disk_full';
  if (clickhouseCode === QUERY_WAS_CANCELLED) return 'aborted';
  if (operation === 'write') {
    if (clickhouseCode === TIMEOUT_EXCEEDED) return 'deadline_exceeded';
    return clickhouseCode === READONLY ? 'store_unavailable' : 'store_error';
  }
  if (clickhouseCode === TIMEOUT_EXCEEDED) return 'query_timeout';
  return RESULT_LIMITS.has(clickhouseCode) ? 'result_too_large' : 'sql_error';
}

/** The error of a finished exchange as ClickHouse words it: `Code: N. DB::Exception: text. (TYPE) (version ...)`. Null when it is not one. */
export function parseException(text: string): { code: number; type: string; message: string } | null {
  const match = /Code: (\d+)\. DB::Exception: ([\s\S]*?)\.? \(([A-Z][A-Z0-9_]+)\)(?: \(version [^\n]*\))?\s*$/.exec(text);
  return match ? { code: Number(match[1]), type: match[3] as string, message: match[2] as string } : null;
}

/** One of ClickHouse's errors as ours; `details.clickhouseCode` and `details.clickhouseType` keep what it was. */
export function storeError(
  exception: { code: number; type: string; message: string },
  operation: Operation,
  cause?: unknown,
): TapedeckError {
  const message = operation === 'read' ? exception.message : `ClickHouse refused the write with code ${exception.code} (${exception.type})`;
  return new TapedeckError(codeOf(exception.code, operation), message, {
    cause: cause ?? new Error(exception.message),
    details: { clickhouseCode: exception.code, clickhouseType: exception.type },
  });
}

/** The error that an answer with an error status carries. */
export function answerError(body: Buffer, status: number, operation: Operation): TapedeckError {
  const exception = parseException(body.toString('utf8'));
  if (exception) return storeError(exception, operation);
  return new TapedeckError('store_unavailable', `the column store answered with status ${status} and no ClickHouse error`);
}

/** Any failure of a request as a TapedeckError: ClickHouse's own by their code, everything below HTTP as `store_unavailable` (its fate is unknown, repeat it). */
export function asStoreError(error: unknown, operation: Operation): TapedeckError {
  if (error instanceof TapedeckError) return error;
  if (error instanceof ClickHouseError) {
    return storeError({ code: Number(error.code), type: error.type ?? 'UNKNOWN', message: error.message }, operation, error);
  }
  const text = error instanceof Error ? error.message : String(error);
  const exception = parseException(text);
  if (exception) return storeError(exception, operation, error);
  return new TapedeckError('store_unavailable', `the column store did not answer: ${text || 'connection lost'}`, { cause: error });
}
