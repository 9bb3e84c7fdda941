/**
 * The Kafka port over kafkajs 2.2.4 (the fallback). The only file that imports it. Its public face reads through consumer groups only, so reading from a
 * position uses its cluster object, which `Kafka` makes under a private symbol. The version is pinned exactly and no later one exists.
 */
import { createRequire } from 'node:module';
import { connect as connectPlain, isIP } from 'node:net';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import kafkajs from 'kafkajs';
import type { Cluster, ISocketFactoryArgs, Kafka, KafkaConfig, Producer } from 'kafkajs';
import { TapedeckError } from '../../base/errors.ts';
import type { StoredRecord } from './event-log.ts';
import { createFreeList } from './free-list.ts';
import type { FetchedPart, KafkaClient, KafkaConnection, TopicSpec } from './kafka-client.ts';
import { firstWithRecords, LONGEST_POLL_MS } from './kafka-fetched.ts';
import { tooFewBrokers } from './kafka-topic.ts';

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, logLevel } = kafkajs;
const CONNECT_TIMEOUT_MS = 3000;
const QUICK_RETRY = { retries: 2, initialRetryTime: 100, maxRetryTime: 1000 };
/** A produce request is retried until the caller's deadline closes the client: idempotence makes that safe within one client. */
const PRODUCE_RETRY = { retries: Number.MAX_SAFE_INTEGER, initialRetryTime: 100, maxRetryTime: 1000 };
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, zstd: CompressionTypes.ZSTD } as const;
const NO_BYTES = Buffer.alloc(0);

const compress = promisify(zstdCompress);
const inflate = promisify(zstdDecompress);
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder: { buffer: Buffer }) => compress(encoder.buffer),
  decompress: async (bytes: Buffer) => inflate(bytes),
});

/**
 * kafkajs looks at its queue of requests again at a time that, unless the broker throttles it, lies in the past: Node warns of it and takes it for 1 ms, for ever, with nothing in the queue.
 * A queue that holds nothing need not be looked at; whoever puts something into it makes sure that it is.
 */
type RequestQueue = { readonly pending: readonly unknown[]; scheduleCheckPendingRequests(): void };
const { prototype: requestQueue } = createRequire(import.meta.url)('kafkajs/src/network/requestQueue') as { prototype: RequestQueue };
const scheduleCheck = Reflect.get(requestQueue, 'scheduleCheckPendingRequests') as (this: RequestQueue) => void;
requestQueue.scheduleCheckPendingRequests = function (this: RequestQueue): void {
  if (this.pending.length > 0) scheduleCheck.call(this);
};

