/** The one table from a file system's error codes to ours. */
import { TapedeckError, isTapedeckError, type ErrorCode } from '../../base/errors.ts';

const WRITE_CODES: Readonly<Record<string, ErrorCode>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EACCES: 'not_writable',
  EPERM: 'not_writable',
  EROFS: 'not_writable',
  ENOENT: 'not_writable',
  ENOTDIR: 'not_writable',
  EISDIR: 'not_writable',
  EEXIST: 'not_writable',
  ELOOP: 'not_writable',
  ENAMETOOLONG: 'not_writable',
  EFBIG: 'not_writable',
};

const REMEDIES: Partial<Record<ErrorCode, string>> = {
  disk_full: 'the disk or quota is full; free space and send again',
  not_writable: 'the directory is missing, read-only or owned by somebody else',
  store_unavailable: 'the disk does not answer as it should',
};

/** A failure to write below `directory`. Unlisted codes (I/O error, too many open files) are `store_unavailable`; our own errors pass unchanged. */
export function writeError(error: unknown, doing: string, directory: string): unknown {
  return named(error, WRITE_CODES[systemCode(error)] ?? 'store_unavailable', doing, directory);
}

/** A failure to read below `directory`: always `store_unavailable`; our own errors pass unchanged. */
export function readError(error: unknown, doing: string, directory: string): unknown {
  return named(error, 'store_unavailable', doing, directory);
}

export function hasCode(error: unknown, code: string): boolean {
  return systemCode(error) === code;
}

function named(error: unknown, code: ErrorCode, doing: string, directory: string): unknown {
  if (isTapedeckError(error)) return error;
  return new TapedeckError(code, `cannot ${doing} in ${directory}: ${REMEDIES[code] ?? code} (${systemCode(error)})`, {
    cause: error,
    details: { directory, systemCode: systemCode(error) },
  });
}

function systemCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'no system code';
}
