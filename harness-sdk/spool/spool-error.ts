import { TapedeckError } from '../../base/errors.ts';

/** What the file system said, as one of ours: `disk_full` when there is no room, else `not_writable`. Messages name the operation, never content. */
export function spoolError(error: unknown, doing: string): TapedeckError {
  if (error instanceof TapedeckError) return error;
  const { code = 'unknown error' } = error as NodeJS.ErrnoException;
  const full = code === 'ENOSPC' || code === 'EDQUOT';
  return new TapedeckError(full ? 'disk_full' : 'not_writable', `the spool cannot ${doing}: ${code}`, { cause: error });
}
