/** The Kafka port over @platformatic/kafka (the default client). The only file that imports it. */
import { isIP } from 'node:net';
import { Admin, Consumer, findErrorBy, Producer } from '@platformatic/kafka';
import type { AdminOptions, RecordsBatch } from '@platformatic/kafka';
import { TapedeckError } from '../../base/errors.ts';
import type { StoredRecord } from './event-log.ts';
import { createFreeList } from './free-list.ts';
import type { FetchedPart, KafkaClient, KafkaConnection, TopicDescription, TopicSpec } from './kafka-client.ts';
import { firstWithRecords, LONGEST_POLL_MS } from './kafka-fetched.ts';
import { tooFewBrokers } from './kafka-topic.ts';

const CONNECT_TIMEOUT_MS = 3000;
/** A produce request is retried until the caller's deadline closes the client: idempotence makes that safe within one client. */
const PRODUCE_RETRIES = 1_000_000;
const CONTROL_BATCH = 32;
const EARLIEST = -2n;
const LATEST = -1n;
const TOPIC_RESOURCE = 2;
const NO_BYTES = Buffer.alloc(0);

type Sender = Producer<Buffer, Buffer, Buffer, Buffer>;

export async function connectPlatformatic(connection: KafkaConnection): Promise<KafkaClient> {
  const base = baseOptions(connection);
  /** Set when a fetch failed: the leader may have moved. */
  let leadersStale = false;
  let producer: { sender: Sender; ready: Promise<unknown> } | null = null;
  let closed = false;
  const readers = createFreeList(
    () =>
      new Consumer({
        ...base,
        requestTimeout: base.requestTimeout + LONGEST_POLL_MS,
        retries: 0,
        groupId: 'none',
        minBytes: 1,
        isolationLevel: 0,
      }),
    async (consumer) => consumer.close(true),
  );

  /** The producer, once the brokers have answered what must be known before anything is sent. */
  const readySender = async (topic: string): Promise<Sender> => {
    if (producer === null) {
      const sender: Sender = new Producer({ ...base, idempotent: true, acks: -1, retries: PRODUCE_RETRIES, retryDelay: 100 });
      producer = { sender, ready: sender.metadata({ topics: [topic], retries: 2 }).then(async () => sender.initIdempotentProducer({})) };
    }
    const { sender, ready } = producer;
    try {
      await ready;
      if (closed) throw new Error('this Kafka client is closed');
      return sender;
    } catch (cause) {
      throw new TapedeckError('log_unavailable', 'no broker is ready to take records', { cause });
    }
  };

  return {
    produce: async ({ topic, partition, records, compression }) => {
      const sender = await readySender(topic);
      const identity = sender.producerId;
      const { offsets } = await sender
        .send({
          compression,
          messages: records.map(({ key, value }) => ({ topic, partition, key: asBuffer(key), value: asBuffer(value) })),
        })
        .catch((error: unknown) => {
          if (hasApiError(error, 'MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE')) throw tooLarge(error);
          throw error;
        });
      // The library answers a lost producer state by sending again under a new identity: then the records may be there twice.
      if (sender.producerId !== identity) throw new Error('the producer changed its identity while sending');
      return (offsets ?? []).map((offset) => ({ partition: offset.partition, offset: Number(offset.offset) }));
    },

    fetch: async ({ topic, positions, maxBytes, maxWaitMs }) => {
      const leaders = await readers.with(async (consumer) => leadersOf(consumer, topic, positions, leadersStale));
      leadersStale = false;
      const requests = leaders.map((leader) => readers.with(async (consumer) => fetchFrom(consumer, topic, leader, maxBytes, maxWaitMs)));
      return firstWithRecords(requests).catch((error: unknown) => {
        leadersStale = true;
        if (hasApiError(error, 'OFFSET_OUT_OF_RANGE')) throw outOfRange(error);
        throw error;
      });
    },

    offsets: async (topic) =>
      readers.with(async (consumer) => {
        consumer.topics.track(topic);
        const firsts = (await consumer.listOffsets({ topics: [topic], timestamp: EARLIEST })).get(topic) ?? [];
        const ends = (await consumer.listOffsets({ topics: [topic], timestamp: LATEST })).get(topic) ?? [];
        return ends.map((end, partition) => ({ first: Number(firsts[partition] ?? 0n), end: Number(end) }));
      }),

    ensureTopic: async (spec) => ensureTopic(base, spec),

    close: async () => {
      closed = true;
      await Promise.allSettled([readers.close(), producer?.sender.close(true)]);
    },
  };
}

function baseOptions({
  brokers,
  clientId,
  tls,
  sasl,
  requestTimeoutMs = 5000,
  clientOptions,
}: KafkaConnection): AdminOptions & { requestTimeout: number } {
  return {
    clientId,
    bootstrapBrokers: [...brokers],
    connectTimeout: CONNECT_TIMEOUT_MS,
    timeout: requestTimeoutMs,
    requestTimeout: requestTimeoutMs,
    autocreateTopics: false,
    ...(tls === undefined || tls === false ? {} : { tls: tls === true ? {} : tls, tlsServerName: hasNames(brokers) }),
    ...(sasl === undefined ? {} : { sasl }),
    ...clientOptions,
  };
}

