/**
 * Sends the events of one producer in order, one request at a time, until each has its final answer. It never gives up and never throws: what is in the way is its
 * `problem`. Decisions are here, effects behind the ports.
 */
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { freshProducer, type ProducerHead } from '../encode-event.ts';
import type { Answer, Refusal } from './answer.ts';
import { bell } from './bell.ts';
import { bodyOf, type Post } from './post.ts';
import { applyNumbers, voidsOf, type WireNumbers } from './wire-numbers.ts';
import type { Problem, Rejected } from './reports.ts';

export type BatchLimits = { readonly bytes: number; readonly events: number };
/** Events from the first unsettled number on; or how many numbers from there on are lost for good. */
export type Batch = { readonly events: readonly Uint8Array[]; readonly lost: number };
export type Source = {
  /** The first number without a final answer, and one past the last number. */
  settled(): number;
  end(): number;
  /** Bytes that wait, as far as known: enough of them are sent without lingering. */
  waitingBytes(): number;
  next(limits: BatchLimits): Promise<Batch>;
  settle(to: number, outcome: Outcome): void;
};
/** What became of the numbers that were settled: acked + rejected of them, `duplicates` of those acked. */
export type Outcome = { readonly acked: number; readonly duplicates: number; readonly rejected: number };
export type SenderPorts = {
  readonly source: Source;
  readonly post: Post;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits: BatchLimits & { readonly lingerMs: number };
  /** The producer the events were encoded with, and numbers to go on with where that was begun before. */
  readonly producer: ProducerHead;
  readonly numbers: WireNumbers | null;
  /** The events may have been sent by somebody before: then duplicates are no surprise. */
  readonly sentBefore: boolean;
  /** Keeps numbers before anything is sent under them. Must not throw. */
  saveNumbers(numbers: WireNumbers): void;
  /** A new UUID. */
  newId(): string;
  /** Keeps them before they are settled. Must not throw. */
  reject(rejected: readonly Rejected[]): Promise<void>;
  onProblem(problem: Problem | null): void;
  /** False in a process that is not the one that began: nothing is sent then. */
  isOwner(): boolean;
};

export type Sender = {
  /** There is something new, enough for a batch or the first after nothing. */
  wake(): void;
  /** Sends what is there now without lingering, and cuts a pause short. */
  hurry(): void;
  /** Ends after the request under way is abandoned; what it carried stays unsettled. */
  stop(): Promise<void>;
};

const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 10_000;
const STUCK_PAUSE_MS = 30_000;
/** While somebody waits for the end. */
const HURRIED_PAUSE_MS = 500;
/** An event that makes the server fail this often is refused, so that those behind it go on. */
const MAX_FAILURES_OF_ONE = 8;
const FAILURES_BEFORE_SPLIT = 3;
const MAX_VOIDS = 10_000;
const MAX_LOST_AT_ONCE = 10_000;
const MAX_RENEWALS = 3;
const STOPPED = new Error('the sender was stopped');

type State = {
  numbers: WireNumbers | null;
  /** One past the highest number ever sent under these numbers. */
  sent: number;
  /** One past the last number that the server is known to have counted. */
  counted: number;
  /** Numbers between `counted` and the next event must be stepped over. */
  stepOver: boolean;
  triedStepping: boolean;
  renewals: number;
  /** Events in a batch, made smaller while the server refuses larger ones. */
  most: number;
  failures: number;
  pauses: number;
  hurryTo: number;
  lastSent: number;
};

export function startSender(ports: SenderPorts): Sender {
  const { source, clock, limits } = ports;
  const work = bell(clock);
  const interrupt = bell(clock);
  const stopping = new AbortController();
  const begin = source.settled();
  const state: State = {
    numbers: ports.numbers, sent: ports.sentBefore ? Number.POSITIVE_INFINITY : begin, counted: begin, stepOver: false, triedStepping: false, renewals: 0,
    most: limits.events, failures: 0, pauses: 0, hurryTo: 0, lastSent: Number.NEGATIVE_INFINITY,
  }; // prettier-ignore

  const isStopped = (): boolean => stopping.signal.aborted || !ports.isOwner();
  const linger = async (): Promise<void> => {
    const wait = limits.lingerMs - (clock.monotonicMs() - state.lastSent);
    const enough =
      source.waitingBytes() >= limits.bytes || source.end() - source.settled() >= limits.events || state.hurryTo > source.settled();
    if (!enough && wait > 0) await work.wait(Math.min(wait, limits.lingerMs));
  };
  const running = (async () => {
    while (!isStopped()) {
      if (source.settled() >= source.end()) {
        await work.wait();
        // the first after a silence waits for company too
        state.lastSent = Math.max(state.lastSent, clock.monotonicMs());
        continue;
      }
      await linger();
      if (isStopped()) return;
      const { ms, isAsked } = await step(ports, state, stopping.signal);
      if (ms > 0 && !isStopped()) await (isAsked ? clock.sleep(ms, stopping.signal).catch(() => {}) : interrupt.wait(ms));
    }
  })();

  return {
    wake: () => work.ring(),
    hurry: () => {
      state.hurryTo = source.end();
      work.ring();
      interrupt.ring();
    },
    stop: async () => {
      stopping.abort(STOPPED);
      work.ring();
      interrupt.ring();
      await running;
    },
  };
}

