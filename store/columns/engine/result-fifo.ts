import { execFile } from 'node:child_process';
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Named pipes through which the engine writes results, one per slot, made once: Node has no mkfifo of its own and a process costs 20 ms. */
export async function makeFifos(directory: string, count: number): Promise<string[]> {
  const paths = Array.from({ length: count }, (_, i) => join(directory, `result-${i}`));
  for (const path of paths) rmSync(path, { force: true });
  await promisify(execFile)('mkfifo', ['-m', '600', ...paths]);
  return paths;
}

export type OpenFifo = {
  readonly bytes: AsyncIterable<Buffer>;
  /** To be called when the statement has settled: from then on the end of the data is the end of the stream. */
  writerIsDone(): void;
  /** Stops reading: a writer that is blocked gets an error at once. */
  close(): void;
};

/**
 * Opens the pipe for reading, plus a write end of our own that is held until the statement settles: without it the reader would see
 * an end of file before the engine has opened the pipe. A socket, not a file stream, reads it: a file stream would hold a thread of the pool.
 */
export function openFifo(path: string): OpenFifo {
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  let writeEnd: number | null = null;
  try {
    writeEnd = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch (error) {
    closeSync(readEnd);
    throw error;
  }
  const socket = new Socket({ fd: readEnd, readable: true, writable: false });
  // An error of a destroyed reader has nobody to go to.
  socket.on('error', () => {});
  const writerIsDone = (): void => {
    if (writeEnd !== null) closeSync(writeEnd);
    writeEnd = null;
  };
  return {
    bytes: socket,
    writerIsDone,
    close: () => {
      writerIsDone();
      socket.destroy();
    },
  };
}
