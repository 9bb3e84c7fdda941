/**
 * The gateway over Kafka while the broker is killed and comes back under its streams: no client is told the end of a call that is not durable, and what was told is recorded, also after the
 * server itself is killed. TAPEDECK_BROKER_KILLS sets the number of kills (default 3), TAPEDECK_SEED replays a run.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../base/random.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startKraftCluster, type KraftCluster } from '../kafka/kraft-cluster.ts';
import { missingForCluster } from '../kafka/test-broker.ts';
import { audit } from '../proof.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { answered, provesDone, streamed, type Done } from './told-done.ts';

const KILLS = Number(process.env['TAPEDECK_BROKER_KILLS'] ?? 3);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const HARNESSES = 8;
const PATIENCE_MS = 180_000;
const skip = (await missingForCluster()) ?? false;

describe(`gateway over a broker that is killed, seed ${SEED}`, { skip }, () => {
  const random = seededRandom(SEED);
  const stop = new AbortController();
  const done: Done[] = [];
  let failures = 0;
  let harnesses: Promise<void>[] = [];
  let cluster: KraftCluster;
  let engine: FakeEngine;
  let gateway: GatewayServer;

  /** Calls one after the other, as a stream or in one piece, until it is told to stop. */
  const harness = async (n: number): Promise<void> => {
    let made: MadeTrace | null = null;
    for (let turn = 0; !stop.signal.aborted; turn++) {
      try {
        if (made === null || turn % 5 === 0) made = await gateway.rollout();
        const content = turn % 4 === 3 ? `count to ${20 + n}` : `${n} + ${turn}`;
        done.push(await (turn % 3 === 2 ? answered : streamed)(made, content));
      } catch {
        failures++;
        await sleep(50);
      }
    }
  };
  const moreDone = async (count: number): Promise<void> => {
    const from = done.length;
    for (const end = Date.now() + PATIENCE_MS; done.length < from + count && Date.now() < end;) await sleep(50);
    assert.ok(
      done.length >= from + count,
      `${done.length - from} calls ended, ${failures} failed in ${PATIENCE_MS} ms:\n${gateway.server().output().slice(-4000)}`,
    );
  };

  before(async () => {
    cluster = await startKraftCluster({ nodes: 1 });
    engine = await startFakeEngine({ seed: SEED, pace: { tokenMs: 4 } });
    gateway = await startGatewayServer(
      { vllm: vllmUpstream(engine) },
      {
        TAPEDECK_LOG: 'kafka',
        TAPEDECK_KAFKA_BROKERS: cluster.brokers.join(','),
        TAPEDECK_KAFKA_TOPIC_PREFIX: 'gateway',
        TAPEDECK_KAFKA_REPLICATION: '1',
        TAPEDECK_KAFKA_MIN_ISR: '1',
      },
    );
    harnesses = Array.from({ length: HARNESSES }, (_, n) => harness(n));
  });
  after(async () => {
    stop.abort();
    await gateway?.stop();
    await Promise.all(harnesses);
    await engine?.close();
    await cluster?.stop();
  });

  for (let kill = 1; kill <= KILLS; kill++) {
    test(`kill ${kill} of ${KILLS}: what begins without a broker is told no end before it is back; then calls go on`, async () => {
      await moreDone(2 * HARNESSES);
      const made = await gateway.rollout();
      await sleep(random.next() * 300);
      await cluster.kill(1);
      let toldWithout = 0;
      let isBack = false;
      const without = [streamed(made, '1 + 1'), answered(made, '2 + 2'), streamed(made, 'count to 30')].map((call) =>
        call.then(
          (ended) => {
            if (!isBack) toldWithout++;
            done.push(ended);
          },
          () => failures++,
        ),
      );
      await sleep(1_000 + random.next() * 2_000);
      isBack = true;
      await cluster.start(1);
      await moreDone(2 * HARNESSES);
      await Promise.all(without);
      assert.equal(toldWithout, 0);
    });
  }

  test('whatever a client saw the end of is recorded as it was told, once, and is still there after the server was killed', async () => {
    stop.abort();
    await Promise.all(harnesses);
    assert.equal(new Set(done.map(({ trace, call }) => `${trace}#${call}`)).size, done.length);
    await gateway.server().ready();
    await provesDone(gateway, done);
    assert.deepEqual((await audit(gateway.url)).problems, []);
    await gateway.killAndRestart();
    await provesDone(gateway, done);
  });
});