export async function connectKafkajs(connection: KafkaConnection): Promise<KafkaClient> {
  const sockets = createSocketGate();
  const kafka = new kafkajs.Kafka(kafkaConfig(connection, sockets.open, 0));
  const reading = new kafkajs.Kafka(kafkaConfig(connection, sockets.open, LONGEST_POLL_MS));
  let producer: { sender: Producer; ready: Promise<unknown> } | null = null;
  let closed = false;
  const readers = createFreeList(
    async () => {
      const cluster = clusterOf(reading);
      await cluster.connect();
      return cluster;
    },
    async (cluster) => cluster.disconnect(),
  );

  /** The producer, once the brokers have answered what must be known before anything is sent. */
  const readySender = async (topic: string): Promise<Producer> => {
    if (producer === null) {
      const sender = kafka.producer({
        idempotent: true,
        allowAutoTopicCreation: false,
        createPartitioner: () => (choice) => choice.message.partition ?? 0,
        retry: PRODUCE_RETRY,
      });
      producer = { sender, ready: readers.with(async (cluster) => cluster.addTargetTopic(topic)).then(async () => sender.connect()) };
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
      const messages = records.map(({ key, value }) => ({ partition, key: asBuffer(key), value: asBuffer(value) }));
      const answers = await sender.send({ topic, acks: -1, compression: CODECS[compression], messages }).catch((error: unknown) => {
        throw hasType(error, 'MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE') ? tooLarge(error) : error;
      });
      return answers.map((answer) => ({ partition: answer.partition, offset: Number(answer.baseOffset ?? -1) }));
    },

    fetch: async ({ topic, positions, maxBytes, maxWaitMs }) => {
      const leaders = await readers.with(async (cluster) => leadersOf(cluster, topic, positions));
      const requests = leaders.map(([nodeId, wanted]) =>
        readers.with(async (cluster) => {
          await cluster.addTargetTopic(topic);
          const broker = await cluster.findBroker({ nodeId });
          const partitions = wanted.map(({ partition, offset }) => ({ partition, fetchOffset: String(offset), maxBytes }));
          const answer = (await broker.fetch({
            isolationLevel: 0,
            maxWaitTime: maxWaitMs,
            minBytes: 1,
            maxBytes,
            topics: [{ topic, partitions }],
          })) as RawFetch;
          return (answer.responses[0]?.partitions ?? []).map((part) => readPart(part, wanted));
        }),
      );
      return firstWithRecords(requests).catch((error: unknown) => {
        throw hasType(error, 'OFFSET_OUT_OF_RANGE') ? outOfRange(error) : error;
      });
    },

    offsets: async (topic) =>
      readers.with(async (cluster) => {
        await cluster.addTargetTopic(topic);
        const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => ({ partition: partitionId }));
        const [firsts] = await cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning: true }]);
        const [ends] = await cluster.fetchTopicsOffset([{ topic, partitions, fromBeginning: false }]);
        return partitions
          .map(({ partition }) => partition)
          .toSorted((a, b) => a - b)
          .map((partition) => ({ first: offsetIn(firsts, partition), end: offsetIn(ends, partition) }));
      }),

    ensureTopic: async (spec) => ensureTopic(kafka, spec),

    close: async () => {
      closed = true;
      sockets.close();
      await Promise.allSettled([readers.close(), producer?.sender.disconnect()]);
    },
  };
}

function kafkaConfig(connection: KafkaConnection, openSocket: (args: ISocketFactoryArgs) => Socket, pollMs: number): KafkaConfig {
  const { brokers, clientId, tls, sasl, requestTimeoutMs = 5000, clientOptions } = connection;
  return {
    clientId,
    brokers: [...brokers],
    logLevel: logLevel.NOTHING,
    connectionTimeout: CONNECT_TIMEOUT_MS,
    requestTimeout: requestTimeoutMs + pollMs,
    retry: QUICK_RETRY,
    socketFactory: openSocket,
    ...(tls === undefined || tls === false ? {} : { ssl: tls }),
    ...(sasl === undefined ? {} : { sasl: saslOptions(sasl) }),
    ...clientOptions,
  };
}

function saslOptions({ mechanism, username, password }: NonNullable<KafkaConnection['sasl']>): NonNullable<KafkaConfig['sasl']> {
  const names = { PLAIN: 'plain', 'SCRAM-SHA-256': 'scram-sha-256', 'SCRAM-SHA-512': 'scram-sha-512' } as const;
  return { mechanism: names[mechanism], username, password } as NonNullable<KafkaConfig['sasl']>;
}

/** Opens the sockets of a client, and after `close` no more: kafkajs goes on retrying after a disconnect, and what it sends then must not arrive. */
function createSocketGate(): { open(this: void, args: ISocketFactoryArgs): Socket; close(): void } {
  const open = new Set<Socket>();
  let closed = false;
  return {
    open: ({ host, port, ssl, onConnect }) => {
      // A TypeError is one of the errors that kafkajs does not retry.
      if (closed) throw new TypeError('this Kafka client is closed');
      const name = isIP(host) === 0 ? { servername: host } : {};
      const socket = (ssl as unknown) ? connectTls({ host, port, ...name, ...ssl }, onConnect) : connectPlain({ host, port }, onConnect);
      socket.setKeepAlive(true, 60_000);
      open.add(socket);
      socket.on('close', () => open.delete(socket));
      return socket;
    },
    close: () => {
      closed = true;
      // kafkajs fails what is pending on an error of the socket, not on its end.
      for (const socket of open) socket.destroy(new Error('this Kafka client is closed'));
    },
  };
}

