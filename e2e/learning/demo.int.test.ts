/** The first-run demo: it plays on an empty store, goes on after a restart, leaves with the server however that ends, and makes room for whoever else records. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, describe, test } from 'node:test';
import { audit, caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

const DEADLINE_MS = 180_000;
const LISTEN_MS = 120_000;

/** Resolves when `look` says true. */
async function until(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + DEADLINE_MS;
  while (!(await look())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${DEADLINE_MS} ms`);
    await sleep(200);
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}

const demoOf = (server: TestServer): number | undefined => server.children().find((pid) => commandOf(pid).includes('learning/demo.ts'));

async function steps(server: TestServer): Promise<number> {
  try {
    const [row] = await sql<{ last: string | null }>(server.url, "SELECT max(step) AS last FROM trainer_steps WHERE run = 'demo'");
    return Number(row?.last ?? 0);
  } catch (error) {
    if (/no data yet/.test(String(error))) return 0; // the views of a project come with its first events
    throw error;
  }
}

describe('the demo', () => {
  const folder = temporaryFolder('demo');
  const data = join(folder.path, 'data');
  let server: TestServer;
  let before = 0;
  const start = async (): Promise<void> => {
    server = await startServer({ TAPEDECK_DATA: data, TAPEDECK_DEMO: 'true' }, { listenMs: LISTEN_MS });
    await server.ready(180_000);
  };
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  test('plays on an empty store, and says so', { timeout: DEADLINE_MS * 2 }, async () => {
    await start();
    assert.match(server.output(), /a demo plays in the background .*--no-demo/);
    assert.notEqual(demoOf(server), undefined);
    await until('two steps', async () => (await steps(server)) >= 2);
  });

  test('stops with the server, whole, and goes on with it', { timeout: DEADLINE_MS * 3 }, async () => {
    const pid = demoOf(server) as number;
    assert.equal(await server.stop(), 0);
    assert.equal(commandOf(pid), '');
    assert.match(server.output(), /the demo has stopped, to go on at the next start/);
    await start();
    before = await steps(server);
    assert.ok(before >= 2);
    const [open] = await sql<{ rollouts: string }>(
      server.url,
      "SELECT countIf(ended IS NULL) AS rollouts FROM rollouts WHERE run = 'demo' AND \"group\" LIKE 'demo/0/%'",
    );
    assert.equal(Number(open?.rollouts), 0, 'rollouts of the first session have no end');
    await until('a step after the restart', async () => (await steps(server)) > before);
    const ids = await sql<{ n: string }>(
      server.url,
      'SELECT count() AS n FROM rollouts WHERE run = \'demo\' GROUP BY "group" HAVING n > 8',
    );
    assert.deepEqual(ids, [], 'a group was played twice');
  });

  test('is gone when the server is killed, and goes on all the same', { timeout: DEADLINE_MS * 3 }, async () => {
    const pid = demoOf(server) as number;
    before = await steps(server);
    await server.kill('server');
    await until('the demo to end', () => commandOf(pid) === '');
    await server.kill();
    await start();
    await until('a step after the kill', async () => (await steps(server)) > before);
  });

  test('makes room when somebody else records, for good', { timeout: DEADLINE_MS * 3 }, async () => {
    const event = {
      v: 1,
      id: '01890a5d-ac96-774b-bcce-b302099a8057',
      type: 'run.started',
      project: 'default',
      run: 'somebody',
      time: 1_796_000_000_000_000,
      data: {},
    };
    const posted = await fetch(`${server.url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify([event]),
    });
    assert.deepEqual([posted.status, ((await posted.json()) as { rejected: unknown[] }).rejected], [200, []]);
    await until('the demo to end', () => demoOf(server) === undefined);
    await caughtUp(server.url);
    const [run] = await sql<{ status: string }>(server.url, "SELECT status FROM runs WHERE run = 'demo'");
    assert.equal(run?.status, 'cancelled');
    assert.deepEqual((await audit(server.url)).problems, []);
    const odd = await sql<{ status: string }>(server.url, "SELECT status FROM events WHERE status IN ('conflict', 'dead')");
    assert.deepEqual(odd, []);
    assert.equal(await server.stop(), 0);
    await start();
    assert.doesNotMatch(server.output(), /a demo/);
    assert.equal(demoOf(server), undefined);
  });
});

test('the demo is not played where others have recorded, nor by a server with some of the roles', { timeout: DEADLINE_MS }, async () => {
  const folder = temporaryFolder('no-demo');
  const servers: TestServer[] = [];
  const start = async (env: Record<string, string>): Promise<TestServer> => {
    const server = await startServer({ TAPEDECK_DATA: folder.path, ...env }, { listenMs: LISTEN_MS });
    servers.push(server);
    return server;
  };
  try {
    const first = await start({}); // as all servers of tests: switched off
    const body = JSON.stringify([
      { v: 1, id: '01890a5d-ac96-774b-bcce-b302099a8057', type: 'run.started', run: 'somebody', time: 1_796_000_000_000_000, data: {} },
    ]);
    await fetch(`${first.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    assert.doesNotMatch(first.output(), /a demo/);
    await first.stop();
    const second = await start({ TAPEDECK_DEMO: 'true' });
    assert.doesNotMatch(second.output(), /a demo/);
    await second.stop();
    const other = await startServer(
      { TAPEDECK_DATA: join(folder.path, 'other'), TAPEDECK_DEMO: 'true', TAPEDECK_ROLES: 'ingest,feed' },
      { listenMs: LISTEN_MS },
    );
    servers.push(other);
    assert.doesNotMatch(other.output(), /a demo/);
  } finally {
    for (const server of servers) await server.kill();
    folder.remove();
  }
});
