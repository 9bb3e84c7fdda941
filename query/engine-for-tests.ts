/** The real embedded engine for tests of this folder: a process of its own, a fresh directory, one connected store. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { startEngine } from '../store/columns/engine/supervise.ts';

export type TestEngine = { readonly store: ColumnStore; readonly directory: string; close(): Promise<void> };

export async function startTestEngine(database: string): Promise<TestEngine> {
  const directory = mkdtempSync(join(tmpdir(), 'tapedeck-query-'));
  const engine = await startEngine({
    dataDir: join(directory, 'engine'),
    nice: 0,
    slots: 6,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    clock: systemClock,
    random: systemRandom,
  });
  const connect = (name: string): ColumnStore =>
    connectColumns({
      url: engine.url,
      user: engine.user,
      password: engine.password,
      database: name,
      clock: systemClock,
      random: systemRandom,
    });
  const first = connect('default');
  await first.command(`CREATE DATABASE IF NOT EXISTS ${database}`);
  await first.close();
  const store = connect(database);
  return {
    store,
    directory,
    close: async () => {
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    },
  };
}
