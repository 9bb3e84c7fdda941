/**
 * Uploads to a whole server that is killed in the middle: the client sends the same bytes again, and everything is there exactly once. Evaluations, receipts and what is
 * known of them survive, also in the time in which the tables lag behind the log.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../base/random.ts';
import { audit, caughtUp, sql } from '../../e2e/proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../../e2e/server.ts';
import { TRAIN_EPISODE } from '../importers/sample-records.ts';
import { call, sha256, upload, type PrimeReply } from './upload-under-test.ts';

const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const EPISODES = 120;
const folder = temporaryFolder('uploads');
const random = seededRandom(SEED);
let server: TestServer | null = null;

after(async () => {
  await server?.kill();
  folder.remove();
});

async function start(env: Record<string, string> = {}): Promise<TestServer> {
  await server?.kill();
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_WAIT_MS: '50', ...env }, { listenMs: 60_000 });
  return server;
}

/** As the Prime clients do: 429, 503 and broken connections are tried again; null when the server is gone. */
async function patiently(work: () => Promise<PrimeReply>, ms = 60_000): Promise<PrimeReply | null> {
  for (const end = Date.now() + ms; ;) {
    try {
      const reply = await work();
      if (reply.status !== 429 && reply.status !== 503) return reply;
      assert.ok(reply.headers.get('retry-after') !== null);
      if (Date.now() > end) return reply;
    } catch {
      return null;
    }
    await sleep(100);
  }
}

function linesOf(upload: number, run: string): string {
  const episodes = Array.from({ length: EPISODES }, (_, i) => {
    const id = `u${upload}-${i}`;
    const at = `{"type":"eval","id":"${run}","name":"toy"}`;
    return TRAIN_EPISODE.replace('"id":"e1"', `"id":"${id}"`).replace('"id":"t1"', `"id":"${id}-t","run":${at}`).replace(/"run":\{"type":"train".*?\}\}\}/, `"run":${at}`); // prettier-ignore
  });
  return `${episodes.join('\n')}\n`;
}

