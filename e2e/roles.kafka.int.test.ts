/**
 * The server deployment without containers: a real Kafka broker, the engine as "the ClickHouse server", and each role a process of its own, with the environment variables of
 * docker-compose.yml. One after the other is killed and started again while a producer writes; afterwards nothing acknowledged is lost or doubled.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startTestBroker, type TestBroker } from './kafka/test-broker.ts';
import { LedgerClient } from './ledger-client.ts';
import { audit, caughtUp, provesLedger } from './proof.ts';
import { startServer, temporaryFolder, type TestServer } from './server.ts';
import { Workload } from './workload.ts';

const ROLES = ['ingest', 'projector', 'query'] as const;
type Role = (typeof ROLES)[number];

const broker = await startTestBroker();
const skip = typeof broker === 'string' ? broker : false;

describe('roles as processes of their own, over Kafka', { skip }, () => {
  const folder = temporaryFolder('roles');
  const roles = new Map<Role, TestServer>();
  const writing = new AbortController();
  const client = new LedgerClient(() => roles.get('ingest')?.url ?? 'http://127.0.0.1:9');
  let engine: { child: ChildProcess; settings: Record<string, string>; pid: number };
  let writer: Promise<void>;

  const start = async (role: Role): Promise<void> => {
    roles.set(
      role,
      await startServer(
        { TAPEDECK_ROLES: role, ...settingsOf(broker as TestBroker, folder.path), ...engine.settings },
        { listenMs: 60_000 },
      ),
    );
  };
  const writes = async (): Promise<number> => {
    const before = client.acked.length;
    for (let i = 0; i < 600 && client.acked.length <= before; i++) await sleep(50);
    return client.acked.length - before;
  };

  before(async () => {
    engine = await startEngineServer(join(folder.path, 'clickhouse'));
    for (const role of ROLES) await start(role);
    for (const server of roles.values()) await server.ready(120_000);
    const workload = new Workload(7, { run: 'roles' });
    writer = (async () => {
      while (!writing.signal.aborted) {
        await client.send(workload.rollout(4, 24), writing.signal);
        await sleep(20);
      }
    })();
  });
  after(async () => {
    writing.abort();
    await writer;
    for (const server of roles.values()) await server.kill();
    engine.child.kill('SIGTERM');
    await (broker as TestBroker).stop();
    folder.remove();
  });

  for (const role of ROLES) {
    test(`${role} is killed and started again`, async () => {
      assert.ok((await writes()) > 0);
      await roles.get(role)?.kill();
      if (role !== 'ingest') assert.ok((await writes()) > 0, 'the edge goes on without it');
      await start(role);
      await roles.get(role)?.ready(120_000);
      assert.ok((await writes()) > 0);
    });
  }

  test('the engine is killed: the edge goes on, /readyz says so, and it recovers by itself', async () => {
    process.kill(engine.pid, 'SIGKILL');
    const answer = await fetch(`${roles.get('query')?.url ?? ''}/readyz`);
    assert.equal(answer.status, 503);
    assert.match(await answer.text(), /column store/);
    assert.ok((await writes()) > 0, 'the edge goes on without the store');
    for (const server of roles.values()) await server.ready(120_000);
  });

  test('everything acknowledged is there once and unchanged', async () => {
    writing.abort();
    await writer;
    const url = roles.get('query')?.url as string;
    await caughtUp(url, 120_000);
    await provesLedger(url, client.acked, [...client.entries.values()].map((e) => e.event)); // prettier-ignore
    const report = await audit(url);
    assert.deepEqual(report.problems, []);
  });
});

function settingsOf(test: TestBroker, data: string): Record<string, string> {
  return {
    TAPEDECK_DATA: data,
    TAPEDECK_LOG: 'kafka',
    TAPEDECK_KAFKA_BROKERS: test.brokers.join(','),
    TAPEDECK_KAFKA_REPLICATION: '1',
    TAPEDECK_KAFKA_MIN_ISR: '1',
    TAPEDECK_KAFKA_TOPIC_PREFIX: `roles-${process.pid}`,
  };
}

async function startEngineServer(data: string): Promise<{ child: ChildProcess; settings: Record<string, string>; pid: number }> {
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'engine-server.ts'), '--data', data],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  let text = '';
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (text.includes('\n')) break;
  }
  const { url, user, password, pid } = JSON.parse(text) as { url: string; user: string; password: string; pid: number };
  const settings = {
    TAPEDECK_CLICKHOUSE_URL: url,
    TAPEDECK_CLICKHOUSE_USER: user,
    TAPEDECK_CLICKHOUSE_PASSWORD: password,
    // the engine knows one user and makes no others
    TAPEDECK_CLICKHOUSE_PROJECT_USERS: 'false',
  };
  return { child, pid, settings };
}
