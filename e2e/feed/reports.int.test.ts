/**
 * What a trainer reports is recorded once, however often it says so and whoever is killed in between: metrics of a step whose commit was lost come with the checkpoint, a published version that is
 * published again is the same version, something else under the same name is refused. None of it leaves a dead letter.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import type { Resumed } from '../../trainer-feed/feed/resume.ts';
import { world } from '../../trainer-feed/feed/feed-world.ts';
import { audit, caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

type Leased = { readonly n: number; readonly batchId: string; readonly token: number };
type Answer = { readonly status: number; readonly body: { readonly error?: { readonly code: string; readonly message: string } } };
type Step = { readonly step: string; readonly timeline: string; readonly metrics: string };

describe('reports of a trainer', () => {
  const folder = temporaryFolder('reports');
  let server: TestServer;
  const chain: string[] = [];

  const start = async (): Promise<void> => {
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_WAIT_MS: '50' });
    await server.ready();
  };
  const post = async (path: string, body: unknown): Promise<Answer> => {
    const init = { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(`${server.url}/v1/feeds${path}`, init);
    return { status: answer.status, body: (await answer.json()) as Answer['body'] };
  };
  /** Asks again while the server says that this helps. */
  const act = async <T>(path: string, body: unknown): Promise<T> => {
    for (;;) {
      const answer = await post(path, body);
      if (answer.status === 200 || answer.status === 201) return answer.body as T;
      assert.ok([202, 503].includes(answer.status), JSON.stringify(answer));
    }
  };
  const lease = async (step: number): Promise<Leased> => {
    const leased = await act<Leased>('/f/leases', { holder: 't', step, world: 1, maxTokens: 400, wait: 30 });
    chain[step] = leased.batchId;
    return leased;
  };
  const commit = ({ n, batchId, token }: Leased, metrics: object | null): Promise<unknown> =>
    act('/f/commits', { n, batchId, token, step: n, metrics });
  const resume = (n: number, metrics: object): Promise<Resumed> =>
    act('/f/resume', { holder: 't', checkpoint: { timeline: 0, n, batchId: chain[n], metrics } });
  const killed = async (): Promise<void> => {
    await server.kill();
    await start();
  };
  const steps = async (): Promise<[number, number, unknown][]> => {
    await caughtUp(server.url);
    const rows = await sql<Step>(server.url, "SELECT step, timeline, metrics FROM trainer_steps WHERE feed = 'f' ORDER BY step, timeline");
    return rows.map((row) => [Number(row.step), Number(row.timeline), JSON.parse(row.metrics)]);
  };

  before(async () => {
    await start();
    const events = world({ seed: 5, groups: 14, size: 4, partitions: 4 }).flat();
    const posted = await fetch(`${server.url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/cbor-seq' },
      body: Buffer.concat(events.map((event) => encodeEvent(event))),
    });
    assert.equal(posted.status, 200, await posted.text());
    await act('', { feed: 'f', spec: { maxRowTokens: 200, batch: { by: 'rollouts', size: 8 }, runs: ['run-1'] } });
  });
  after(async () => {
    await server?.kill();
    folder.remove();
  });

  test('a trainer killed between its checkpoint and its commit: the step that is made up for has its metrics', async () => {
    await commit(await lease(1), { loss: 1 });
    await lease(2);
    const resumed = await resume(2, { loss: 0.5 });
    assert.deepEqual([resumed.madeUp, resumed.next], [true, 3]);
    assert.deepEqual(await steps(), [[1, 0, { loss: 1 }], [2, 0, { loss: 0.5 }]]); // prettier-ignore
  });

  test('a commit that was durable without its metrics gets them by the checkpoint', async () => {
    await commit(await lease(3), null);
    assert.equal((await resume(3, { loss: 0.25 })).madeUp, false);
    assert.deepEqual((await steps()).at(-1), [3, 0, { loss: 0.25 }]);
  });

  test('the same again, also by a trainer and a server that were killed, adds nothing; what was told first stands', async () => {
    const before = await steps();
    const fourth = await lease(4);
    await commit(fourth, { loss: 0.125 });
    for (let again = 0; again < 2; again++) {
      await commit(fourth, { loss: 0.125 });
      await resume(4, { loss: 0.125 });
      await resume(4, { loss: 9 });
      const other = await post('/f/commits', { n: 4, batchId: fourth.batchId, token: 0, metrics: { loss: 9 } });
      assert.deepEqual([other.status, other.body.error?.code], [409, 'report_conflict']);
      if (again === 0) await killed();
    }
    assert.deepEqual(await steps(), [...before, [4, 0, { loss: 0.125 }]]);
  });

  test('after a rollback the step that is kept keeps its one row', async () => {
    const resumed = await resume(2, { loss: 0.5 });
    assert.deepEqual([resumed.rewound, resumed.timeline], [true, 1]);
    assert.deepEqual((await steps()).filter(([step]) => step === 2), [[2, 0, { loss: 0.5 }]]); // prettier-ignore
  });

  test('a version published again is the same version; other content under it is a conflict by name', async () => {
    const version = { version: 2, step: 2, uri: 'file:///w/2', trainer: 't' };
    const both = await Promise.all([1, 2].map(() => post('/f/policy', version)));
    assert.deepEqual(both.map(({ status }) => status), [200, 200]); // prettier-ignore
    for (let again = 0; again < 2; again++) {
      assert.deepEqual(await act('/f/policy', version), { version: 2, timeline: 1 });
      const other = await post('/f/policy', { ...version, uri: 'file:///elsewhere' });
      assert.deepEqual([other.status, other.body.error?.code], [409, 'report_conflict']);
      assert.match(other.body.error?.message ?? '', /version 2 was published with other content/);
      if (again === 0) await killed();
    }
    await caughtUp(server.url);
    const rows = await sql<{ version: string; uri: string }>(server.url, 'SELECT version, uri FROM policies');
    assert.deepEqual(rows.map((row) => [Number(row.version), row.uri]), [[2, 'file:///w/2']]); // prettier-ignore
  });

  test('nothing of it is a dead letter', async () => {
    await caughtUp(server.url);
    const odd = await sql(server.url, "SELECT type, status, reason FROM events WHERE status NOT IN ('stored', 'duplicate')");
    assert.deepEqual(odd, []);
    const { ok, problems } = await audit(server.url);
    assert.deepEqual([ok, problems], [true, []]);
  });
});
