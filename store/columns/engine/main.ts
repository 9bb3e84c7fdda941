/**
 * The engine process: owns the store in one directory and serves ClickHouse's HTTP interface on 127.0.0.1. Started by supervise.ts, told what to do over
 * the process channel, and gone when that channel closes: it never outlives the process that started it.
 */
import { readdirSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setPriority } from 'node:os';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import type { FromChild, StartMessage, ToChild } from './child-messages.ts';
import type { OpenEngine } from './open-engine.ts';
import { openEngine } from './open-engine.ts';
import { createEngineServer } from './server.ts';
import { wireErrorOf } from './wire-error.ts';

const STOP_WITHIN_MS = 5_000;

let running: { engine: OpenEngine; server: Server } | null = null;

/** Every thread that exists (the pool's may already) and, by inheritance, every later one. */
function lowerPriority(nice: number): void {
  try {
    for (const thread of readdirSync('/proc/self/task')) setPriority(Number(thread), nice);
  } catch {
    setPriority(nice);
  }
}

async function start(message: StartMessage): Promise<void> {
  lowerPriority(message.nice);
  const engine = await openEngine({ ...message, clock: systemClock, random: systemRandom });
  const server = createEngineServer(engine.context, { user: message.user, password: message.password });
  running = { engine, server };
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(message.port, '127.0.0.1', resolve);
  });
  tell({ kind: 'ready', port: (server.address() as AddressInfo).port, version: engine.version });
}

function tell(message: FromChild): void {
  process.send?.(message);
}

/** Ends what runs and leaves. The engine's files are consistent at any instant, so a query that does not end in time is cut off. */
async function stop(code: number): Promise<never> {
  const hardEnd = systemClock.sleep(STOP_WITHIN_MS).then(() => process.kill(process.pid, 'SIGKILL'));
  hardEnd.catch(() => undefined);
  if (running) {
    const { engine, server } = running;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    await engine.context.control.run('KILL QUERY WHERE 1 ASYNC FORMAT Null').catch(() => undefined);
    await closed;
    while (engine.context.running.size > 0) await systemClock.sleep(10);
    engine.close();
  }
  process.exit(code);
}

process.on('message', (message: ToChild) => {
  if (message.kind === 'stop') return void stop(0);
  start(message).catch((error: unknown) => {
    const wire = wireErrorOf(error);
    const isPortTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    tell({ kind: 'failed', isLocked: isTapedeckError(error, 'store_locked'), isPortTaken, message: wire.text });
    void stop(1);
  });
});
// The parent was killed: nobody waits for an answer, what was acknowledged is on the disk, and the next engine waits for the lock.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
// A terminal sends its interrupt to the whole group: the parent decides when the engine ends.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => void stop(0));
