/**
 * The one place that touches the engine library. It uses the library's native functions without its JavaScript layer: that layer's `close` waits until
 * no statement runs in the whole process, so under one long query every session closed meanwhile stays (0.5 MB each, measured). What must hold is only
 * that nothing runs on the connection itself, and that is kept here.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

type Connection = { readonly connection: unique symbol };
type RawResult = { readonly bytes: Uint8Array; readonly rowsRead: number; readonly bytesRead: number };
type Native = {
  CreateConnection(directory: string, args?: readonly string[]): Connection;
  CloseConnection(connection: Connection): void;
  QueryAsyncConnection(connection: Connection, sql: string, format: string): Promise<RawResult>;
};

const require = createRequire(import.meta.url);
const loader = require(join(dirname(require.resolve('chdb')), 'dist', 'loader.js')) as { loadNative(): Native };
const native = loader.loadNative();

export type EngineResult = { readonly bytes: Buffer; readonly rowsRead: number; readonly bytesRead: number };

export type EngineSession = {
  /** Runs one statement off the event loop; rejects with the engine's text `Code: N. DB::Exception: ...`. One at a time: more would wait for each other. */
  run(sql: string, format?: string): Promise<EngineResult>;
  /** Frees the session, at once or when what runs on it has ended. */
  close(): void;
};

/** A session at `directory`. The first one of a process loads the store and takes its lock; `configFile` counts only then. */
export function openSession(directory: string, configFile?: string): EngineSession {
  const connection = native.CreateConnection(directory, configFile === undefined ? [] : [`--config-file=${configFile}`]);
  let running = 0;
  let isClosed = false;
  const closeWhenIdle = (): void => {
    if (isClosed && running === 0) native.CloseConnection(connection);
  };
  return {
    async run(sql, format = 'TabSeparated') {
      if (isClosed) throw new Error('the session is closed');
      running++;
      try {
        const { bytes, rowsRead, bytesRead } = await native.QueryAsyncConnection(connection, sql, format);
        return { bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), rowsRead, bytesRead };
      } finally {
        running--;
        closeWhenIdle();
      }
    },
    close() {
      if (isClosed) return;
      isClosed = true;
      closeWhenIdle();
    },
  };
}