test(`killed at any moment, everything uploaded is there exactly once (seed ${SEED})`, async (t) => {
  let current = await start();
  const created = await patiently(() => call(current.url, 'POST', '/api/v1/evaluations/', { name: 'toy', environments: [{ id: 'toy-sum' }], model_name: 'toy', metadata: { n: 1 } })); // prettier-ignore
  const run = created?.body['evaluation_id'] as string;
  assert.equal(created?.status, 200);

  for (const [n, crash] of ['after-append:2', 'after-append:6', 'in a moment'].entries()) {
    const lines = linesOf(n, run);
    await t.test(`upload ${n}, killed ${crash}`, async () => {
      current = await start(crash.includes(':') ? { TAPEDECK_CRASH_POINT: crash } : {});
      const sending = patiently(() => upload(current.url, { lines }));
      if (!crash.includes(':')) {
        await sleep(random.next() * 150);
        await current.kill();
      }
      const first = await sending;
      if (crash.includes(':')) assert.equal(first, null, 'the server answered before it was killed');
      current = await start();
      const again = await patiently(() => upload(current.url, { lines }));
      assert.deepEqual([again?.status, again?.body], [200, { upload_id: sha256(lines), status: 'committed' }]);
    });
  }

  await t.test('right after a start, what is only in the log is known', async () => {
    current = await start();
    const put = await patiently(() => call(current.url, 'PUT', `/api/v1/evaluations/${run}`, { metrics: { avg_reward: 0.5 } }));
    assert.deepEqual([put?.status, put?.body['status'], put?.body['name']], [200, 'RUNNING', 'toy']);
    await current.kill();
    current = await start();
    const done = await patiently(() => call(current.url, 'POST', `/api/v1/evaluations/${run}/finalize`, {}));
    assert.deepEqual([done?.status, done?.body['status'], done?.body['metrics']], [200, 'COMPLETED', { avg_reward: 0.5 }]);
    const unknown = await patiently(() => call(current.url, 'POST', '/api/v1/evaluations/nothing/finalize', {}));
    assert.deepEqual([unknown?.status, unknown?.body.error?.code], [404, 'not_found']);
  });

  await t.test('SQL and the audit', async () => {
    await current.ready(180_000);
    await caughtUp(current.url, 180_000);
    const counts = await sql<Record<string, string>>(
      current.url,
      "SELECT (SELECT count() FROM rollouts) AS rollouts, (SELECT count() FROM traces) AS traces, (SELECT count() FROM nodes) AS nodes, (SELECT uniqExact(trace, index) FROM nodes) AS distinct, (SELECT count() FROM notes WHERE label = 'upload') AS notes, (SELECT countIf(n > 1) FROM (SELECT id, countIf(status = 'stored') AS n FROM events GROUP BY id)) AS twice",
    );
    const all = 3 * EPISODES;
    assert.deepEqual(Object.values(counts[0] as object).map(Number), [all, all, 5 * all, 5 * all, all, 0]);
    assert.deepEqual(await sql(current.url, 'SELECT run, kind, name, model, status, metrics FROM runs'), [
      { run, kind: 'eval', name: 'toy', model: 'toy', status: 'completed', metrics: '{"avg_reward":0.5}' },
    ]);
    const report = await audit(current.url);
    assert.deepEqual([report.ok, report.problems], [true, []]);
  });

  await t.test('the list of traces, page by page', async () => {
    const seen: string[] = [];
    let path = `/api/v1/traces?run_id=${run}&limit=100&has_error=false&environment_id=wiki&context.model=toy&upload_id=${sha256(linesOf(0, run))}&upload_id=${sha256(linesOf(1, run))}`;
    for (let cursor: string | null = ''; cursor !== null;) {
      const page: PrimeReply = await call(current.url, 'GET', cursor === '' ? path : `${path}&cursor=${cursor}`);
      assert.equal(page.status, 200, JSON.stringify(page.body));
      seen.push(...(page.body['items'] as { trace_id: string }[]).map((item) => item.trace_id));
      cursor = page.body['next_cursor'] as string | null;
    }
    assert.equal(seen.length, 2 * EPISODES);
    assert.equal(new Set(seen).size, 2 * EPISODES);
    const [first] = (await call(current.url, 'GET', `${path}&limit=1&sort=duration_ms`).then(
      (page) => page.body['items'] ?? [page.body],
    )) as Record<string, unknown>[];
    assert.ok(first !== undefined);
    path = `/api/v1/traces/u1-3-t`;
    const one = await call(current.url, 'GET', path);
    assert.deepEqual(
      [one.body['episode_id'], one.body['upload_id'], one.body['run_id'], one.body['environment_id'], one.body['duration_ms'], one.body['score'], one.body['execution'], one.body['model'], one.body['created_at']],
      ['u1-3', sha256(linesOf(1, run)), run, 'wiki', 9500, { reward: null, outcome: null }, { has_error: false, is_truncated: false }, { provider: null, id: 'toy' }, '2025-11-04T00:00:00.500000Z'],
    ); // prettier-ignore
    for (const [query, code] of [['limit=101', 'invalid_filter'], ['nothing=1', 'invalid_filter'], ['reward_min=x', 'invalid_filter'], ['created_after=today', 'invalid_filter'], ['cursor=abc', 'invalid_cursor']] as const) {
      const refused = await call(current.url, 'GET', `/api/v1/traces?${query}`);
      assert.deepEqual([refused.status, refused.body.error?.code], [400, code]);
    } // prettier-ignore
    assert.equal((await call(current.url, 'GET', '/api/v1/traces/nothing')).status, 404);
    const none = await call(current.url, 'GET', '/api/v1/traces?context.model=other');
    assert.deepEqual(none.body, { items: [], next_cursor: null });
  });
});
