/** The way in: a recorder, its queue, and what happens at the end of the process. */
import { writeSync } from 'node:fs';
import { systemRandom } from '../base/random.ts';
import { isTapedeckError, TapedeckError } from '../base/errors.ts';
import { uuidV7 } from '../base/uuid.ts';
import { backgroundClock } from './background-clock.ts';
import type { Problem } from './delivery/answer.ts';
import type { Counters } from './delivery/counters.ts';
import { openDelivery, type Delivery } from './delivery/delivery.ts';
import type { Drained } from './delivery/drain.ts';
import { startLeftovers, type Leftovers } from './delivery/leftovers.ts';
import { limitsOf, spoolLimitsOf, type Limits, type SpoolLimits, type SpoolOptions } from './delivery/limits.ts';
import { httpPost, type Post } from './delivery/post.ts';
import { appendRejected } from './delivery/rejected-file.ts';
import type { Rejected } from './delivery/sender.ts';
import { checkId, producerId } from './encode-event.ts';
import { addExitHook } from './exit-hooks.ts';
import type { RolloutOptions, RunOptions } from './record-types.ts';
import type { Rollout } from './rollout.ts';
import { openRun, type Run } from './run.ts';
import { scribeOf } from './scribe.ts';

export type RecorderOptions = {
  /** Address of the server, "http://127.0.0.1:7070". */
  readonly url: string;
  /** Sent as `Authorization: Bearer`. */
  readonly key?: string | undefined;
  /** A folder on a local disk, so that nothing is lost when the server is away or this process is killed. Without one, events wait in memory only. */
  readonly spool?: string | SpoolOptions | undefined;
  /** Tenant; the server's default when missing. */
  readonly project?: string | undefined;
  /** Names this program in the numbering of its events; a UUID is added. Default "harness". */
  readonly producer?: string | undefined;
  /** Id of the run that `recorder.rollout` records into. Default: a new one. */
  readonly run?: string | undefined;
  /**
   * When the queue is full (memory, and the spool where there is one): `block` makes asynchronous calls wait for room (`ready`, wrapped clients, the forms with a
   * callback); a synchronous call throws `overloaded` only at the very limit. `refuse`: nothing waits. Default `block`.
   */
  readonly onFull?: 'block' | 'refuse' | undefined;
  /** Events in memory, bytes. Default 32 MiB. */
  readonly memoryBytes?: number | undefined;
  /** A request is sent when this much waits, or after `lingerMs`. Defaults 1 MiB, 2000 events, 20 ms. */
  readonly batchBytes?: number | undefined;
  readonly batchEvents?: number | undefined;
  readonly lingerMs?: number | undefined;
  /** One request may take this long. Default 60,000 ms. */
  readonly requestMs?: number | undefined;
  /** How long `close`, a signal or the end of the program waits for delivery. Default 10,000 ms. */
  readonly closeMs?: number | undefined;
  readonly compression?: 'gzip' | 'none' | undefined;
  /** Events that will not be in the log. They are also kept beside the spool, in `rejected-<session>.jsonl`. */
  readonly onRejected?: ((rejected: readonly Rejected[]) => void) | undefined;
  /** Something is in the way (null: not any more). Nothing is lost by it. */
  readonly onProblem?: ((problem: Problem | null) => void) | undefined;
  /** What a dead process left was delivered. */
  readonly onDrained?: ((drained: Drained) => void) | undefined;
  readonly fetch?: typeof fetch | undefined;
};

