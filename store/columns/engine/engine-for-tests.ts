import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../../../base/clock.ts';
import { systemRandom } from '../../../base/random.ts';
import { connectColumns } from '../clickhouse-http.ts';
import type { ColumnStore } from '../column-store.ts';
import type { Engine, EngineOptions } from './supervise.ts';
import { startEngine } from './supervise.ts';

export type Address = { readonly url: string; readonly user: string; readonly password: string };

/** An engine process over a directory of its own, gone with it when closed. */
export type TestEngine = Engine & { readonly directory: string };

const SILENT = { info: () => {}, warn: () => {}, error: () => {} };

export async function startTestEngine(options: Partial<EngineOptions> = {}): Promise<TestEngine> {
  const own = options.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'tapedeck-engine-')) : null;
  const clean = async (): Promise<void> => {
    if (own !== null) await rm(own, { recursive: true, force: true });
  };
  const directory = own ?? (options.dataDir as string);
  try {
    const defaults = { dataDir: directory, nice: 0, slots: 6, log: SILENT, clock: systemClock, random: systemRandom };
    const engine = await startEngine({ ...defaults, ...options });
    const close = engine.close.bind(engine);
    return Object.assign(engine, { directory, close: () => close().then(clean) });
  } catch (error) {
    await clean();
    throw error;
  }
}

export function connectTo(address: Address, database = 'default'): ColumnStore {
  const { url, user, password } = address;
  return connectColumns({ url, user, password, database, clock: systemClock, random: systemRandom });
}
