/**
 * The crash campaign: a ledger client writes with retries while the server is killed, at random and at named points. Afterwards every acknowledged event is
 * there exactly once, none is changed, and the audit passes. TAPEDECK_KILLS sets the number of random kills (default 12), TAPEDECK_SEED replays a run.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../base/random.ts';
import { CRASH_POINTS, type CrashPoint } from '../cli/serve/crash-points.ts';
import { LedgerClient } from './ledger-client.ts';
import { audit, caughtUp, provesLedger, rebuiltEqual } from './proof.ts';
import { engineOf, isAlive, projectorOf, startServer, temporaryFolder, type TestServer } from './server.ts';
import { killAtRename, whyNoStrace } from './strace.ts';
import { Workload } from './workload.ts';

const KILLS = Number(process.env['TAPEDECK_KILLS'] ?? 12);
const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const noStrace = await whyNoStrace();
const PORT_BASE = 20_000 + (process.pid % 20_000);

describe(`crash campaign, seed ${SEED}`, () => {
  const folder = temporaryFolder('crash');
  const random = seededRandom(SEED);
  const writing = new AbortController();
  const workload = new Workload(SEED);
  let server: TestServer;
  const client = new LedgerClient(() => `http://127.0.0.1:${PORT_BASE}`);
  let writers: Promise<void>[] = [];

  const start = async (env: Record<string, string> = {}): Promise<void> => {
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_PORT: String(PORT_BASE), TAPEDECK_BLOCK_WAIT_MS: '50', ...env });
  };
  const write = async (): Promise<void> => {
    while (!writing.signal.aborted) {
      await client.send(workload.rollout(4, 24), writing.signal);
      await sleep(5);
    }
  };

  before(async () => {
    await start();
    await server.ready();
    writers = [write(), write(), write()];
  });
  after(async () => {
    writing.abort();
    await server.kill();
    folder.remove();
  });

  for (let n = 0; n < KILLS; n++) {
    const whom = (['tree', 'server', 'engine', 'projector'] as const)[n % 4] as 'tree' | 'server' | 'engine' | 'projector';
    test(`random kill ${n + 1} of ${KILLS}: ${whom}`, async () => {
      const before = client.acked.length;
      await sleep(100 + random.next() * 900);
      if (whom === 'tree' || whom === 'server') {
        await server.kill(whom);
        await start();
      } else {
        await server.ready();
        process.kill(whom === 'engine' ? engineOf(server) : projectorOf(server), 'SIGKILL');
      }
      for (let i = 0; i < 200 && client.acked.length <= before; i++) await sleep(50);
      assert.ok(client.acked.length > before, `nothing was accepted after the kill:\n${server.output().slice(-4000)}`);
    });
  }

  for (const point of CRASH_POINTS) {
    test(`killed ${point}, again and again`, async () => {
      await server.kill();
      await start({ TAPEDECK_CRASH_POINT: `${point satisfies CrashPoint}:3` });
      await sleep(3_000);
    });
  }

  test('the engine is killed at the rename of a part', { skip: noStrace }, async () => {
    await server.kill();
    await start();
    await server.ready();
    for (let n = 1; n <= 3; n++) {
      await sleep(random.next() * 500);
      const engine = engineOf(server);
      const traced = await killAtRename(engine);
      for (let i = 0; i < 200 && isAlive(engine); i++) await sleep(50);
      assert.ok(!isAlive(engine), 'the injected kill did not happen');
      await traced.stop();
      await server.ready();
    }
  });

  test('every acknowledged event is there once and unchanged, and the audit passes', async () => {
    writing.abort();
    await Promise.all(writers);
    await server.kill();
    await start();
    await server.ready();
    await caughtUp(server.url);
    const sent = [...client.entries.values()].map((e) => e.event);
    assert.ok(client.acked.length > 100, 'the campaign wrote too little to prove anything');
    await provesLedger(server.url, client.acked, sent);
    const report = await audit(server.url);
    assert.deepEqual(report.problems, []);
    assert.ok(report.ok);
    await rebuiltEqual(server.url);
  });
});
