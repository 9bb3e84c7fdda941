/** What a trainer was fed is in SQL: every row of every step joins back to the very tokens it was sent, and a rebuild of all tables says the same. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { tableFromIPC, type Vector } from 'apache-arrow';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { world } from '../../trainer-feed/feed/feed-world.ts';
import { audit, caughtUp, rebuiltEqual, sql } from '../proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';

type Leased = { readonly n: number; readonly batchId: string; readonly token: number; readonly microBatches: number };
type Sent = { readonly ids: number[]; readonly mask: number[]; readonly rank: number };

describe('the lineage of a feed', () => {
  const folder = temporaryFolder('lineage');
  let server: TestServer;
  const sent = new Map<string, Sent & { readonly step: number }>();

  const call = async <T>(method: string, path: string, body?: unknown): Promise<T> => {
    const init = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
    const answer = await fetch(`${server.url}${path}`, { method, ...init });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as T;
  };

  before(async () => {
    server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_WAIT_MS: '50' });
    await server.ready();
  });
  after(async () => {
    await server.kill();
    folder.remove();
  });

  test('a trainer of two ranks steps three times, is rolled back by one and steps again', async () => {
    const events = world({ seed: 11, groups: 14, size: 4, partitions: 4, trouble: 0.4 }).flat();
    const posted = await fetch(`${server.url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/cbor-seq' },
      body: Buffer.concat(events.map((event) => encodeEvent(event))),
    });
    assert.equal(posted.status, 200, await posted.text());
    await call('POST', '/v1/feeds', { feed: 'main', spec: { maxRowTokens: 200, batch: { by: 'rollouts', size: 8 }, runs: ['run-1'] } });
    const chain: string[] = [];
    const train = async (step: number): Promise<void> => {
      const leased = await call<Leased>('POST', '/v1/feeds/main/leases', { holder: 't', step, world: 2, maxTokens: 64, wait: 30 });
      for (const rank of [0, 1]) {
        const answer = await fetch(`${server.url}/v1/feeds/main/batches/${step}?rank=${rank}&world=2&wait=30`);
        assert.equal(answer.status, 200);
        for (const [rowId, row] of rowsOf(await answer.arrayBuffer())) sent.set(`${step}/${rowId}`, { ...row, rank, step });
      }
      await call('POST', '/v1/feeds/main/commits', {
        n: step,
        batchId: leased.batchId,
        token: leased.token,
        step,
        metrics: { loss: 1 / step },
      });
      chain[step] = leased.batchId;
    };
    for (const step of [1, 2, 3]) await train(step);
    await call('POST', '/v1/feeds/main/resume', { holder: 't', checkpoint: { timeline: 0, n: 2, batchId: chain[2] }, mode: 'recut' });
    for (const key of sent.keys()) if (key.startsWith('3/')) sent.delete(key);
    await train(3);
    await caughtUp(server.url);
  });

  test('batch_rows joins back to the tokens, masks and ranks that were sent', async () => {
    const rows = await sql<{ step: string; row_id: string; rank: number; seq_len: string; trained: string; ids: number[]; mask: number[] }>(
      server.url,
      `SELECT r.step AS step, r.row_id AS row_id, r.rank AS rank, r.seq_len AS seq_len, r.trained AS trained,
              arrayFlatten(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((n.index, n.token_ids))))) AS ids,
              arrayFlatten(arrayMap(x -> x.2, arraySort(x -> x.1, groupArray((n.index, n.mask))))) AS mask
       FROM batch_rows AS r JOIN nodes AS n ON r.run = n.run AND r.rollout = n.rollout AND r.trace = n.trace
       WHERE r.feed = 'main' AND r.step IS NOT NULL AND NOT r.abandoned
       GROUP BY step, row_id, rank, seq_len, trained`,
    );
    assert.deepEqual(rows.map(({ step, row_id }) => `${step}/${row_id}`).toSorted(), [...sent.keys()].toSorted());
    for (const row of rows) {
      const was = sent.get(`${row.step}/${row.row_id}`) as Sent;
      assert.deepEqual([row.ids, row.mask, row.rank], [was.ids, was.mask, was.rank], row.row_id);
      assert.deepEqual([Number(row.seq_len), Number(row.trained)], [was.ids.length, was.mask.filter(Boolean).length]);
    }
  });

  test('`tapedeck feed verify --rows` computes every id and every row anew, also of the batch that is leased under another plan', async () => {
    await call<Leased>('POST', '/v1/feeds/main/leases', { holder: 't', step: 4, world: 2, maxTokens: 64, wait: 0 }).catch(() => null);
    const main = join(import.meta.dirname, '../../cli/main.ts');
    const { stdout } = await promisify(execFile)(process.execPath, ['--disable-warning=ExperimentalWarning', main, 'feed', 'verify', 'main', '--rows', '--json', '--url', server.url]); // prettier-ignore
    const found = JSON.parse(stdout) as { batches: number; rows: number; wrong: number | null; flaws: unknown[] };
    assert.deepEqual([found.wrong, found.flaws], [null, []]);
    assert.ok(found.batches >= 3 && found.rows >= sent.size);
  });

  test('batches, drops and metrics are there, the rolled back step is abandoned', async () => {
    const batches = await sql<{ n: string; timeline: string; abandoned: number | boolean; step: string | null }>(
      server.url,
      "SELECT n, timeline, abandoned, step FROM batches WHERE feed = 'main' AND committed IS NOT NULL ORDER BY timeline, n",
    );
    assert.deepEqual(
      batches.map(({ n, timeline, abandoned }) => [Number(n), Number(timeline), Boolean(abandoned)]),
      [
        [1, 0, false],
        [2, 0, false],
        [3, 0, true],
        [3, 1, false],
      ],
    );
    const drops = await sql<{ reason: string; n: string }>(
      server.url,
      "SELECT reason, count() AS n FROM dropped_samples WHERE feed = 'main' GROUP BY reason",
    );
    assert.ok(drops.length > 0, 'a world with trouble leaves something out');
    const steps = await sql<{ step: string; timeline: string }>(
      server.url,
      "SELECT step, timeline FROM trainer_steps WHERE feed = 'main' ORDER BY timeline, step",
    );
    assert.deepEqual(steps.map(({ step, timeline }) => [Number(step), Number(timeline)]), [[1, 0], [2, 0], [3, 0], [3, 1]]); // prettier-ignore
  });

  test('the audit covers both topics, and a rebuild answers the same', async () => {
    const report = await audit(server.url);
    assert.deepEqual(report.problems, []);
    assert.ok((report as unknown as { partitions: { topic: string }[] }).partitions.some(({ topic }) => topic === 'feeds'));
    await rebuiltEqual(server.url);
  });
});

/** The rows of a slice without padding, by row id. */
function rowsOf(bytes: ArrayBuffer): Map<string, { ids: number[]; mask: number[] }> {
  const table = tableFromIPC(new Uint8Array(bytes));
  const rows = new Map<string, { ids: number[]; mask: number[] }>();
  for (let i = 0; i < table.numRows; i++) {
    if (table.getChild('status')?.get(i) === 'padding') continue;
    const list = (name: string): number[] => Array.from((table.getChild(name)?.get(i) ?? []) as Vector, Number);
    rows.set(String(table.getChild('row_id')?.get(i)), { ids: list('token_ids'), mask: list('loss_mask') });
  }
  return rows;
}
