/**
 * The crash campaign over Kafka: a ledger client writes with retries while nodes of a cluster of three, the server and its children are killed in turn, also together, and while
 * a node is stopped. Afterwards every acknowledged event is there exactly once, none is changed, the audit passes and a rebuild gives the same answers. An answer that got lost
 * between broker and server may leave an event in the log twice: that changes no answer. TAPEDECK_KILLS sets the number of kills (default 8), TAPEDECK_SEED replays a run.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../base/random.ts';
import { startKraftCluster, type KraftCluster } from './kafka/kraft-cluster.ts';
import { missingForCluster } from './kafka/test-broker.ts';
import { LedgerClient } from './ledger-client.ts';
import { audit, caughtUp, provesLedger, rebuiltEqual } from './proof.ts';
import { engineOf, projectorOf, startServer, temporaryFolder, type TestServer } from './server.ts';
import { Workload } from './workload.ts';

const NODES = 3;
const VICTIMS = [
  'a node',
  'the server',
  'all nodes',
  'the projector',
  'a node and the server',
  'a stopped node',
  'the engine',
  'everything',
] as const;
type Victim = (typeof VICTIMS)[number];

const KILLS = Number(process.env['TAPEDECK_KILLS'] ?? VICTIMS.length);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const PORT = 20_000 + (process.pid % 20_000);
const skip = (await missingForCluster()) ?? false;

describe(`crash campaign over Kafka, seed ${SEED}`, { skip }, () => {
  const folder = temporaryFolder('crash-kafka');
  const random = seededRandom(SEED);
  const writing = new AbortController();
  const workload = new Workload(SEED);
  const client = new LedgerClient(() => `http://127.0.0.1:${PORT}`);
  let cluster: KraftCluster;
  let server: TestServer;
  let writers: Promise<void>[] = [];

  const settings = (): Record<string, string> => ({
    TAPEDECK_DATA: folder.path,
    TAPEDECK_PORT: String(PORT),
    TAPEDECK_BLOCK_WAIT_MS: '50',
    TAPEDECK_LOG: 'kafka',
    TAPEDECK_KAFKA_BROKERS: cluster.brokers.join(','),
    TAPEDECK_KAFKA_TOPIC_PREFIX: 'crash',
  });
  const start = async (): Promise<void> => {
    server = await startServer(settings(), { listenMs: 120_000 });
  };
  const write = async (): Promise<void> => {
    while (!writing.signal.aborted) {
      await client.send(workload.rollout(4, 24), writing.signal);
      await sleep(10);
    }
  };
  const killNodes = (ids: readonly number[]): Promise<unknown> => Promise.all(ids.map((id) => cluster.kill(id)));
  const startNodes = (ids: readonly number[]): Promise<unknown> => Promise.all(ids.map((id) => cluster.start(id)));

  const harm: Record<Victim, () => Promise<unknown>> = {
    'a node': async () => {
      const id = 1 + Math.floor(random.next() * NODES);
      await cluster.kill(id);
      await sleep(random.next() * 2_000);
      await cluster.start(id);
    },
    'the server': () => server.kill().then(start),
    'all nodes': async () => {
      const ids = Array.from({ length: NODES }, (_, i) => i + 1);
      await killNodes(ids);
      await sleep(random.next() * 2_000);
      const answer = await fetch(`http://127.0.0.1:${PORT}/readyz`);
      await answer.text();
      await startNodes(ids);
    },
    'the projector': async () => process.kill(projectorOf(server), 'SIGKILL'),
    'a node and the server': async () => {
      const id = 1 + Math.floor(random.next() * NODES);
      await Promise.all([cluster.kill(id), server.kill()]);
      await Promise.all([cluster.start(id), start()]);
    },
    'a stopped node': async () => {
      const id = 1 + Math.floor(random.next() * NODES);
      cluster.pause(id);
      await sleep(2_000 + random.next() * 8_000);
      cluster.resume(id);
    },
    'the engine': async () => {
      await server.ready(180_000);
      process.kill(engineOf(server), 'SIGKILL');
    },
    everything: async () => {
      const ids = Array.from({ length: NODES }, (_, i) => i + 1);
      await Promise.all([killNodes(ids), server.kill()]);
      await startNodes(ids);
      await start();
    },
  };

  before(async () => {
    cluster = await startKraftCluster({ nodes: NODES });
    await start();
    await server.ready(180_000);
    writers = [write(), write(), write()];
  });
  after(async () => {
    writing.abort();
    await Promise.all(writers);
    await server?.kill();
    await cluster?.stop();
    folder.remove();
  });

  for (let n = 0; n < KILLS; n++) {
    const victim = VICTIMS[n % VICTIMS.length] as Victim;
    test(`kill ${n + 1} of ${KILLS}: ${victim}`, async () => {
      await sleep(100 + random.next() * 900);
      await harm[victim]();
      const before = client.acked.length;
      for (let i = 0; i < 2_400 && client.acked.length <= before; i++) await sleep(50);
      assert.ok(client.acked.length > before, `nothing was accepted after the kill:\n${server.output().slice(-4000)}`);
    });
  }

  test('every acknowledged event is there once and unchanged, the audit passes, a rebuild is equal', async () => {
    writing.abort();
    await Promise.all(writers);
    await server.ready(180_000);
    await caughtUp(server.url, 180_000);
    const sent = [...client.entries.values()].map((e) => e.event);
    assert.ok(client.acked.length > 100, 'the campaign wrote too little to prove anything');
    await provesLedger(server.url, client.acked, sent);
    const report = await audit(server.url);
    assert.deepEqual([report.problems, report.ok, report.lag], [[], true, 0]);
    await rebuiltEqual(server.url);
  });
});
