/** The one place that touches the engine library: what we use of it, typed. */
import chdb from 'chdb';

export type EngineResult = { readonly rowsRead: number; readonly bytesRead: number; bytes(): Uint8Array; text(): string };
export type EngineSession = {
  queryAsync(sql: string, options?: { format?: string }): Promise<EngineResult>;
  close(): void;
};

/** A session at `directory`. The first one of a process loads the store and takes its lock; `configFile` counts only then. */
export function openSession(directory: string, configFile?: string): EngineSession {
  return new chdb.Session(directory, configFile === undefined ? {} : { connectionArgs: [`--config-file=${configFile}`] });
}
