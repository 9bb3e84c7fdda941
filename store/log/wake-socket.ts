/**
 * How an append wakes readers in other processes: the writer listens on a Unix socket, readers connect, one byte means "look again". No data
 * travels here, so a lost or late byte costs time, never correctness: a reader also looks whenever it connects.
 */
import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import type { Backoff } from '../../base/retry.ts';

/** The kernel takes 107 bytes for the address of a Unix socket; longer paths get a name in the temporary folder, derived from the directory. */
const LONGEST_PATH = 100;
const BACKOFF: Backoff = { firstMs: 20, maxMs: 1000 };
const ONE_BYTE = Buffer.from([1]);

export function wakeSocketPath(directory: string): string {
  const path = join(directory, 'wake.sock');
  if (Buffer.byteLength(path) <= LONGEST_PATH) return path;
  const name = createHash('sha256').update(realpathSync(directory)).digest('hex').slice(0, 24);
  return join(tmpdir(), `tapedeck-${name}.sock`);
}

export type WakeServer = { notify(): void; close(): Promise<void> };

/** Listens for readers. The caller holds the writer lock, so a socket file that is there is left over and is replaced. */
export async function serveWakes(directory: string): Promise<WakeServer> {
  const path = wakeSocketPath(directory);
  await rm(path, { force: true });
  const readers = new Set<Socket>();
  const server = createServer((socket) => {
    readers.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => readers.delete(socket));
    socket.resume();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  await chmod(path, 0o600);
  return {
    notify: () => {
      // A reader that has not taken the last byte yet will look after this append anyway.
      for (const reader of readers) if (reader.writableLength === 0) reader.write(ONE_BYTE);
    },
    close: async () => {
      for (const reader of readers) reader.destroy();
      await new Promise((resolve) => server.close(resolve));
      await rm(path, { force: true });
    },
  };
}

/** Calls `onWake` at every connection and every append of the writer, and connects again (with back-off) whenever the writer is gone. */
export function followWakes(directory: string, clock: Clock, onWake: () => void): { close(): Promise<void> } {
  const path = wakeSocketPath(directory);
  const stopped = new AbortController();
  let socket: Socket | null = null;

  const connectOnce = (): Promise<boolean> =>
    new Promise((resolve) => {
      let connected = false;
      socket = createConnection(path);
      socket.on('connect', () => {
        connected = true;
        onWake();
      });
      socket.on('data', onWake);
      socket.on('error', () => {});
      socket.on('close', () => resolve(connected));
    });

  const follow = async (): Promise<void> => {
    for (let waitMs = BACKOFF.firstMs; !stopped.signal.aborted; waitMs = Math.min(waitMs * 2, BACKOFF.maxMs)) {
      if (await connectOnce()) waitMs = BACKOFF.firstMs;
      await clock.sleep(waitMs, stopped.signal).catch(() => {});
    }
  };
  const following = follow();
  return {
    close: async () => {
      stopped.abort();
      socket?.destroy();
      await following;
    },
  };
}
