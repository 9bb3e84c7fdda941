/** The way in: a recorder, its queue, and what happens at the end of the process. */
import { writeSync } from 'node:fs';
import { systemRandom } from '../base/random.ts';
import { isTapedeckError, TapedeckError } from '../base/errors.ts';
import { uuidV7 } from '../base/uuid.ts';
import { backgroundClock } from './background-clock.ts';
import { openDelivery, type Delivery } from './delivery/delivery.ts';
import { startLeftovers, type Leftovers } from './delivery/leftovers.ts';
import { limitsOf, spoolLimitsOf, type Limits, type SpoolLimits } from './delivery/limits.ts';
import { httpPost, type Post } from './delivery/post.ts';
import { appendRejected } from './delivery/rejected-file.ts';
import { checkId, producerId } from './encode-event.ts';
import { gatewayCall } from './gateway-keys.ts';
import { pooledRandom } from './pooled-random.ts';
import { addExitHook } from './exit-hooks.ts';
import type { RolloutOptions, RunOptions } from './record-types.ts';
import { openRun } from './run.ts';
import { scribeOf } from './scribe.ts';
import type { Recorder, RecorderOptions, Rollout, Run } from './api.ts';
import type { Problem } from './delivery/reports.ts';

const FLUSH_MS = 30_000;

/** Throws `config_invalid` for options that cannot be, `not_writable` when the spool's folder cannot be made. */
export function createRecorder(options: RecorderOptions): Recorder {
  const limits = limitsOf(options);
  const spool = options.spool === undefined ? null : spoolLimitsOf(options.spool);
  const name = options.producer ?? 'harness';
  checkName(name);
  if (options.run !== undefined) checkId('run', options.run);
  let random = pooledRandom(systemRandom);
  const newId = (): string => uuidV7(backgroundClock, random);
  const post = httpPost({ url: checkedUrl(options.url), key: options.key, gzip: options.compression === 'gzip', requestMs: limits.requestMs, clock: backgroundClock, fetch: options.fetch }); // prettier-ignore

  let open = openQueue({ options, limits, spool, name, newId, post });
  let owner = process.pid;
  /** In a process that inherited this one (by fork or snapshot) the queue of the parent is the parent's: a new one begins. */
  const queue = (): Queue => {
    if (process.pid === owner) return open;
    owner = process.pid;
    random = pooledRandom(systemRandom);
    open = openQueue({ options, limits, spool, name, newId, post });
    return open;
  };
  const tell = quiet(options.onProblem);
  const gateway = gatewayCall(
    options.gateway === undefined ? options.url : checkedUrl(options.gateway),
    options.key,
    options.fetch ?? fetch,
  );
  const pending = new Set<Promise<void>>();
  const scribe = scribeOf(() => queue().delivery, {
    clock: backgroundClock,
    newId,
    gateway,
    pending: (work) => {
      pending.add(work);
      void work.then(() => pending.delete(work));
    },
    onFailure: (error) => tell(problemOf(error)),
  });
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
        await Promise.all(pending);
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
      const lost = delivery.persistSync(isLast);
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
