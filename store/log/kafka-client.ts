/**
 * What the Kafka log needs of a client library: five methods, types only. Everything that must be right whatever the client (one request in flight, deadlines,
 * checks of answers, what is unclear) is in kafka-log.ts and kafka-sender.ts, not here. Implementations: platformatic-client.ts, kafkajs-client.ts.
 *
 * Errors: a method may throw `log_unavailable` (of `produce` this means: nothing was sent), `record_too_large` and `position_out_of_range`; whatever else
 * it throws means "no answer".
 */
import type { ConnectionOptions } from 'node:tls';
import type { LogRecord, StoredRecord } from './event-log.ts';

export type KafkaCompression = 'none' | 'gzip' | 'zstd';

export type KafkaConnection = {
  /** `host:port` of some brokers. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly tls?: boolean | ConnectionOptions | undefined;
  readonly sasl?:
    { readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512'; readonly username: string; readonly password: string } | undefined;
  /** How long one request may take before the client gives up on that connection. Default 5,000. */
  readonly requestTimeoutMs?: number;
  /** Options of the client library itself, given to it as they are. */
  readonly clientOptions?: Readonly<Record<string, unknown>>;
};

export type TopicSpec = {
  readonly topic: string;
  readonly partitions: number;
  readonly replication: number;
  readonly configs: Readonly<Record<string, string>>;
};

export type TopicDescription = {
  readonly partitions: number;
  /** The fewest replicas that any partition has. */
  readonly replication: number;
  readonly configs: Readonly<Record<string, string | null>>;
};

export type FetchedPart = {
  readonly partition: number;
  readonly records: readonly StoredRecord[];
  /** Where to go on: behind the last batch that was read, control batches included. */
  readonly next: number;
  readonly end: number;
};

export interface KafkaClient {
  /** Sends one batch to one partition with acks from all in-sync replicas and idempotence. Answers what the broker answered, unchecked. */
  produce(batch: {
    readonly topic: string;
    readonly partition: number;
    readonly records: readonly LogRecord[];
    readonly compression: KafkaCompression;
  }): Promise<readonly { readonly partition: number; readonly offset: number }[]>;

  /**
   * Reads from explicit positions without a consumer group. Waits at the broker up to `maxWaitMs` until one of the partitions has something, then answers those that
   * have (whole batches, so at least one batch even beyond `maxBytes`); a partition that has nothing is left out or empty.
   */
  fetch(request: {
    readonly topic: string;
    readonly positions: readonly { readonly partition: number; readonly offset: number }[];
    readonly maxBytes: number;
    readonly maxWaitMs: number;
  }): Promise<readonly FetchedPart[]>;

  /** First kept offset and end of every partition, in order. */
  offsets(topic: string): Promise<readonly { readonly first: number; readonly end: number }[]>;

  /** Creates the topic when it is not there, and describes what is there then. */
  ensureTopic(spec: TopicSpec): Promise<TopicDescription>;

  /** Drops all connections; nothing is sent or retried after this returns. Never rejects. */
  close(): Promise<void>;
}
