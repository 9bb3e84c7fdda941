/**
 * The durable queue of one recorder: numbers events, keeps them in bounded memory and in the spool, has them sent in order, and knows at any time what became of each.
 * Recording is synchronous and does no I/O (but in sync mode); everything else happens in the background and never throws into the program.
 */
import { systemClock, type Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { producerHead, type ProducerHead } from '../encode-event.ts';
import type { Limits, SpoolLimits } from './limits.ts';
import { liveSource, type LiveQueue } from './live-source.ts';
import { memoryWindow } from './memory-window.ts';
import type { Post } from './post.ts';
import { appendRejected } from './rejected-file.ts';
import { startSender, type Sender } from './sender.ts';
import { openSpool, type Spool } from './spool.ts';
import { createWaiters, type Waiters } from './waiters.ts';
import type { Counters, Problem, Rejected } from './reports.ts';

export type Delivery = {
  readonly producer: ProducerHead;
  readonly spool: Spool | null;
  readonly counters: Counters;
  readonly problem: Problem | null;
  /** Numbers and takes one event. Throws `closed`, `overloaded`, in sync mode also `disk_full` and `not_writable`, and what `encode` throws; then nothing was taken. */
  record(encode: (seq: number) => Uint8Array): void;
  /** Resolves when everything recorded so far is settled: acknowledged, or rejected. Throws `deadline_exceeded`, which says what is in the way. */
  flush(timeoutMs: number, signal?: AbortSignal): Promise<void>;
  /** Resolves when everything recorded so far is on disk or settled. Without a spool the same as `flush`. */
  persist(timeoutMs: number, signal?: AbortSignal): Promise<void>;
  /** Resolves when there is room again; at once when there is. */
  ready(signal?: AbortSignal): Promise<void>;
  /** Everything to disk. Returns how many events are only in memory. `isLast`: the process ends, they will be lost, and what is settled needs no place on disk. */
  persistSync(isLast: boolean): number;
  /** Delivers for at most `closeMs`, leaves the rest in the spool. Throws `deadline_exceeded` when events would be lost. */
  close(): Promise<void>;
};

export type DeliveryPorts = {
  readonly session: string;
  readonly producer: string;
  readonly post: Post;
  /** For work in the background: it keeps no process running. */
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: Limits;
  readonly spool: SpoolLimits | null;
  /** Whether `ready` waits at all. */
  readonly mayWait: boolean;
  newId(): string;
  onRejected(rejected: readonly Rejected[]): void;
  onProblem(problem: Problem | null): void;
  isOwner(): boolean;
};

/** Everything that the parts of one delivery share. */
type Core = {
  readonly ports: DeliveryPorts;
  readonly queue: LiveQueue;
  readonly waiters: Waiters;
  readonly producer: ProducerHead;
  spool: Spool | null;
  sender: Sender;
  refused: number;
  /** What is in the way of sending; the spool knows its own trouble. */
  sendProblem: Problem | null;
  told: Problem['code'] | null;
  isOpen: boolean;
};

/** Throws `not_writable` when the spool's folder cannot be made. */
export function openDelivery(ports: DeliveryPorts): Delivery {
  const core = openCore(ports);
  const { queue, producer } = core;
  return {
    producer,
    spool: core.spool,
    get counters() {
      return countersOf(core);
    },
    get problem() {
      return problemOf(core);
    },
    record: (encode) => record(core, encode),
    flush: (timeoutMs, signal) => flush(core, timeoutMs, signal),
    persist: async (timeoutMs, signal) => {
      const { spool } = core;
      if (spool === null) return await flush(core, timeoutMs, signal);
      if (onDisk(core) >= queue.window.end) return;
      await withDeadline(systemClock, timeoutMs, 'the spool to be written', () => spool.writeAll(), signal);
    },
    ready: async (signal) => {
      if (!ports.mayWait || !isPressed(core)) return;
      const isRoomy = (): boolean => !isPressed(core) || queue.window.bytes <= ports.limits.memoryBytes * ROOMY;
      await core.waiters.wait(isRoomy, READY_MS, 'room in the queue of events', signal);
    },
    persistSync: (isLast) => {
      const { spool } = core;
      if (spool !== null) quietly(spool);
      if (isLast && queue.settled >= queue.window.end) spool?.removeSync();
      return queue.window.end - onDisk(core);
    },
    close: () => close(core),
  };
}

/** Asynchronous calls wait from half of the memory on, and go on below `ROOMY` of it; the other half is for those that cannot wait. */
const PRESSED = 0.5;
const ROOMY = 0.4;
/** A wait for room has no end of its own; a day stands for that. */
const READY_MS = 86_400_000;

function openCore(ports: DeliveryPorts): Core {
  const queue: LiveQueue = { window: memoryWindow(), settled: 0, acked: 0, duplicates: 0, rejected: 0 };
  const waiters = createWaiters();
  const producer = producerHead(ports.producer);
  const parts: Omit<Core, 'sender'> = {
    ports,
    queue,
    waiters,
    producer,
    spool: null,
    refused: 0,
    sendProblem: null,
    told: null,
    isOpen: true,
  };
  const core = parts as Core;
  if (ports.spool !== null) {
    core.spool = openSpool({
      ...ports,
      limits: ports.spool,
      window: queue.window,
      settledNow: () => queue.settled,
      onChange: () => {
        tellProblem(core);
        waiters.check();
      },
    });
  }
  const { limits } = ports;
  core.sender = startSender({
    ...ports,
    limits: { bytes: limits.batchBytes, events: limits.batchEvents, lingerMs: limits.lingerMs },
    producer,
    numbers: null,
    sentBefore: false,
    source: liveSource(queue, core.spool, () => waiters.check()),
    saveNumbers: (numbers) => core.spool?.saveNumbers(numbers),
    reject: (list) => reject(core, list),
    onProblem: (next) => {
      core.sendProblem = next;
      tellProblem(core);
    },
  });
  return core;
}

function record(core: Core, encode: (seq: number) => Uint8Array): void {
  const { queue, spool, ports } = core;
  if (!core.isOpen) throw new TapedeckError('closed', 'the recorder is closed: record before close()');
  const { window } = queue;
  const seq = window.end;
  const event = encode(seq);
  admit(core, event.length);
  if (spool !== null && ports.spool?.sync === true) {
    try {
      spool.writeOneSync(seq, event);
    } catch (error) {
      core.refused++;
      throw error;
    }
  } else spool?.schedule();
  const bytesBefore = window.bytes;
  window.push(event);
  const { batchBytes, batchEvents } = ports.limits;
  const isBatch = (bytesBefore < batchBytes && window.bytes >= batchBytes) || seq - queue.settled === batchEvents;
  if (seq === queue.settled || isBatch) core.sender.wake();
}

/** Makes room for `bytes` in memory: lets go of what is on disk, and writes what is not. Throws `overloaded` when that cannot be done. */
function admit(core: Core, bytes: number): void {
  const { queue, spool, ports } = core;
  const { window } = queue;
  const limit = ports.limits.memoryBytes;
  const fits = (): boolean => window.bytes === 0 || window.bytes + bytes <= limit;
  if (fits()) return;
  if (spool !== null) {
    window.dropBefore(spool.written);
    if (fits()) return;
    if (spool.failure === null) quietly(spool);
    window.dropBefore(spool.written);
    if (fits()) return;
  }
  core.refused++;
  const why = problemOf(core)?.message;
  const message = `no room for an event of ${bytes} bytes: ${window.bytes} bytes wait, the limit is ${limit} (memoryBytes)${why === undefined ? '' : `: ${why}`}`;
  throw new TapedeckError('overloaded', message);
}

async function flush(core: Core, timeoutMs: number, signal?: AbortSignal): Promise<void> {
  const { queue, sender, waiters } = core;
  const to = queue.window.end;
  if (queue.settled >= to) return;
  sender.hurry();
  const problem = problemOf(core);
  const why = problem === null ? '' : ` (${problem.message})`;
  await waiters.wait(() => queue.settled >= to, timeoutMs, `the server to take ${to - queue.settled} events${why}`, signal);
}

async function close(core: Core): Promise<void> {
  if (!core.isOpen) return;
  core.isOpen = false;
  const { queue, spool, sender, ports } = core;
  await spool?.writeAll().catch(() => {});
  let failure: unknown = null;
  await flush(core, ports.limits.closeMs).catch((error: unknown) => {
    failure = error;
  });
  await sender.stop();
  const lost = queue.window.end - onDisk(core);
  await spool?.close(queue.settled < queue.window.end);
  if (lost > 0) throw failure ?? new TapedeckError('closed', `${lost} events could not be delivered`);
}

async function reject(core: Core, list: readonly Rejected[]): Promise<void> {
  const { spool, ports } = core;
  if (spool !== null) {
    await appendRejected(spool.rejectedFile(ports.session), list, ports.clock.nowMicros()).catch((error: Error) =>
      ports.onProblem({ code: 'not_writable', message: `the file of rejected events cannot be written: ${error.message}` }),
    );
  }
  ports.onRejected(list);
}

function countersOf(core: Core): Counters {
  const { queue, spool, refused } = core;
  const { window, settled, acked, rejected, duplicates } = queue;
  const disk = onDisk(core);
  return {
    produced: window.end,
    acked,
    rejected,
    spooled: disk - settled,
    queued: window.end - disk,
    refused,
    duplicates,
    queuedBytes: window.bytes,
    spooledBytes: spool?.bytes ?? 0,
  };
}

/** Every number below is on disk, or settled. */
function onDisk({ queue, spool }: Core): number {
  return Math.max(queue.settled, spool?.written ?? 0);
}

function isPressed({ queue, spool, ports }: Core): boolean {
  return (spool === null || spool.failure !== null) && queue.window.bytes > ports.limits.memoryBytes * PRESSED;
}

function problemOf({ spool, sendProblem }: Core): Problem | null {
  return spool?.failure ? { code: spool.failure.code, message: spool.failure.message } : sendProblem;
}

/** Each change is told once. */
function tellProblem(core: Core): void {
  const problem = problemOf(core);
  const code = problem?.code ?? null;
  if (code === core.told) return;
  core.told = code;
  core.ports.onProblem(problem);
}

/** What goes wrong stays in `spool.failure`. */
function quietly(spool: Spool): void {
  try {
    spool.writeAllSync();
  } catch {
    // see above
  }
}