/** TLS names the server it wants only by name, never by address (RFC 6066). */
function hasNames(brokers: readonly string[]): boolean {
  return brokers.some((broker) => isIP(broker.slice(0, broker.lastIndexOf(':')).replaceAll(/[[\]]/g, '')) === 0);
}

type Position = { readonly partition: number; readonly offset: number };

type Leader = { readonly node: number; readonly topicId: string; readonly wanted: Position[] };

async function fetchFrom(consumer: Consumer, topic: string, leader: Leader, maxBytes: number, maxWaitMs: number): Promise<FetchedPart[]> {
  const { node, topicId, wanted } = leader;
  consumer.topics.track(topic);
  const answer = await consumer.fetch({
    node,
    maxWaitTime: maxWaitMs,
    minBytes: 1,
    maxBytes,
    topics: [fetchTopic(topicId, wanted, maxBytes)],
  });
  return (answer.responses[0]?.partitions ?? []).map((part) => {
    const from = wanted.find(({ partition }) => partition === part.partitionIndex)?.offset ?? 0;
    return { partition: part.partitionIndex, ...readBatches(part.records ?? [], from), end: Number(part.highWatermark) };
  });
}

async function leadersOf(consumer: Consumer, topic: string, positions: readonly Position[], forceUpdate: boolean): Promise<Leader[]> {
  const metadata = await consumer.metadata({ topics: [topic], forceUpdate });
  const found = metadata.topics.get(topic);
  const byNode = new Map<number, Leader>();
  for (const position of positions) {
    const node = found?.partitions[position.partition]?.leader ?? -1;
    if (found === undefined || node < 0)
      throw new TapedeckError('log_unavailable', `partition ${position.partition} of ${topic} has no leader`);
    const group = byNode.get(node) ?? { node, topicId: found.id, wanted: [] };
    group.wanted.push(position);
    byNode.set(node, group);
  }
  return [...byNode.values()];
}

function fetchTopic(topicId: string, wanted: readonly Position[], maxBytes: number) {
  return {
    topicId,
    partitions: wanted.map(({ partition, offset }) => ({
      partition,
      currentLeaderEpoch: -1,
      fetchOffset: BigInt(offset),
      lastFetchedEpoch: -1,
      partitionMaxBytes: maxBytes,
    })),
  };
}

function readBatches(batches: readonly RecordsBatch[], from: number): { records: StoredRecord[]; next: number } {
  const records: StoredRecord[] = [];
  let next = from;
  for (const batch of batches) {
    const first = Number(batch.firstOffset);
    if ((batch.attributes & CONTROL_BATCH) === 0) {
      for (const record of batch.records) {
        const offset = first + record.offsetDelta;
        if (offset >= from) records.push({ offset, key: record.key ?? NO_BYTES, value: record.value ?? NO_BYTES });
      }
    }
    next = Math.max(next, first + batch.lastOffsetDelta + 1);
  }
  return { records, next };
}

async function ensureTopic(base: AdminOptions, spec: TopicSpec): Promise<TopicDescription> {
  const admin = new Admin({ ...base, retries: 3, retryDelay: 250 });
  try {
    const names = await admin.listTopics();
    if (!names.includes(spec.topic)) {
      await admin
        .createTopics({
          topics: [spec.topic],
          partitions: spec.partitions,
          replicas: spec.replication,
          configs: Object.entries(spec.configs).map(([name, value]) => ({ name, value })),
        })
        .catch((error: unknown) => {
          if (hasApiError(error, 'INVALID_REPLICATION_FACTOR')) throw tooFewBrokers(spec, error);
          if (!hasApiError(error, 'TOPIC_ALREADY_EXISTS')) throw error;
        });
    }
    return await describe(admin, spec.topic);
  } finally {
    admin.close(() => {});
  }
}

async function describe(admin: Admin, topic: string): Promise<TopicDescription> {
  const metadata = await admin.metadata({ topics: [topic], forceUpdate: true, retries: 10 });
  const partitions = metadata.topics.get(topic)?.partitions ?? [];
  const [described] = await admin.describeConfigs({
    resources: [{ resourceType: TOPIC_RESOURCE, resourceName: topic, configurationKeys: null }],
  });
  return {
    partitions: partitions.length,
    replication: Math.min(...partitions.map((partition) => partition.replicas.length)),
    configs: Object.fromEntries((described?.configs ?? []).map(({ name, value }) => [name, value ?? null])),
  };
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

function hasApiError(error: unknown, ...ids: string[]): boolean {
  return ids.some((id) => findErrorBy(error as Error, 'apiId', id) !== null);
}

function tooLarge(cause: unknown): TapedeckError {
  return new TapedeckError('record_too_large', 'the broker refuses a batch of this size: raise max.message.bytes of the topic', { cause });
}

function outOfRange(cause: unknown): TapedeckError {
  return new TapedeckError('position_out_of_range', 'the topic does not hold that position', { cause });
}
