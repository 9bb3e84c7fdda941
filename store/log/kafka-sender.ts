/**
 * Appends to one Kafka partition. What must hold whatever the client library (measured under faults: neither JavaScript client is safe with more):
 * exactly one produce request is in flight, what arrives meanwhile is joined into the next one; every request has a deadline of ours; the answer is
 * checked; a request without a good answer is unclear, and then its client is closed and a new one made before anything else is sent.
 */
import type { ByteBudget } from '../../base/byte-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { LogRecord } from './event-log.ts';
import type { KafkaClient, KafkaCompression } from './kafka-client.ts';

export type SenderOptions = {
  readonly topic: string;
  readonly partition: number;
  /** Makes a client of its own: it is closed when an answer is missing. */
  readonly connect: () => Promise<KafkaClient>;
  readonly compression: KafkaCompression;
  /** Appends are joined into one request up to this many bytes; a longer append is sent in parts. */
  readonly joinBytes: number;
  readonly deadlineMs: number;
  readonly clock: Clock;
  /** Bytes that may wait or be in flight, over all partitions. */
  readonly budget: ByteBudget;
};

export type Sender = {
  append(records: readonly LogRecord[], signal?: AbortSignal): Promise<number>;
  /** Lets the queue run empty for at most `waitMs`, then fails what is left with `closed`. */
  close(waitMs: number): Promise<void>;
};

type Pending = {
  readonly records: readonly LogRecord[];
  readonly bytes: number;
  readonly resolve: (first: number) => void;
  readonly reject: (error: unknown) => void;
};

/** Headers of a record in a batch, at most. */
const RECORD_OVERHEAD_BYTES = 24;
/** A client that was told to close sends nothing more, whether or not its connections have ended. */
const CLOSE_MS = 2000;
/** After a failure appends are refused for this long, then the brokers are asked again. */
const PAUSE_MS = { first: 100, longest: 2000 };

export function createSender(options: SenderOptions): Sender {
  const { clock, budget } = options;
  let queue: Pending[] = [];
  let client: KafkaClient | null = null;
  let pumping: Promise<void> | null = null;
  let closed = false;
  let pause = { until: 0, ms: 0 };

  const drop = async (): Promise<void> => {
    const dropped = client;
    client = null;
    pause = { ms: Math.min(PAUSE_MS.longest, pause.ms === 0 ? PAUSE_MS.first : pause.ms * 2), until: 0 };
    pause.until = clock.monotonicMs() + pause.ms;
    if (dropped === null) return;
    await withDeadline(clock, CLOSE_MS, 'a Kafka client to close', () => dropped.close()).catch(() => {});
  };

  /** Sends one request and returns the offset of its first record. */
  const send = async (records: readonly LogRecord[]): Promise<number> => {
    const { topic, partition, compression } = options;
    if (client === null && clock.monotonicMs() < pause.until) {
      throw new TapedeckError('log_unavailable', `Kafka does not answer; trying again within ${pause.ms} ms`, {
        details: { topic, partition },
      });
    }
    try {
      const answers = await withDeadline(clock, options.deadlineMs, `Kafka to store records of ${topic}/${partition}`, async (signal) => {
        client ??= await connectUnlessLate(options.connect, signal);
        return client.produce({ topic, partition, records, compression });
      });
      const [answer] = answers;
      if (answers.length !== 1 || answer?.partition !== partition || !(answer.offset >= 0))
        throw new Error('the answer does not cover the partition');
      pause = { until: 0, ms: 0 };
      return answer.offset;
    } catch (error) {
      if (isTapedeckError(error, 'record_too_large')) throw error;
      await drop();
      throw isTapedeckError(error, 'log_unavailable') ? error : unclear(error);
    }
  };

  const pump = async (): Promise<void> => {
    await new Promise(setImmediate);
    while (queue.length > 0) {
      const group = takeGroup(queue, options.joinBytes);
      queue = queue.slice(group.length);
      await sendTogether(group, options.joinBytes, send);
    }
    pumping = null;
  };

  return {
    append: async (records, signal) => {
      if (closed) throw new TapedeckError('closed', 'the log is closed');
      if (signal?.aborted) throw aborted(signal);
      const bytes = records.reduce((sum, record) => sum + recordBytes(record), 0);
      const release = budget.tryTake(bytes);
      if (release === null) throw overloaded(budget);
      let onAbort = (): void => {};
      try {
        return await new Promise<number>((resolve, reject) => {
          const pending: Pending = { records, bytes, resolve, reject };
          queue.push(pending);
          onAbort = () => {
            const waits = queue.includes(pending);
            queue = queue.filter((other) => other !== pending);
            reject(waits ? aborted(signal as AbortSignal) : unclear(signal?.reason));
          };
          signal?.addEventListener('abort', onAbort, { once: true });
          pumping ??= pump();
        });
      } finally {
        signal?.removeEventListener('abort', onAbort);
        release();
      }
    },
    close: async (waitMs) => {
      closed = true;
      const idle = pumping ?? Promise.resolve();
      await withDeadline(clock, waitMs, 'pending appends', () => idle).catch(() => {
        for (const pending of queue) pending.reject(new TapedeckError('closed', 'the log was closed before this append was sent'));
        queue = [];
      });
      await client?.close();
    },
  };
}

