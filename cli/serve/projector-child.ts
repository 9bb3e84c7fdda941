/**
 * The projector runs in a process of its own at a lower priority, so that projecting never delays an acknowledgement. This keeps one running:
 * it is started anew with back-off when it dies, and its last state is at hand for /readyz, /metrics and audit.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import type { Config } from '../config.ts';
import type { ColumnsAddress } from './columns.ts';

/** What the child is told at its start. */
export type ProjectorOrder = { readonly config: Config; readonly address: ColumnsAddress };
/** What the child tells. */
export type ProjectorMessage = { readonly state: ProjectorState } | { readonly log: string };

export type ProjectorChild = {
  /** Null until the first report of the present process. */
  state(): ProjectorState | null;
  waitingFor(): string | null;
  pid(): number | null;
  close(): Promise<void>;
};

const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 10_000;
const LIVED_LONG_MS = 30_000;
const STOP_GRACE_MS = 10_000;

/** `after` holds the first start back: the schema must be in place, and known to this program. */
export function startProjector(
  order: ProjectorOrder,
  deps: { readonly clock: Clock; readonly logger: Logger; readonly after: Promise<void> },
): ProjectorChild {
  const { clock, logger, after } = deps;
  const stop = new AbortController();
  let child: ChildProcess | null = null;
  let state: ProjectorState | null = null;
  let lastExit: string | null = null;

  const runOnce = async (): Promise<void> => {
    const started = fork(fileURLToPath(new URL('../projector-process.ts', import.meta.url)), [], {
      execArgv: ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=32'],
      serialization: 'advanced',
    });
    child = started;
    started.on('message', (message: ProjectorMessage) => {
      if ('state' in message) ({ state } = message);
      else logger.info({ part: 'projector' }, message.log);
    });
    started.send(order);
    const [code, signal] = await exit(started);
    child = null;
    state = null;
    lastExit = `the projector ended (${signal ?? `exit ${code}`}) and is started again`;
    if (!stop.signal.aborted) logger.error({ part: 'projector' }, lastExit);
  };

  const keepRunning = async (): Promise<void> => {
    if (
      !(await Promise.race([
        after.then(
          () => true,
          () => false,
        ),
        aborted(stop.signal),
      ]))
    )
      return;
    for (let wait = FIRST_WAIT_MS; !stop.signal.aborted; wait = Math.min(wait * 2, MAX_WAIT_MS)) {
      const began = clock.monotonicMs();
      await runOnce();
      if (clock.monotonicMs() - began > LIVED_LONG_MS) wait = FIRST_WAIT_MS;
      await clock.sleep(wait, stop.signal).catch(() => {});
    }
  };
  const running = keepRunning();

  return {
    state: () => state,
    waitingFor: () => {
      if (child === null) return lastExit ?? 'the projector starts';
      return state === null ? 'the projector starts' : state.waitingFor;
    },
    pid: () => child?.pid ?? null,
    close: async () => {
      stop.abort();
      const last = child;
      if (last !== null) {
        last.kill('SIGTERM');
        void clock.sleep(STOP_GRACE_MS).then(() => last.kill('SIGKILL'));
      }
      await running;
    },
  };
}

function aborted(signal: AbortSignal): Promise<false> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(false), { once: true }));
}

function exit(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  return new Promise((resolve) => {
    child.once('error', () => resolve([1, null]));
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
}
