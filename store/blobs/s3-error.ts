/** The one table from what an S3-compatible store answers to what it means for us. Answers are told apart by status and error name, never by text. */
import { TapedeckError, isTapedeckError } from '../../base/errors.ts';

export type S3Verdict =
  /** Busy, restarting, out of reach, or a race of two writers: ask again. */
  | 'retry'
  /** The object is not there. */
  | 'missing'
  /** A conditional write found the object there. */
  | 'exists'
  /** The store has no room or the quota is used up. */
  | 'full'
  /** The store knows the request but not this way of asking (a conditional write). */
  | 'unsupported'
  /** Wrong bucket, key, secret or permission: asking again cannot help. */
  | 'refused';

const BY_NAME: Readonly<Record<string, S3Verdict>> = {
  NoSuchBucket: 'refused',
  NoSuchKey: 'missing',
  NotFound: 'missing',
  PreconditionFailed: 'exists',
  NotImplemented: 'unsupported',
  ConditionalRequestConflict: 'retry',
  OperationAborted: 'retry',
  SlowDown: 'retry',
  RequestTimeout: 'retry',
  // Damaged on the way.
  BadDigest: 'retry',
  XAmzContentSHA256Mismatch: 'retry',
  IncompleteBody: 'retry',
  // The client corrects its clock from this answer, so the next request is signed with the right time.
  RequestTimeTooSkewed: 'retry',
  QuotaExceeded: 'full',
  XMinioStorageFull: 'full',
  EntityTooLarge: 'refused',
  CredentialsProviderError: 'refused',
};

const BY_STATUS: Readonly<Record<number, S3Verdict>> = {
  404: 'missing',
  408: 'retry',
  409: 'retry',
  412: 'exists',
  429: 'retry',
  501: 'unsupported',
  507: 'full',
};

export function s3Verdict(error: unknown): S3Verdict {
  const { name, status } = s3Facts(error);
  const known = BY_NAME[name] ?? (status === undefined ? undefined : BY_STATUS[status]);
  if (known !== undefined) return known;
  // Without a status the answer never came or was cut off: nobody refused anything.
  return status === undefined || status >= 500 || status < 300 ? 'retry' : 'refused';
}

/** The name and status of an answer, for messages and logs. Never its text, which may echo the request. */
export function s3Facts(error: unknown): { name: string; status: number | undefined } {
  if (!(error instanceof Error)) return { name: 'unknown', status: undefined };
  const metadata = '$metadata' in error ? (error.$metadata as { httpStatusCode?: number } | undefined) : undefined;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return { name: error.name === 'Error' && code !== undefined ? code : error.name, status: metadata?.httpStatusCode };
}

/** The same in words: "503 SlowDown", "ECONNREFUSED". */
export function s3Answer(error: unknown): string {
  const { name, status } = s3Facts(error);
  return status === undefined ? name : `${status} ${name}`;
}

/** A failure as ours; our own errors pass unchanged. `write` decides how a refusal is named: `not_writable`, or for reads `store_error`. */
export function s3Failure(error: unknown, doing: string, write: boolean): unknown {
  if (isTapedeckError(error)) return error;
  const answer = s3Answer(error);
  const options = { cause: error, details: s3Facts(error) };
  const verdict = s3Verdict(error);
  if (verdict === 'full') return new TapedeckError('disk_full', `cannot ${doing}: the object store is full (${answer})`, options);
  if (verdict === 'retry')
    return new TapedeckError('store_unavailable', `cannot ${doing}: the object store is unavailable (${answer})`, options);
  const remedy = 'check bucket, region, keys and permissions';
  return new TapedeckError(
    write ? 'not_writable' : 'store_error',
    `cannot ${doing}: the object store refused (${answer}); ${remedy}`,
    options,
  );
}
