/**
 * The projector runs in a process of its own at a lower priority, so that projecting never delays an acknowledgement. This keeps one running:
 * it is started anew with back-off when it dies, and its last state is at hand for /readyz, /metrics and audit.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { ProjectorState } from '../../store/columns/projector/state.ts';
import { projectorEnvironment, type Config } from '../config.ts';
import type { ColumnsAddress } from './columns.ts';

/** What the child is told at its start, and when it shall come to rest: to end once its present block is stored and nothing lags behind the blocks. */
export type ProjectorOrder = { readonly config: Config; readonly address: ColumnsAddress } | 'rest';
/** What the child tells. */
export type ProjectorMessage = { readonly state: ProjectorState } | { readonly feeds: ProjectorState } | { readonly log: string };

export type ProjectorChild = {
  /** Of the events topic. Null until the first report of the present process. */
  state(): ProjectorState | null;
  /** Of the topic of trainer feeds; null too while nobody has made it. */
  feeds(): ProjectorState | null;
  waitingFor(): string | null;
  pid(): number | null;
  /**
   * Ends the process after a whole block, summaries and search included, and starts none until `resume`. Rejects with `store_unavailable` where it could not come to
   * rest: part of a block may be stored.
   */
  pause(): Promise<void>;
  resume(): void;
  close(): Promise<void>;
};

const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 10_000;
const LIVED_LONG_MS = 30_000;
/** Longer than the process takes at most. */
const GRACE_MS = { end: 60_000, rest: 300_000 };

/** `after` holds the first start back: the schema must be in place, and known to this program. */
export function startProjector(
  order: Exclude<ProjectorOrder, 'rest'>,
  deps: { readonly clock: Clock; readonly logger: Logger; readonly after: Promise<void> },
): ProjectorChild {
  const { clock, logger, after } = deps;
  const stop = new AbortController();
  let child: ChildProcess | null = null;
  let state: ProjectorState | null = null;
  let feeds: ProjectorState | null = null;
  let lastExit: string | null = null;
  let gate: PromiseWithResolvers<void> | null = null;
  let ended: Promise<Exit> = Promise.resolve([null, null]);

  const runOnce = async (): Promise<void> => {
    const started = fork(fileURLToPath(new URL('../projector-process.ts', import.meta.url)), [], {
      execArgv: ['--disable-warning=ExperimentalWarning', '--max-semi-space-size=32'],
      env: projectorEnvironment(),
      serialization: 'advanced',
    });
    child = started;
    started.on('message', (message: ProjectorMessage) => {
      if ('state' in message) ({ state } = message);
      else if ('feeds' in message) ({ feeds } = message);
      else logger.info({ part: 'projector' }, message.log);
    });
    started.send(order satisfies ProjectorOrder);
    const exited = exit(started);
    ended = exited;
    const [code, signal] = await exited;
    child = null;
    state = null;
    feeds = null;
    lastExit = `the projector ended (${signal ?? `exit ${code}`}) and is started again`;
    if (!stop.signal.aborted && gate === null) logger.error({ part: 'projector' }, lastExit);
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
      if (gate !== null) await gate.promise;
      if (stop.signal.aborted) return;
      const began = clock.monotonicMs();
      await runOnce();
      if (clock.monotonicMs() - began > LIVED_LONG_MS) wait = FIRST_WAIT_MS;
      await clock.sleep(wait, stop.signal).catch(() => {});
    }
  };
  const running = keepRunning();

  const end = async (how: 'end' | 'rest'): Promise<Exit> => (child === null ? [null, null] : endOf(child, how, ended, clock));

  return {
    state: () => state,
    feeds: () => feeds,
    waitingFor: () => {
      if (gate !== null) return 'a rebuild, which has paused the projector';
      if (child === null) return lastExit ?? 'the projector starts';
      return state === null ? 'the projector starts' : state.waitingFor;
    },
    pid: () => child?.pid ?? null,
    pause: async () => {
      gate ??= Promise.withResolvers<void>();
      const [code] = await end('rest');
      if (code !== 0)
        throw new TapedeckError(
          'store_unavailable',
          'the projector did not come to rest after a whole block: try again when /readyz is well',
        );
    },
    resume: () => {
      gate?.resolve();
      gate = null;
    },
    close: async () => {
      stop.abort();
      gate?.resolve();
      await end('end');
      await running;
    },
  };
}

/** Asks the process to end, and ends it where it takes too long. */
async function endOf(child: ChildProcess, how: 'end' | 'rest', ended: Promise<Exit>, clock: Clock): Promise<Exit> {
  const gone = new AbortController();
  if (how === 'rest') child.send('rest' satisfies ProjectorOrder);
  else child.kill('SIGTERM');
  clock.sleep(GRACE_MS[how], gone.signal).then(() => child.kill('SIGKILL'), () => {}); // prettier-ignore
  const exited = await ended;
  gone.abort();
  return exited;
}

function aborted(signal: AbortSignal): Promise<false> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(false), { once: true }));
}

type Exit = readonly [code: number | null, signal: NodeJS.Signals | null];

function exit(child: ChildProcess): Promise<Exit> {
  return new Promise((resolve) => {
    child.once('error', () => resolve([1, null]));
    child.once('exit', (code, signal) => resolve([code, signal]));
  });
}