/** A client that is ready after the deadline must not send: its records were reported unclear already. */
async function connectUnlessLate(connect: () => Promise<KafkaClient>, signal: AbortSignal): Promise<KafkaClient> {
  const client = await connect();
  if (!signal.aborted) return client;
  await client.close();
  throw signal.reason;
}

/** The appends that go into the next request: as many as fit, at least one. */
function takeGroup(queue: readonly Pending[], joinBytes: number): Pending[] {
  let bytes = 0;
  let count = 0;
  for (const pending of queue) {
    bytes += pending.bytes;
    if (count > 0 && bytes > joinBytes) break;
    count++;
  }
  return queue.slice(0, count);
}

async function sendTogether(
  group: readonly Pending[],
  joinBytes: number,
  send: (records: readonly LogRecord[]) => Promise<number>,
): Promise<void> {
  const records = group.length === 1 ? (group[0] as Pending).records : group.flatMap((pending) => pending.records);
  try {
    let offset = await sendInParts(records, joinBytes, send);
    for (const pending of group) {
      pending.resolve(offset);
      offset += pending.records.length;
    }
  } catch (error) {
    for (const pending of group) pending.reject(error);
  }
}

/** Sends an append that is too long for one request in several, one after the other; they must end up next to each other. */
async function sendInParts(
  records: readonly LogRecord[],
  joinBytes: number,
  send: (records: readonly LogRecord[]) => Promise<number>,
): Promise<number> {
  let first = -1;
  for (let start = 0; start < records.length;) {
    let end = start;
    let bytes = 0;
    do bytes += recordBytes(records[end++] as LogRecord);
    while (end < records.length && bytes + recordBytes(records[end] as LogRecord) <= joinBytes);
    const offset = await send(start === 0 && end === records.length ? records : records.slice(start, end)).catch((error: unknown) => {
      throw start === 0 ? error : unclear(error);
    });
    if (start === 0) first = offset;
    else if (offset !== first + start) throw unclear(new Error('another producer wrote between the parts of this append'));
    start = end;
  }
  return first;
}

function recordBytes(record: LogRecord): number {
  return record.key.length + record.value.length + RECORD_OVERHEAD_BYTES;
}

function unclear(cause: unknown): TapedeckError {
  if (isTapedeckError(cause, 'append_unclear')) return cause;
  return new TapedeckError('append_unclear', 'no good answer came: the records may or may not be in the log, send the same events again', {
    cause,
  });
}

function overloaded(budget: ByteBudget): TapedeckError {
  return new TapedeckError('overloaded', `${budget.used} bytes wait for Kafka, the limit is ${budget.limit}: send this again later`, {
    details: { limit: budget.limit },
  });
}

function aborted(signal: AbortSignal): TapedeckError {
  return new TapedeckError('aborted', 'aborted while waiting for its turn: nothing of this append was sent', { cause: signal.reason });
}