export type Recorder = {
  /** As events name it: `producer` in SQL. */
  readonly producer: string;
  readonly counters: Counters;
  /** What is in the way of delivery just now, or null. */
  readonly problem: Problem | null;
  /** What dead processes had left and this one has delivered. */
  readonly drained: readonly Drained[];
  /** A run begins. With `work` it ends with it: completed, or failed when `work` throws; the error is recorded and thrown on. */
  run(options?: RunOptions): Run;
  run<T>(options: RunOptions, work: (run: Run) => Promise<T> | T): Promise<T>;
  /** A rollout in the recorder's own run, which begins with the first of them. */
  rollout(options?: RolloutOptions): Rollout;
  rollout<T>(options: RolloutOptions, work: (rollout: Rollout) => Promise<T> | T): Promise<T>;
  /** Resolves when everything recorded so far has its final answer from the server. Throws `deadline_exceeded` after `timeoutMs` (default 30,000). */
  flush(options?: WaitOptions): Promise<void>;
  /** Resolves when everything recorded so far is on disk, or settled. */
  persist(options?: WaitOptions): Promise<void>;
  /** Resolves when the queue has room. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Ends the recorder's own run, delivers for at most `closeMs`, and leaves the rest in the spool. Throws when events would be lost. Idempotent. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};
export type WaitOptions = { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined };

const FLUSH_MS = 30_000;

/** Throws `config_invalid` for options that cannot be, `not_writable` when the spool's folder cannot be made. */
export function createRecorder(options: RecorderOptions): Recorder {
  const limits = limitsOf(options);
  const spool = options.spool === undefined ? null : spoolLimitsOf(options.spool);
  const name = options.producer ?? 'harness';
  checkName(name);
  if (options.run !== undefined) checkId('run', options.run);
  const newId = (): string => uuidV7(backgroundClock, systemRandom);
  const post = httpPost({ url: checkedUrl(options.url), key: options.key, gzip: options.compression === 'gzip', requestMs: limits.requestMs, clock: backgroundClock, fetch: options.fetch ?? fetch }); // prettier-ignore

  let open = openQueue({ options, limits, spool, name, newId, post });
  let owner = process.pid;
  /** In a process that inherited this one (by fork or snapshot) the queue of the parent is the parent's: a new one begins. */
  const queue = (): Queue => {
    if (process.pid === owner) return open;
    owner = process.pid;
    open = openQueue({ options, limits, spool, name, newId, post });
    return open;
  };
  const tell = quiet(options.onProblem);
  const scribe = scribeOf(
    () => queue().delivery,
    backgroundClock,
    newId,
    (error) => tell(problemOf(error)),
  );
  let own: Run | null = null;
  const ownRun = (): Run => (own ??= openRun(scribe, options.project, { id: options.run ?? newId() }));
  let closing: Promise<void> | null = null;

  const within = async <T>(given: RunOptions, work: (run: Run) => Promise<T> | T): Promise<T> => {
    const run = openRun(scribe, options.project, given);
    try {
      const result = await work(run);
      run.end();
      return result;
    } catch (error) {
      run.error(error);
      run.end({ status: 'failed' });
      throw error;
    }
  };
  const recorder: Recorder = {
    get producer() {
      return queue().delivery.producer.id;
    },
    get counters() {
      return queue().delivery.counters;
    },
    get problem() {
      return queue().delivery.problem;
    },
    get drained() {
      return queue().leftovers?.drained ?? [];
    },
    run: ((given: RunOptions = {}, work?: (run: Run) => unknown) =>
      work === undefined ? openRun(scribe, options.project, given) : within(given, work)) as Recorder['run'],
    rollout: ((given: RolloutOptions = {}, work?: (rollout: Rollout) => unknown) =>
      work === undefined ? ownRun().rollout(given) : ownRun().rollout(given, work)) as Recorder['rollout'],
    flush: ({ timeoutMs = FLUSH_MS, signal } = {}) => queue().delivery.flush(timeoutMs, signal),
    persist: ({ timeoutMs = FLUSH_MS, signal } = {}) => queue().delivery.persist(timeoutMs, signal),
    ready: (signal) => queue().delivery.ready(signal),
    close: () => {
      closing ??= (async () => {
        own?.end();
        await queue().close();
      })();
      return closing;
    },
    [Symbol.asyncDispose]: () => recorder.close(),
  };
  return recorder;
}

type QueueParts = {
  readonly options: RecorderOptions;
  readonly limits: Limits;
  readonly spool: SpoolLimits | null;
  readonly name: string;
  readonly newId: () => string;
  readonly post: Post;
};
type Queue = { readonly delivery: Delivery; readonly leftovers: Leftovers | null; close(): Promise<void> };

function openQueue({ options, limits, spool, name, newId, post }: QueueParts): Queue {
  const session = newId();
  const pid = process.pid;
  const isOwner = (): boolean => process.pid === pid;
  const onProblem = quiet(options.onProblem);
  const onRejected = quiet(options.onRejected);
  const shared = { post, clock: backgroundClock, random: systemRandom, newId, isOwner };
  const delivery = openDelivery({
    ...shared, session, producer: producerId(name, session), limits, spool, mayWait: options.onFull !== 'refuse', onRejected, onProblem,
  }); // prettier-ignore
  const leftovers =
    spool === null || !spool.drain
      ? null
      : startLeftovers({
          ...shared,
          folder: spool.folder,
          session,
          limits: { bytes: limits.batchBytes, events: limits.batchEvents },
          reject: async (of, rejected) => {
            await appendRejected(delivery.spool?.rejectedFile(of) as string, rejected, backgroundClock.nowMicros()).catch((error: Error) =>
              onProblem({ code: 'not_writable', message: `the file of rejected events cannot be written: ${error.message}` }),
            );
            onRejected(rejected);
          },
          onProblem: () => {},
          onDrained: quiet(options.onDrained),
          onFailure: (error) => onProblem({ code: 'not_writable', message: `the spool cannot be drained: ${String(error)}` }),
        });
  const removeHook = addExitHook({
    persist: (isLast) => {
      if (!isOwner()) return;
      const lost = delivery.persistSync();
      if (isLast && lost > 0) sayLost(lost, delivery.problem);
    },
    progress: () => {
      const { acked, rejected, spooled, queued } = delivery.counters;
      return { waiting: isOwner() ? spooled + queued : 0, settled: acked + rejected };
    },
    deliver: async () => {
      if (isOwner()) await delivery.flush(limits.closeMs).catch(() => {});
    },
  });
  return {
    delivery,
    leftovers,
    close: async () => {
      await leftovers?.stop();
      try {
        await delivery.close();
      } finally {
        removeHook();
      }
    },
  };
}

/** Never a silent loss: the process is ending, so this is all that can still be done. */
function sayLost(events: number, problem: Problem | null): void {
  const why = problem === null ? '' : `: ${problem.message}`;
  try {
    writeSync(2, `tapedeck: ${events} events were neither delivered nor on disk when the process ended${why}\n`);
  } catch {
    // nobody listens
  }
}

function problemOf(error: unknown): Problem {
  if (isTapedeckError(error)) return { code: error.code, message: error.message };
  return { code: 'internal', message: `a call could not be recorded: ${error instanceof Error ? error.message : String(error)}` };
}

/** A callback of the program whose errors are its own. */
function quiet<A extends unknown[]>(callback: ((...args: A) => void) | undefined): (...args: A) => void {
  return (...args) => {
    try {
      callback?.(...args);
    } catch {
      // a recorder never throws from background work
    }
  };
}

const MAX_NAME_BYTES = 128;

function checkName(name: string): void {
  checkId('producer', name);
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) throw new TapedeckError('id_too_long', `producer must be at most ${MAX_NAME_BYTES} bytes`);
}

function checkedUrl(url: string): string {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return url;
  throw new TapedeckError('config_invalid', 'url must be the http address of a Tapedeck server, such as http://127.0.0.1:7070');
}
