/** A real embedded engine for one test file, with the schema in place. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { connectColumns } from './clickhouse-http.ts';
import type { ColumnStore } from './column-store.ts';
import { startEngine } from './engine/supervise.ts';

export type TestStore = {
  /** A connection whose statements run in `database`. */
  connect(database: string): ColumnStore;
  close(): Promise<void>;
};

const silent = { info: () => {}, warn: () => {}, error: () => {} };

export async function openTestStore(): Promise<TestStore> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-columns-'));
  const engine = await startEngine({ dataDir: directory, nice: 0, slots: 2, log: silent, clock: systemClock, random: systemRandom });
  const open: ColumnStore[] = [];
  return {
    connect(database) {
      const { url, user, password } = engine;
      const store = connectColumns({ url, user, password, database, clock: systemClock, random: systemRandom });
      open.push(store);
      return store;
    },
    async close() {
      await Promise.all(open.map((store) => store.close()));
      await engine.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
