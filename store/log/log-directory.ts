/** What is checked in a log's folder before LMDB maps the file: LMDB itself ends the process (SIGSEGV, SIGBUS) on a file that is not whole. */
import { mkdir, open, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { TapedeckError } from '../../base/errors.ts';
import { diskError } from './disk-errors.ts';

const DATA_FILE = 'data.mdb';
const LOCK_FILE = 'writer.lock';

// LMDB 0.9.90 as built into the npm package: a meta page has a header of 24 bytes, then magic, version, address, map size, two database descriptions
// of 48 bytes (the first begins with the page size), the number of the last used page, the transaction.
const MAGIC_AT = 24;
const MAGIC = 0xbeefc0de;
const PAGE_SIZE_AT = 48;
const LAST_PAGE_AT = 144;
const TRANSACTION_AT = 152;
const META_BYTES = 160;
/** Pages at the end that a transaction reserved and never wrote. */
const TAIL_PAGES = 64;

export function dataFile(directory: string): string {
  return join(directory, DATA_FILE);
}

/** Makes the folder and the empty lock file, and returns the path of the latter. Throws `not_writable`, `disk_full`. */
export async function prepareDirectory(directory: string): Promise<string> {
  try {
    await mkdir(directory, { recursive: true });
    const file = join(directory, LOCK_FILE);
    await (await open(file, 'a', 0o600)).close();
    return file;
  } catch (error) {
    throw diskError(error, directory);
  }
}

/** Whether a log lies in the folder. Throws `log_corrupt` when its file is not one of LMDB or is shorter than it says. */
export async function hasLog(directory: string): Promise<boolean> {
  const file = await open(dataFile(directory), 'r').catch((error: unknown) => {
    if ((error as { code?: string }).code === 'ENOENT') return null;
    throw diskError(error, directory);
  });
  if (file === null) return false;
  try {
    if ((await file.stat()).size === 0) return false;
    const metaAt = async (position: number): Promise<Buffer> => {
      const { bytesRead, buffer } = await file.read(Buffer.alloc(META_BYTES), 0, META_BYTES, position);
      if (bytesRead < META_BYTES || buffer.readUInt32LE(MAGIC_AT) !== MAGIC) throw corrupt(directory, 'it is not an LMDB file');
      return buffer;
    };
    const first = await metaAt(0);
    const pageSize = first.readUInt32LE(PAGE_SIZE_AT);
    const second = await metaAt(pageSize);
    const newest = first.readBigUInt64LE(TRANSACTION_AT) > second.readBigUInt64LE(TRANSACTION_AT) ? first : second;
    // Looked at after the pages that name it: a writer may be at work.
    const { size } = await file.stat();
    const pages = Number(newest.readBigUInt64LE(LAST_PAGE_AT)) + 1;
    if (size < (pages - TAIL_PAGES) * pageSize) throw corrupt(directory, `it has ${size} bytes and should have ${pages * pageSize}`);
    return true;
  } finally {
    await file.close();
  }
}

/** Bytes that this process may still write on the file system of the folder. */
export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

function corrupt(directory: string, what: string): TapedeckError {
  return new TapedeckError('log_corrupt', `${dataFile(directory)} cannot be opened: ${what}. Restore it from a copy`, {
    details: { directory },
  });
}
