import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import type { Random } from '../../../base/random.ts';
import type { EngineSession } from './chdb.ts';
import { openSession } from './chdb.ts';
import { writeSlotsFor } from './child-messages.ts';
import { ENGINE_CONFIG } from './engine-config.ts';
import type { EngineContext } from './execute.ts';
import { makeFifos } from './result-fifo.ts';
import { createSessions } from './sessions.ts';
import { createSlots } from './slots.ts';

export type OpenEngine = { readonly context: EngineContext; readonly version: string; close(): void };

const MAX_WAITING = 1000;
const MAX_WAIT_MS = 120_000;

/**
 * Takes the lock of `dataDirectory` and opens the store in it. What an earlier process left in the spool directory is removed, once the lock is ours.
 * Throws `store_locked` when another process holds it.
 */
export async function openEngine(options: {
  dataDirectory: string;
  spoolDirectory: string;
  slots: number;
  stallMs: number;
  clock: Clock;
  random: Random;
}): Promise<OpenEngine> {
  mkdirSync(options.dataDirectory, { recursive: true, mode: 0o700 });
  mkdirSync(options.spoolDirectory, { recursive: true, mode: 0o700 });
  const configFile = join(options.spoolDirectory, 'engine.xml');
  writeFileSync(configFile, ENGINE_CONFIG, { mode: 0o600 });
  const control = openFirst(options.dataDirectory, configFile);
  for (const name of readdirSync(options.spoolDirectory)) rmSync(join(options.spoolDirectory, name), { force: true, recursive: true });
  const fifos = await makeFifos(options.spoolDirectory, options.slots);
  const { clock } = options;
  const limits = { maxWaiting: MAX_WAITING, maxWaitMs: MAX_WAIT_MS };
  const [version, timezone] = (await column(control, 'SELECT arrayJoin([version(), timezone()])')) as [string, string];
  const knownSettings = new Set(await column(control, 'SELECT name FROM system.settings UNION ALL SELECT alias_for FROM system.settings'));
  const sessions = createSessions(options.dataDirectory, clock);
  const context: EngineContext = {
    spoolDirectory: options.spoolDirectory,
    fifos,
    readSlots: createSlots(options.slots, limits, clock),
    writeSlots: createSlots(writeSlotsFor(options.slots), limits, clock),
    sessions,
    control,
    knownSettings,
    running: new Set(),
    facts: { version, timezone },
    clock,
    random: options.random,
    stallMs: options.stallMs,
  };
  return {
    context,
    version,
    close: () => {
      sessions.close();
      control.close();
    },
  };
}

/** The engine says only that it failed, so who holds the lock is read from its own status file. */
function openFirst(directory: string, configFile: string): EngineSession {
  try {
    return openSession(directory, configFile);
  } catch (cause) {
    const holder = lockHolder(directory);
    if (holder === null) throw cause;
    throw new TapedeckError('store_locked', `process ${holder} has opened the store in ${directory}`, { cause, details: { holder } });
  }
}

function lockHolder(directory: string): number | null {
  try {
    const holder = Number(/^PID: (\d+)$/m.exec(readFileSync(join(directory, 'status'), 'utf8'))?.[1]);
    if (holder === process.pid) return null;
    process.kill(holder, 0);
    return holder;
  } catch {
    return null;
  }
}

async function column(session: EngineSession, sql: string): Promise<string[]> {
  const result = await session.run(sql, 'JSONCompactEachRow');
  return result.bytes
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as [string])[0]);
}
