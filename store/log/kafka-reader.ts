/** Reads a Kafka topic by position: long polls at the broker, whole batches cut to the bytes asked for, and patience while a leader moves. */
import type { Clock } from '../../base/clock.ts';
import { withLinkedSignal } from '../../base/linked-signal.ts';
import type { Random } from '../../base/random.ts';
import type { LogChunk, StoredRecord } from './event-log.ts';
import type { FetchedPart, KafkaClient } from './kafka-client.ts';
import { LONGEST_POLL_MS } from './kafka-fetched.ts';
import { patiently } from './kafka-patience.ts';

export type ReaderOptions = {
  readonly topic: string;
  readonly client: KafkaClient;
  readonly clock: Clock;
  readonly random: Random;
  /** How long a request may take beyond the time that it is asked to wait. */
  readonly answerMs: number;
  /** How long brokers may fail before a read gives up with `log_unavailable`. */
  readonly patienceMs: number;
  /** Aborts when the log closes: waiting reads then end with nothing. */
  readonly closing: AbortSignal;
};

export type KafkaReader = {
  read(partition: number, from: number, limits: { maxBytes: number; waitMs: number; signal: AbortSignal | undefined }): Promise<LogChunk>;
  offsets(signal?: AbortSignal): Promise<readonly { first: number; end: number }[]>;
  waitForAppend(after: readonly number[], waitMs: number, signal?: AbortSignal): Promise<boolean>;
};

const SMALLEST_FETCH_BYTES = 64 * 1024;

type Fetched = { readonly records: readonly StoredRecord[]; readonly next: number; readonly end: number };

export function createKafkaReader(options: ReaderOptions): KafkaReader {
  const { client, clock, topic, closing } = options;
  /** What a fetch brought beyond what was asked for, per partition and the offset where it begins. */
  const ahead = new Map<number, { from: number } & Fetched>();

  const ask = <T>(waitingFor: string, answerMs: number, signal: AbortSignal, request: () => Promise<T>): Promise<T> =>
    patiently(`${waitingFor} of ${topic}`, { clock, random: options.random, answerMs, patienceMs: options.patienceMs, signal }, request);

  const fetchFrom = (
    positions: readonly { partition: number; offset: number }[],
    maxBytes: number,
    waitMs: number,
    signal: AbortSignal,
  ) => {
    const maxWaitMs = Math.max(0, Math.min(waitMs, LONGEST_POLL_MS));
    return ask('records', maxWaitMs + options.answerMs, signal, () =>
      client.fetch({ topic, positions, maxBytes: Math.max(maxBytes, SMALLEST_FETCH_BYTES), maxWaitMs }),
    );
  };

  const read = async (partition: number, from: number, maxBytes: number, waitMs: number, signal: AbortSignal): Promise<LogChunk> => {
    const held = ahead.get(partition);
    if (held?.from === from) return cut(partition, held, maxBytes);
    ahead.delete(partition);
    const until = clock.monotonicMs() + waitMs;
    for (let offset = from; ;) {
      const left = until - clock.monotonicMs();
      const parts = await fetchFrom([{ partition, offset }], maxBytes, left, signal);
      const part = parts.find((found) => found.partition === partition) ?? { records: [], next: offset, end: offset };
      if (part.records.length > 0) return cut(partition, part, maxBytes);
      // Nothing but control records, or the time is over.
      if (part.next === offset && left <= 0) return { records: [], next: offset, end: Math.max(part.end, offset) };
      offset = part.next;
    }
  };

  /** Gives out what fits and keeps the rest for the read that goes on there. */
  const cut = (partition: number, part: Fetched, maxBytes: number): LogChunk => {
    let bytes = 0;
    let count = 0;
    for (const { key, value } of part.records) {
      bytes += key.length + value.length;
      if (count > 0 && bytes > maxBytes) break;
      count++;
    }
    ahead.delete(partition);
    if (count === part.records.length) return { records: part.records, next: part.next, end: part.end };
    const next = (part.records[count] as StoredRecord).offset;
    ahead.set(partition, { ...part, from: next, records: part.records.slice(count) });
    return { records: part.records.slice(0, count), next, end: part.end };
  };

  /** Keeps what woke a waiter for the read that follows. */
  const keep = (after: readonly number[], parts: readonly FetchedPart[]): void => {
    for (const part of parts) if (part.records.length > 0) ahead.set(part.partition, { ...part, from: after[part.partition] ?? 0 });
  };

  const waitForAppend = async (after: readonly number[], waitMs: number, signal: AbortSignal): Promise<boolean> => {
    const until = clock.monotonicMs() + waitMs;
    const positions = after.map((offset, partition) => ({ partition, offset }));
    if (positions.some(({ partition, offset }) => ahead.get(partition)?.from === offset)) return true;
    for (;;) {
      const left = until - clock.monotonicMs();
      const parts = await fetchFrom(positions, SMALLEST_FETCH_BYTES, left, signal);
      keep(after, parts);
      if (parts.some((part) => part.end > (after[part.partition] ?? 0))) return true;
      if (left <= 0) return false;
    }
  };

  /** A wait that ends because the log closes has this result. */
  const unlessClosing = <T>(ended: T, signal: AbortSignal | undefined, wait: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    withLinkedSignal([closing, signal], wait).catch((error: unknown) => {
      if (closing.aborted) return ended;
      throw error;
    });

  return {
    read: (partition, from, { maxBytes, waitMs, signal }) =>
      unlessClosing({ records: [], next: from, end: from }, signal, (stop) => read(partition, from, maxBytes, waitMs, stop)),
    offsets: (signal) =>
      withLinkedSignal([closing, signal], (stop) => ask('positions', options.answerMs, stop, () => client.offsets(topic))),
    waitForAppend: (after, waitMs, signal) => unlessClosing(false, signal, (stop) => waitForAppend(after, waitMs, stop)),
  };
}