function clusterOf(kafka: Kafka): Cluster {
  const symbol = Object.getOwnPropertySymbols(kafka).find(({ description }) => description === 'private:Kafka:createCluster');
  if (symbol === undefined) throw new TapedeckError('internal', 'this kafkajs is not version 2.2.4');
  const create = (kafka as unknown as Record<symbol, (options: object) => Cluster>)[symbol] as (options: object) => Cluster;
  return create({ metadataMaxAge: 5000, allowAutoTopicCreation: false, isolationLevel: 0 });
}

type Position = { readonly partition: number; readonly offset: number };
type RawMessage = { offset: string; key: Buffer | null; value: Buffer | null; isControlRecord?: boolean };
type RawPart = { partition: number; highWatermark: string; messages: RawMessage[] };
type RawFetch = { responses: { partitions: RawPart[] }[] };

async function leadersOf(cluster: Cluster, topic: string, positions: readonly Position[]): Promise<[string, Position[]][]> {
  await cluster.addTargetTopic(topic);
  await cluster.refreshMetadataIfNecessary();
  const partitions = positions.map(({ partition }) => partition);
  const leaders = cluster.findLeaderForPartitions(topic, partitions);
  return Object.entries(leaders).map(([node, held]) => [node, positions.filter(({ partition }) => held.includes(partition))]);
}

function readPart(part: RawPart, wanted: readonly Position[]): FetchedPart {
  const from = wanted.find(({ partition }) => partition === part.partition)?.offset ?? 0;
  const records: StoredRecord[] = [];
  let next = from;
  for (const message of part.messages) {
    const offset = Number(message.offset);
    if (offset < from) continue;
    next = offset + 1;
    if (message.isControlRecord !== true) records.push({ offset, key: message.key ?? NO_BYTES, value: message.value ?? NO_BYTES });
  }
  return { partition: part.partition, records, next, end: Number(part.highWatermark) };
}

function offsetIn(answer: { partitions: { partition: number; offset: string }[] } | undefined, partition: number): number {
  return Number(answer?.partitions.find((part) => part.partition === partition)?.offset ?? 0);
}

async function ensureTopic(kafka: Kafka, spec: TopicSpec) {
  const { topic } = spec;
  const admin = kafka.admin({ retry: { ...QUICK_RETRY, retries: 5 } });
  await admin.connect();
  try {
    if (!(await admin.listTopics()).includes(topic)) {
      const configEntries = Object.entries(spec.configs).map(([name, value]) => ({ name, value }));
      const wanted = { topic, numPartitions: spec.partitions, replicationFactor: spec.replication, configEntries };
      await admin.createTopics({ waitForLeaders: false, topics: [wanted] }).catch((error: unknown) => {
        throw hasType(error, 'INVALID_REPLICATION_FACTOR') ? tooFewBrokers(spec, error) : error;
      });
    }
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
    });
    const partitions = topics[0]?.partitions ?? [];
    return {
      partitions: partitions.length,
      replication: Math.min(...partitions.map((partition) => partition.replicas.length)),
      configs: Object.fromEntries((resources[0]?.configEntries ?? []).map(({ configName, configValue }) => [configName, configValue])),
    };
  } finally {
    await admin.disconnect().catch(() => {});
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Whether the error, or one that caused it, is a protocol error of one of these types. */
/** Whether the error, what caused it, or one of several it stands for is of one of these types. */
function hasType(error: unknown, ...types: string[]): boolean {
  if (!(error instanceof Error)) return false;
  const { type = '', errors = [] } = error as { type?: string; errors?: readonly unknown[] };
  return types.includes(type) || [error.cause, ...errors].some((inner) => hasType(inner, ...types));
}

function tooLarge(cause: unknown): TapedeckError {
  return new TapedeckError('record_too_large', 'the broker refuses a batch of this size: raise max.message.bytes of the topic', { cause });
}

function outOfRange(cause: unknown): TapedeckError {
  return new TapedeckError('position_out_of_range', 'the topic does not hold that position', { cause });
}
