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
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-engine-'));
  const engine = await startEngine({
    dataDir: directory,
    nice: 0,
    slots: 6,
    log: SILENT,
    clock: systemClock,
    random: systemRandom,
    ...options,
  });
  return Object.assign(engine, {
    directory,
    close: once(async () => {
      await Object.getPrototypeOf(engine).close.call(engine);
      await rm(directory, { recursive: true, force: true });
    }),
  });
}

export function connectTo(address: Address, database = 'default'): ColumnStore {
  const { url, user, password } = address;
  return connectColumns({ url, user, password, database, clock: systemClock, random: systemRandom });
}

function once(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null;
  return () => (running ??= work());
}
