/** Both clients against one real broker: TLS and SASL, compression, each reading what the other wrote, foreign topics, control batches, the example. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import kafkajs from 'kafkajs';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import type { KafkaConnection } from '../../store/log/kafka-client.ts';
import { openKafkaLog } from '../../store/log/kafka-log.ts';
import type { KafkaLogOptions } from '../../store/log/kafka-log.ts';
import { CLIENTS } from '../../store/log/kafka-log.fixture.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { startKraftCluster } from './kraft-cluster.ts';
import type { KraftCluster } from './kraft-cluster.ts';
import { missingForCluster } from './test-broker.ts';

type ClientName = keyof typeof CLIENTS;
const NAMES = ['platformatic', 'kafkajs'] as const;
const OTHER = { platformatic: 'kafkajs', kafkajs: 'platformatic' } as const;
const missing = await missingForCluster();

test('a Kafka node can be had', { skip: missing ?? false }, () => {});

describe('Kafka clients', { skip: missing ?? false }, () => {
  let cluster: KraftCluster;
  const opened: EventLog[] = [];
  before(async () => {
    cluster = await startKraftCluster({ nodes: 1, users: { recorder: 'correct-horse' } });
  });
  after(async () => {
    await Promise.all(opened.map(async (log) => log.close()));
    await cluster.stop();
  });

  const open = async (
    client: ClientName,
    topic: string,
    options: Partial<KafkaLogOptions> = {},
    connection: Partial<KafkaConnection> = {},
  ) => {
    const log = await openKafkaLog({
      connect: () => CLIENTS[client]({ brokers: cluster.brokers, clientId: 'clients', ...connection }),
      topic,
      partitions: 1,
      replication: 1,
      minIsr: 1,
      maxRecordBytes: 65_536,
      clock: systemClock,
      ...options,
    });
    opened.push(log);
    return log;
  };
  const secure = (password: string, mechanism: 'PLAIN' | 'SCRAM-SHA-256', trust = true): Partial<KafkaConnection> => ({
    brokers: [cluster.secure?.broker as string],
    tls: trust ? { ca: cluster.secure?.certificate as string } : true,
    sasl: { mechanism, username: 'recorder', password },
  });

  for (const client of NAMES) {
    test(`${client}: TLS with SASL; a wrong password and an unknown certificate are refused`, { timeout: 60_000 }, async () => {
      for (const mechanism of ['PLAIN', 'SCRAM-SHA-256'] as const) {
        const log = await open(client, `secure-${client}-${mechanism}`, {}, secure('correct-horse', mechanism));
        await log.append(0, [record('over TLS')]);
        assert.deepEqual(await valuesOf(log), ['over TLS']);
      }
      const impatient = { openPatienceMs: 300 };
      for (const connection of [secure('wrong', 'PLAIN'), secure('correct-horse', 'PLAIN', false)]) {
        await assert.rejects(open(client, `secure-${client}-PLAIN`, impatient, connection), (error) =>
          isTapedeckError(error, 'log_unavailable'),
        );
      }
    });

    for (const compression of ['none', 'gzip', 'zstd'] as const) {
      test(`${client} writes with compression ${compression}, ${OTHER[client]} reads`, { timeout: 60_000 }, async () => {
        const topic = `compressed-${client}-${compression}`;
        const writer = await open(client, topic, { compression });
        const values = Array.from({ length: 200 }, (_, i) => `${i} `.padEnd(1 + i * 7, 'again and again '));
        for (let i = 0; i < values.length; i += 50) await writer.append(0, values.slice(i, i + 50).map(record));
        assert.deepEqual(await valuesOf(await open(OTHER[client], topic)), values);
      });
    }

    test(`${client} says that a topic needs more brokers than there are`, { timeout: 60_000 }, async () => {
      await assert.rejects(open(client, `thrice-${client}`, { openPatienceMs: 300, replication: 3 }), (error) => {
        assert.ok(isTapedeckError(error, 'log_unavailable'));
        assert.match(error.message, /3 replicas.*TAPEDECK_KAFKA_REPLICATION/);
        return true;
      });
    });

    test(`${client} refuses a topic that would lose data, and skips control batches`, { timeout: 60_000 }, async () => {
      const topic = `foreign-${client}`;
      await foreignTopic(cluster.brokers, topic);
      await assert.rejects(open(client, topic), (error) => {
        assert.ok(isTapedeckError(error, 'topic_misconfigured'));
        assert.deepEqual(error.details['settings'], ['cleanup.policy', 'retention.ms']);
        return true;
      });
      const plain = `transactions-${client}`;
      const log = await open(client, plain);
      await log.append(0, [record('first')]);
      await inTransaction(cluster.brokers, plain, ['second', 'third']);
      // The marker of the commit is written a moment after its answer.
      await log.waitForAppend([3], 10_000);
      await log.append(0, [record('fourth')]);
      const records = await readAll(log);
      assert.deepEqual(
        records.map(({ value }) => Buffer.from(value).toString()),
        ['first', 'second', 'third', 'fourth'],
      );
      assert.deepEqual(
        records.map(({ offset }) => offset),
        [0, 1, 2, 4],
      );
    });
  }

  test('the example reads the events of our topic', { timeout: 90_000 }, async () => {
    const log = await open('platformatic', 'tapedeck.events', { partitions: 4 });
    for (const [i, rollout] of ['r-1', 'r-2', 'r-3'].entries()) {
      const id = `0198c0de-0000-7000-8000-00000000000${i}`;
      const value = encodeEvent({
        v: 1,
        id,
        type: 'note.added',
        run: 'run-1',
        rollout,
        time: 1_760_000_000_000_000,
        data: { text: 'hello' },
      });
      const key = Buffer.from(rollout);
      // Sent twice, as a client does that missed the answer.
      await log.append(partitionOf(key, 4), [
        { key, value },
        { key, value },
      ]);
    }
    const script = fileURLToPath(new URL('../../examples/consume-topic.ts', import.meta.url));
    const example = spawn(process.execPath, [script, '--brokers', cluster.brokers.join(','), '--limit', '3'], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    example.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()));
    assert.deepEqual((await once(example, 'close'))[0], 0);
    const lines = output.trim().split('\n');
    assert.equal(lines.length, 3);
    for (const rollout of ['r-1', 'r-2', 'r-3']) assert.equal(lines.filter((line) => line.includes(` note.added ${rollout} `)).length, 1);
  });
});

function record(value: string): LogRecord {
  return { key: Buffer.from('k'), value: Buffer.from(value) };
}

async function readAll(log: EventLog) {
  const { end } = (await log.positions())[0] as { end: number };
  const records = [];
  for (let at = 0; at < end;) {
    const chunk = await log.read(0, at, { maxBytes: 20_000 });
    records.push(...chunk.records);
    at = chunk.next;
  }
  return records;
}

async function valuesOf(log: EventLog): Promise<string[]> {
  return (await readAll(log)).map(({ value }) => Buffer.from(value).toString());
}

function foreignClient(brokers: readonly string[]): kafkajs.Kafka {
  return new kafkajs.Kafka({ clientId: 'foreign', brokers: [...brokers], logLevel: kafkajs.logLevel.NOTHING });
}

/** A topic as somebody else might have made it. */
async function foreignTopic(brokers: readonly string[], topic: string): Promise<void> {
  const admin = foreignClient(brokers).admin();
  await admin.connect();
  const configEntries = [
    { name: 'cleanup.policy', value: 'compact' },
    { name: 'retention.ms', value: '604800000' },
  ];
  await admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries }] });
  await admin.disconnect();
}

async function inTransaction(brokers: readonly string[], topic: string, values: readonly string[]): Promise<void> {
  const producer = foreignClient(brokers).producer({ transactionalId: `by-${topic}`, idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: values.map((value) => ({ key: 'k', value, partition: 0 })) });
  await transaction.commit();
  await producer.disconnect();
}
