/**
 * Brokers for a test suite: those of TAPEDECK_KAFKA_BROKERS, else a container where Docker runs, else a broker from Maven jars. When none can be had
 * the answer says why, and the suite skips with that reason.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { missingForJars } from '../maven-jars.ts';
import { startKraftCluster } from './kraft-cluster.ts';

export type TestBroker = {
  readonly brokers: readonly string[];
  /** Where it came from, for people. */
  readonly source: string;
  /** Replicas that its topics can have. */
  readonly replication: number;
  stop(): Promise<void>;
};

const run = promisify(execFile);
const IMAGE = 'apache/kafka:4.1.0';

/** One broker. A string is the reason why there is none. */
export async function startTestBroker(): Promise<TestBroker | string> {
  const named = process.env['TAPEDECK_KAFKA_BROKERS'];
  if (named !== undefined && named !== '') {
    return { brokers: named.split(','), source: 'TAPEDECK_KAFKA_BROKERS', replication: 1, stop: async () => {} };
  }
  if (await dockerRuns()) return startContainer();
  const missing = await missingForJars();
  if (missing !== null) return `no Kafka: TAPEDECK_KAFKA_BROKERS is not set, Docker does not run, ${missing}`;
  const cluster = await startKraftCluster({ nodes: 1 });
  return { brokers: cluster.brokers, source: 'Maven jars', replication: 1, stop: () => cluster.stop() };
}

/** Why no cluster of our own (whose nodes can be killed) can be started, or null. */
export async function missingForCluster(): Promise<string | null> {
  const missing = await missingForJars();
  return missing === null ? null : `no Kafka nodes of our own to harm: ${missing}`;
}

async function dockerRuns(): Promise<boolean> {
  return run('docker', ['info'], { timeout: 5000 }).then(
    () => true,
    () => false,
  );
}

async function startContainer(): Promise<TestBroker> {
  const { GenericContainer, Wait } = await import('testcontainers');
  // The port that clients use must be known before the broker starts: it advertises it.
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const container = await new GenericContainer(IMAGE)
    .withExposedPorts({ container: 9092, host: port })
    .withEnvironment({
      KAFKA_NODE_ID: '1',
      KAFKA_PROCESS_ROLES: 'broker,controller',
      KAFKA_LISTENERS: 'PLAINTEXT://:9092,CONTROLLER://:9093',
      KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${port}`,
      KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
      KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
    })
    .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
    .withStartupTimeout(120_000)
    .start();
  return {
    brokers: [`127.0.0.1:${port}`],
    source: `Docker (${IMAGE})`,
    replication: 1,
    stop: async () => void (await container.stop()),
  };
}
