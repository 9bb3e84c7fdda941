import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';

const BATCH_BYTES = 2 * 1024 * 1024;

/**
 * Writes `first` and then all of `rest` to a new file, in writes of about 2 MiB, one in flight while the next batch is collected.
 * Returns the number of bytes. On an error the file is left for the caller to remove.
 */
export async function spoolToFile(path: string, first: Uint8Array, rest: AsyncIterable<Uint8Array>): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  let writing: Promise<void> = Promise.resolve();
  try {
    let total = first.length;
    let batch: Uint8Array[] = first.length > 0 ? [first] : [];
    let size = first.length;
    for await (const chunk of rest) {
      batch.push(chunk);
      size += chunk.length;
      total += chunk.length;
      if (size < BATCH_BYTES) continue;
      await writing;
      writing = writeAll(file, batch, size);
      // A failure is thrown by the next await; until then it must not count as unhandled.
      writing.catch(() => {});
      batch = [];
      size = 0;
    }
    await writing;
    if (size > 0) await writeAll(file, batch, size);
    return total;
  } finally {
    await writing.catch(() => {});
    await file.close();
  }
}

async function writeAll(file: FileHandle, batch: Uint8Array[], size: number): Promise<void> {
  const { bytesWritten } = await file.writev(batch);
  if (bytesWritten === size) return;
  // A short write: the disk is nearly full, or the batch has more pieces than one call takes.
  const rest = Buffer.concat(batch).subarray(bytesWritten);
  for (let at = 0; at < rest.length;) at += (await file.write(rest, at)).bytesWritten;
}
