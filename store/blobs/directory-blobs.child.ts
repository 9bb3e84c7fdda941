/**
 * A process for directory-blobs.int.test.ts: stores blobs of random sizes, eight at a time, and prints the name of each once it is acknowledged (or the code of the error).
 * Arguments: directory, number of blobs (0 = until it is killed), largest size in bytes, user id to become (optional).
 */
import { randomBytes, randomInt } from 'node:crypto';
import { writeSync } from 'node:fs';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import { openDirectoryBlobs } from './directory-blobs.ts';

const [directory = '', count = '0', largest = '1', userId] = process.argv.slice(2);
if (userId !== undefined) process.setuid?.(Number(userId));

async function report(work: () => Promise<string>): Promise<boolean> {
  try {
    writeSync(1, `${await work()}\n`);
    return true;
  } catch (error) {
    writeSync(1, `${isTapedeckError(error) ? error.code : String(error)}\n`);
    return false;
  }
}

const opened = await openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom }).catch((error: unknown) => error);
if (opened instanceof Error) {
  await report(() => Promise.reject(opened));
} else {
  const blobs = opened as Awaited<ReturnType<typeof openDirectoryBlobs>>;
  let left = count === '0' ? Number.POSITIVE_INFINITY : Number(count);
  const storeSome = async (): Promise<void> => {
    while (left-- > 0) {
      const content = randomBytes(randomInt(1, Number(largest) + 1));
      if (!(await report(async () => (await blobs.put(content, 'application/octet-stream')).sha256))) return;
    }
  };
  await Promise.all(Array.from({ length: 8 }, storeSome));
  await blobs.close();
}
