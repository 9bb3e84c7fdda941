/** Judges and teachers through the settings of a real server, killed while they are at work: what they gave is in the log and in SQL once, and every score is the one of its members. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { world } from '../../trainer-feed/feed/feed-world.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { caughtUp, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

describe('a teacher named in the settings', () => {
  const folder = temporaryFolder('scoring');
  let server: TestServer;
  let teacher: FakeEngine;

  const start = async (): Promise<void> => {
    const upstreams = JSON.stringify({ big: { kind: 'vllm', url: teacher.url, models: ['toy'] } });
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_UPSTREAMS: upstreams, TAPEDECK_BLOCK_WAIT_MS: '50' });
    await server.ready();
  };
  before(async () => {
    teacher = await startFakeEngine({ pace: { firstTokenMs: 30 } });
    await start();
  });
  after(async () => {
    await server.kill();
    await teacher.close();
    folder.remove();
  });

  const batch = async (n: number): Promise<{ rows: number }> => {
    const answer = await fetch(`${server.url}/v1/feeds/main/batches/${n}/manifest?wait=60`);
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return { rows: (JSON.parse(text) as { rows: unknown[] }).rows.length };
  };

  test('scores groups, is killed in between, and every sampled node is scored once', async () => {
    const events = world({ seed: 5, groups: 8, size: 4, partitions: 4 }).flat();
    const body = Buffer.concat(events.map((event) => encodeEvent(event)));
    const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body });
    assert.equal(posted.status, 200, await posted.text());
    const spec = { maxRowTokens: 200, batch: { by: 'rollouts', size: 32 }, runs: ['run-1'], others: { score: { algorithm: 'opd', params: { teacher: 'big' } } } };
    const made = await fetch(`${server.url}/v1/feeds`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ feed: 'main', spec }) });
    assert.ok(made.ok, await made.text());
    while (teacher.requests().length < 8) await new Promise((resolve) => setTimeout(resolve, 5));
    await server.kill();
    await start();
    assert.deepEqual(await batch(1), { rows: 32 });
    await caughtUp(server.url);
    const [counts] = await sql<Record<string, string>>(
      server.url,
      `SELECT count() AS scores, uniq(trace, node) AS nodes, countIf(source = 'big' AND version = 'toy') AS told FROM reference_scores`,
    );
    assert.deepEqual(counts, { scores: '64', nodes: '64', told: '64' });
  }); // prettier-ignore
});
