/**
 * The lock that makes one process the writer of an embedded log. Node has no flock; SQLite's exclusive transaction on an empty file is a lock of the
 * kernel, so it goes with the process however that ends, and it holds between containers that share a local volume.
 */
import { DatabaseSync } from 'node:sqlite';
import { TapedeckError } from '../../base/errors.ts';

const SQLITE_BUSY = 5;

/** Takes the lock or throws `log_locked`. Returns the release function (idempotent). Other errors are those of the file system. */
export function takeWriterLock(file: string): () => void {
  const lock = new DatabaseSync(file, { timeout: 0 });
  try {
    lock.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    lock.close();
    if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error;
    throw new TapedeckError('log_locked', `another process writes this log (lock file ${file}); stop it, or open the log for reading`, {
      details: { file },
    });
  }
  return () => {
    if (lock.isOpen) lock.close();
  };
}