/** How long to wait before the next request. `isAsked`: the server said so, and nothing cuts it short. */
type Pause = { readonly ms: number; readonly isAsked: boolean };
const NONE: Pause = { ms: 0, isAsked: false };

/** One request and what follows from its answer. */
async function step(ports: SenderPorts, state: State, signal: AbortSignal): Promise<Pause> {
  const { source } = ports;
  const from = source.settled();
  const known = Math.max(0, state.sent - from);
  // what was sent before goes again as it was, without company: so duplicates of new events are recognised as a surprise
  const events = Math.min(state.most, known > 0 ? known : Number.POSITIVE_INFINITY);
  const batch = await source.next({ bytes: ports.limits.bytes, events }).catch((error: unknown) => {
    const message = `the spool cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    ports.onProblem({ code: 'not_writable', message });
    return null;
  });
  if (batch === null) return pause(ports, state, MAX_PAUSE_MS);
  if (batch.lost > 0) return await lose(ports, state, from, batch.lost);
  if (batch.events.length === 0) return { ms: FIRST_PAUSE_MS, isAsked: false };
  if (state.stepOver && from - state.counted > MAX_VOIDS) return await stepAhead(ports, state, from, signal);
  const isNew = from >= state.sent;
  const voids = voidsBefore(ports, state, from);
  const { body, starts } = bodyOf([...voids, ...batch.events]);
  applyNumbers(state.numbers, body, starts.slice(voids.length), from);
  state.sent = Math.max(state.sent, from + batch.events.length);
  state.lastSent = ports.clock.monotonicMs();
  const answer = await ports.post(body, signal);
  if (signal.aborted) return NONE;
  return await follow(ports, state, { from, events: batch.events, isNew, voids: voids.length }, answer);
}

type Sent = { readonly from: number; readonly events: readonly Uint8Array[]; readonly isNew: boolean; readonly voids: number };

async function follow(ports: SenderPorts, state: State, sent: Sent, answer: Answer): Promise<Pause> {
  switch (answer.kind) {
    case 'settled':
      return await settled(ports, state, sent, answer.duplicates, answer.rejected);
    case 'fenced':
      return renew(ports, state, sent.from, answer.problem);
    case 'smaller':
      return await smaller(ports, state, sent, answer.problem);
    case 'stuck':
      ports.onProblem(answer.problem);
      return pause(ports, state, STUCK_PAUSE_MS);
    case 'again': {
      ports.onProblem(answer.problem);
      const isFault = answer.problem.code === 'internal' && ++state.failures >= FAILURES_BEFORE_SPLIT;
      if (isFault && (sent.events.length > 1 || state.failures >= MAX_FAILURES_OF_ONE))
        return await smaller(ports, state, sent, answer.problem);
      const own = pause(ports, state, MAX_PAUSE_MS);
      return answer.waitMs === null ? own : { ms: Math.max(answer.waitMs, own.ms), isAsked: true };
    }
  }
}

async function settled(ports: SenderPorts, state: State, sent: Sent, duplicates: number, refusals: readonly Refusal[]): Promise<Pause> {
  const { from, events, isNew, voids } = sent;
  const refused = refusals.filter(({ index }) => index >= voids && index < voids + events.length);
  const numbering = refused.find(({ code }) => code === 'producer_gap' || code === 'producer_fenced');
  if (numbering !== undefined) {
    const problem: Problem = { code: numbering.code as Problem['code'], message: numbering.message };
    if (numbering.code === 'producer_gap' && !state.triedStepping && state.counted < from) {
      state.stepOver = true;
      state.triedStepping = true;
      return NONE;
    }
    return renew(ports, state, from, problem);
  }
  if (isNew && duplicates > 0) {
    const message = `the server knows ${duplicates} numbers of this producer that were never sent from here: a copy of this process uses them too`;
    return renew(ports, state, from, { code: 'producer_fenced', message });
  }
  if (refused.length > 0) {
    const rejected = refused.map(({ index, code, message, field }) => {
      const event = events[index - voids] as Uint8Array;
      return { seq: from + index - voids, code, message, ...(field !== undefined && { field }), event };
    });
    await ports.reject(rejected);
  }
  const places = new Set(refused.map(({ index }) => index - voids));
  let last = events.length;
  while (last > 0 && places.has(last - 1)) last--;
  if (last > 0) state.counted = from + last;
  ports.source.settle(from + events.length, { acked: events.length - refused.length, duplicates, rejected: refused.length });
  progressed(ports, state);
  return NONE;
}

function progressed(ports: SenderPorts, state: State): void {
  state.stepOver = false;
  state.triedStepping = false;
  state.renewals = 0;
  state.failures = 0;
  state.pauses = 0;
  state.most = Math.min(ports.limits.events, state.most * 2);
  ports.onProblem(null);
}

/** Half as many next time; a single event that is refused so is rejected. */
async function smaller(ports: SenderPorts, state: State, { from, events }: Sent, { code, message }: Problem): Promise<Pause> {
  state.failures = 0;
  if (events.length > 1) {
    state.most = Math.max(1, Math.floor(events.length / 2));
    return NONE;
  }
  await ports.reject([{ seq: from, code, message, event: events[0] as Uint8Array }]);
  ports.source.settle(from + 1, { acked: 0, duplicates: 0, rejected: 1 });
  // the server has not counted this number
  state.stepOver = true;
  return NONE;
}

async function lose(ports: SenderPorts, state: State, from: number, lost: number): Promise<Pause> {
  const count = Math.min(lost, MAX_LOST_AT_ONCE);
  const message = 'the spool record of this event cannot be read any more';
  await ports.reject(Array.from({ length: count }, (_, i) => ({ seq: from + i, code: 'log_corrupt', message, event: null })));
  ports.source.settle(from + count, { acked: 0, duplicates: 0, rejected: count });
  state.stepOver = true;
  return NONE;
}

function voidsBefore(ports: SenderPorts, state: State, from: number): Uint8Array[] {
  if (!state.stepOver || state.counted >= from) return [];
  const { head, base } = state.numbers ?? { head: ports.producer, base: 0 };
  return voidsOf(head, base, Math.max(state.counted, base), from, () => ports.newId());
}

/** Numbers to step over that are too many to go along with events. */
async function stepAhead(ports: SenderPorts, state: State, from: number, signal: AbortSignal): Promise<Pause> {
  const to = state.counted + MAX_VOIDS;
  const answer = await ports.post(bodyOf(voidsBefore(ports, state, to)).body, signal);
  if (answer.kind === 'settled') {
    state.counted = to;
    return NONE;
  }
  if (answer.kind === 'fenced') return renew(ports, state, from, answer.problem);
  ports.onProblem(answer.problem);
  return pause(ports, state, MAX_PAUSE_MS);
}

/** Goes on under a new producer id from `from` on. */
function renew(ports: SenderPorts, state: State, from: number, problem: Problem): Pause {
  ports.onProblem(problem);
  if (++state.renewals > MAX_RENEWALS) return pause(ports, state, MAX_PAUSE_MS);
  state.numbers = { head: freshProducer((state.numbers?.head ?? ports.producer).id, ports.newId()), base: from };
  ports.saveNumbers(state.numbers);
  state.sent = from;
  state.counted = from;
  state.stepOver = false;
  state.triedStepping = false;
  return NONE;
}

/** Grows from one failure to the next, spread so that many senders do not come back together. */
function pause(ports: SenderPorts, state: State, maxMs: number): Pause {
  const longest = state.hurryTo > ports.source.settled() ? HURRIED_PAUSE_MS : maxMs;
  const ceiling = Math.min(longest, FIRST_PAUSE_MS * 2 ** Math.min(state.pauses++, 16));
  return { ms: Math.ceil(ceiling * (0.5 + ports.random.next() / 2)), isAsked: false };
}
