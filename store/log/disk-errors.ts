import { constants } from 'node:os';
import { TapedeckError } from '../../base/errors.ts';
import type { ErrorCode } from '../../base/errors.ts';

const { errno } = constants;
const CODES: readonly (readonly [ErrorCode, ReadonlySet<unknown>])[] = [
  ['disk_full', new Set(['ENOSPC', 'EDQUOT', errno.ENOSPC, errno.EDQUOT])],
  [
    'not_writable',
    // ENOENT: creating a folder below a read-only mount says that; ENOTDIR and EEXIST: a file stands where a folder should
    new Set([
      'EACCES',
      'EPERM',
      'EROFS',
      'ENOENT',
      'ENOTDIR',
      'EEXIST',
      errno.EACCES,
      errno.EPERM,
      errno.EROFS,
      errno.ENOENT,
      errno.ENOTDIR,
    ]),
  ],
];

/**
 * What an error of the file system (Node's code names or LMDB's numbers) means for the log: `disk_full`, `not_writable`, else `log_unavailable`.
 * Errors of ours pass unchanged.
 */
export function diskError(error: unknown, directory: string): TapedeckError {
  if (error instanceof TapedeckError) return error;
  const native = (error as { code?: unknown }).code;
  const code = CODES.find(([, natives]) => natives.has(native))?.[0] ?? 'log_unavailable';
  const sentence = {
    disk_full: `no space left for the log in ${directory}: free some, nothing acknowledged is lost`,
    not_writable: `the log cannot be written in ${directory}: check the owner and the mount of that folder`,
  }[code as string];
  return new TapedeckError(code, sentence ?? `the log in ${directory} cannot be used: ${String((error as Error).message)}`, {
    cause: error,
    details: { directory, native },
  });
}
