/**
 * Says whether the owner of a session still lives: a socket in the spool folder that it listens on. The kernel closes it the moment the process dies, however it dies, so a dead
 * holder keeps nothing; a stopped or busy process still holds it. Children do not inherit it. Works between threads, processes and containers that share the folder on one machine.
 */
import { closeSync, constants, openSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { TapedeckError } from '../../base/errors.ts';

export type Alive = {
  /** Resolves when others can see it; rejects with `not_writable` when no socket can be had there. */
  readonly ready: Promise<void>;
  close(): Promise<void>;
};

/** What fits into the address of a Unix socket on every system we run on. */
const MAX_PATH_BYTES = 100;

export function aliveFile(folder: string, owner: string): string {
  return join(folder, `${owner}.alive`);
}

/** Holds `file` until it is closed or the process ends. Keeps no process running. */
export function holdAlive(file: string): Alive {
  const server = createServer((socket) => socket.destroy());
  const address = shortAddress(file);
  const ready = new Promise<void>((resolve, reject) => {
    server.once('listening', () => resolve());
    server.once('error', (error) => {
      address.release();
      reject(new TapedeckError('not_writable', `the spool folder cannot hold a socket: ${error.message}`, { cause: error }));
    });
  });
  ready.catch(() => {});
  // exclusive: in a cluster worker the worker itself must hold it, not its primary
  server.listen({ path: address.path, exclusive: true });
  server.unref();
  return {
    ready,
    close: async () => {
      await ready.catch(() => {});
      await new Promise<void>((resolve) => {
        if (server.listening) server.close(() => resolve());
        else resolve();
      });
      address.release();
    },
  };
}

/** Whether somebody listens. A doubt counts as yes: then nothing is taken away. */
export function isAlive(file: string): Promise<boolean> {
  const address = shortAddress(file);
  return new Promise<boolean>((resolve) => {
    const socket = connect({ path: address.path });
    const end = (alive: boolean): void => {
      socket.destroy();
      address.release();
      resolve(alive);
    };
    socket.once('connect', () => end(true));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'));
  });
}

/** Addresses are short: a long one goes by way of its open folder, where the system has such a way (Linux). */
function shortAddress(file: string): { readonly path: string; release(): void } {
  if (Buffer.byteLength(file) <= MAX_PATH_BYTES) return { path: file, release: () => {} };
  if (process.platform !== 'linux')
    throw new TapedeckError(
      'config_invalid',
      `the path of the spool folder is too long for a socket (${MAX_PATH_BYTES} bytes): choose a shorter one`,
    );
  const folder = openSync(dirname(file), constants.O_RDONLY | constants.O_DIRECTORY);
  let open = true;
  return {
    path: `/proc/self/fd/${folder}/${file.slice(dirname(file).length + 1)}`,
    release: () => {
      if (open) closeSync(folder);
      open = false;
    },
  };
}
