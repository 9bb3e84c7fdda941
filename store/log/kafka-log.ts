/**
 * The log on Kafka. The topic is created or checked when it is opened (kafka-topic.ts); appends go through one sender per partition (kafka-sender.ts),
 * each with a client of its own, so that a client that failed is thrown away without touching other partitions; reads go by offset without consumer groups
 * (kafka-reader.ts). After an outage it recovers by itself; meanwhile appends are `log_unavailable` (nothing was sent) or `append_unclear`.
 */
import { ByteBudget } from '../../base/byte-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { systemRandom } from '../../base/random.ts';
import type { Random } from '../../base/random.ts';
import type { EventLog } from './event-log.ts';
import type { KafkaClient, KafkaCompression } from './kafka-client.ts';
import { patiently } from './kafka-patience.ts';
import { createKafkaReader } from './kafka-reader.ts';
import { createSender } from './kafka-sender.ts';
import { checkTopic, topicSpec } from './kafka-topic.ts';
import { checkPartition, checkRecordSizes } from './record-checks.ts';

export type KafkaLogOptions = {
  /** Makes a client; called for every partition that is written, and again after a failure. */
  readonly connect: () => Promise<KafkaClient>;
  readonly topic: string;
  readonly partitions: number;
  readonly replication: number;
  readonly minIsr: number;
  /** How long the topic keeps records, milliseconds; -1 (default) = for ever. A topic that keeps less is refused. */
  readonly retentionMs?: number;
  /** Key and value of one record together. */
  readonly maxRecordBytes: number;
  /** Compression of batches on the wire and in the topic. Default none. */
  readonly compression?: KafkaCompression;
  /** How long an append may wait for its answer before it is `append_unclear`. Default 20,000. */
  readonly appendDeadlineMs?: number;
  /** How long reads put up with failing brokers before `log_unavailable`. Default 5,000. */
  readonly readPatienceMs?: number;
  /** How long opening puts up with failing brokers. Default 20,000. */
  readonly openPatienceMs?: number;
  /** Bytes of appends that may wait or be in flight; more are `overloaded`. Default 64 MiB. */
  readonly maxPendingBytes?: number;
  readonly clock: Clock;
  /** For the pauses between attempts. Default: the system's. */
  readonly random?: Random;
};

/** A little less than what brokers take by default, so that headers fit. */
const JOIN_BYTES = 900_000;
const ANSWER_MS = 8000;
/** Creating and describing a topic is several requests. */
const TOPIC_MS = 20_000;

/** Opens the log. Throws `log_unavailable` when no broker answers, `partition_count_changed`, `topic_misconfigured`. */
export async function openKafkaLog(options: KafkaLogOptions): Promise<EventLog> {
  const { clock, topic, partitions, maxRecordBytes } = options;
  const appendDeadlineMs = options.appendDeadlineMs ?? 20_000;
  const random = options.random ?? systemRandom;
  const reading = await openTopic(options, random);
  const closing = new AbortController();
  const budget = new ByteBudget(options.maxPendingBytes ?? 64 * 1024 * 1024);
  const reader = createKafkaReader({
    topic,
    client: reading,
    clock,
    random,
    answerMs: ANSWER_MS,
    patienceMs: options.readPatienceMs ?? 5000,
    closing: closing.signal,
  });
  // A topic that was just created may have no leaders yet: it is open when every partition answers.
  await reader.offsets().catch(async (error: unknown) => {
    await reading.close();
    throw error;
  });
  const senders = Array.from({ length: partitions }, (_, partition) =>
    createSender({
      topic,
      partition,
      connect: options.connect,
      compression: options.compression ?? 'none',
      joinBytes: JOIN_BYTES,
      deadlineMs: appendDeadlineMs,
      clock,
      budget,
    }),
  );
  let closed: Promise<void> | null = null;
  const checkOpen = (): void => {
    if (closed !== null) throw new TapedeckError('closed', 'the log is closed');
  };

  return {
    partitions,
    append: async (partition, records, signal) => {
      checkOpen();
      checkPartition(partition, partitions);
      if (records.length === 0) return { first: (await reader.offsets(signal))[partition]?.end ?? 0 };
      checkRecordSizes(records, maxRecordBytes);
      return { first: await (senders[partition] as (typeof senders)[number]).append(records, signal) };
    },
    read: async (partition, from, { maxBytes, waitMs = 0, signal }) => {
      checkOpen();
      checkPartition(partition, partitions);
      return reader.read(partition, from, { maxBytes, waitMs, signal });
    },
    positions: async (signal) => {
      checkOpen();
      return reader.offsets(signal);
    },
    waitForAppend: async (after, waitMs, signal) => {
      checkOpen();
      return reader.waitForAppend(after, waitMs, signal);
    },
    sizeBytes: async () => null,
    close: () => {
      closed ??= (async () => {
        closing.abort();
        await Promise.all(senders.map(async (sender) => sender.close(appendDeadlineMs)));
        await reading.close();
      })();
      return closed;
    },
  };
}

/** Creates or checks the topic, and returns the client that did it. */
async function openTopic(options: KafkaLogOptions, random: Random): Promise<KafkaClient> {
  const rules = { ...options, retentionMs: options.retentionMs ?? -1 };
  const client = await options.connect();
  const patience = {
    clock: options.clock,
    random,
    answerMs: TOPIC_MS,
    patienceMs: options.openPatienceMs ?? TOPIC_MS,
    signal: new AbortController().signal,
  };
  try {
    checkTopic(rules, await patiently(`a description of topic ${options.topic}`, patience, () => client.ensureTopic(topicSpec(rules))));
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}
