/** Slices and manifests. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tableFromIPC, RecordBatchReader } from 'apache-arrow';
import { FeedClient, refuses, type Contract } from './conformance.ts';

type Manifest = {
  batchId: string;
  previousId: string | null;
  committed: boolean;
  rows: { rowId: string; seqLen: number }[];
  counts: { rows: number; N_rl: number };
  excluded: unknown[];
};

export const readingContract: Contract = (under) => {
  test('the same slice is the same bytes; ranks share batch, plan and schema, and hold every row once in equally many micro-batches', async () => {
    const client = new FeedClient(under, 'slices');
    await client.produce({ seed: 1, groups: 6, size: 4 });
    await client.create();
    const ranks = [await client.slice(1, 0), await client.slice(1, 1)] as const;
    assert.deepEqual((await client.slice(1, 0)).bytes, ranks[0].bytes);
    for (const name of ['x-feed-batch', 'x-feed-plan', 'x-feed-n', 'x-feed-timeline'])
      assert.equal(ranks[0].headers.get(name), ranks[1].headers.get(name), name);
    const tables = ranks.map(({ bytes }) => tableFromIPC(bytes));
    assert.deepEqual(tables[0]?.schema.fields.map(String), tables[1]?.schema.fields.map(String));
    const batches = ranks.map(({ bytes }) => [...RecordBatchReader.from(bytes)].length);
    assert.equal(batches[0], batches[1]);
    const metadata = tables[0]?.schema.metadata;
    assert.deepEqual(
      [metadata?.get('tapedeck.batch_id'), metadata?.get('tapedeck.world'), metadata?.get('tapedeck.rank')],
      [ranks[0].headers.get('x-feed-batch'), '2', '0'],
    );
    const manifest = (await client.get('/batches/1/manifest')).json() as Manifest;
    const seen = tables.flatMap((table) => [...(table.getChild('row_id') ?? [])].map(String)).filter((id) => id !== ''); // padding has no name
    assert.deepEqual(seen.toSorted(), manifest.rows.map(({ rowId }) => rowId).toSorted());
    const again = await client.get('/batches/1?rank=0&world=2&maxTokens=800', { 'if-none-match': ranks[0].headers.get('etag') as string });
    assert.equal(again.status, 304);
    const file = ranks[0].headers.get('x-feed-file');
    if (file !== null) assert.deepEqual(readFileSync(decodeURI(file)), ranks[0].bytes, 'the file on this machine is the same');
  });

  test('HEAD says what GET would send; a file it names on this machine holds those bytes', async () => {
    const client = new FeedClient(under, 'head');
    await client.produce({ seed: 12, groups: 6, size: 4 });
    await client.create();
    const got = await client.slice(1);
    const head = await client.fetch('HEAD', `/v1/feeds/${client.feed}/batches/1?rank=0&world=2&maxTokens=800`);
    assert.deepEqual([head.status, head.bytes.length], [200, 0]);
    for (const name of ['content-length', 'content-type', 'etag', 'repr-digest', 'x-feed-n', 'x-feed-batch', 'x-feed-plan'])
      assert.equal(head.headers.get(name), got.headers.get(name), name);
    assert.equal(head.headers.get('content-length'), String(got.bytes.length));
    const file = head.headers.get('x-feed-file');
    if (file !== null) assert.deepEqual(await readFile(decodeURI(file)), got.bytes);
  });

  test('another world is another plan of the same rows', async () => {
    const client = new FeedClient(under, 'worlds');
    await client.produce({ seed: 2, groups: 6, size: 4 });
    await client.create();
    const rowsOf = async (world: number): Promise<string[]> => {
      const ranks = await Promise.all(Array.from({ length: world }, (_, rank) => client.slice(1, rank, `world=${world}&maxTokens=800`)));
      return ranks.flatMap(({ bytes }) => [...(tableFromIPC(bytes).getChild('row_id') ?? [])].map(String)).filter((id) => id !== '').toSorted(); // prettier-ignore
    };
    const one = await rowsOf(1);
    assert.deepEqual(await rowsOf(3), one);
    assert.deepEqual(await rowsOf(8), one);
  });

  test('a lease pins the plan: ranks that ask with another are told', async () => {
    const client = new FeedClient(under, 'pinned');
    await client.produce({ seed: 3, groups: 6, size: 4 });
    await client.create();
    refuses(await client.get('/batches/1?rank=0&world=2&wait=30'), 422, 'missing_field', /maxTokens is missing/);
    await client.lease(1, { world: 2, maxTokens: 700 });
    await client.slice(1, 1, 'world=2');
    refuses(await client.get('/batches/1?rank=0&world=4'), 409, 'plan_mismatch', /leased with another plan \(world 2/);
    refuses(await client.get('/batches/1?rank=0&world=2&maxTokens=800'), 409, 'plan_mismatch', /all ranks read one plan/);
  });

  test('a rank that is not below world, an unknown column, a row too long, a batch far ahead', async () => {
    const client = new FeedClient(under, 'bad');
    await client.produce({ seed: 4, groups: 6, size: 4 });
    await client.create();
    await client.slice(1);
    refuses(await client.get('/batches/1?rank=2&world=2&maxTokens=800'), 422, 'invalid_value', /rank 2 is not below world 2/);
    refuses(await client.get('/batches/1?rank=0&world=2&maxTokens=800&columns=colour'), 422, 'column_unknown', /no extra column/);
    refuses(await client.get('/batches/1?rank=0&world=2&maxTokens=2'), 422, 'row_exceeds_max_tokens', /maxTokens of at least \d+/);
    refuses(await client.get('/batches/50?rank=0&world=2&maxTokens=800'), 409, 'out_of_order', /far ahead.*up to 2/);
    refuses(await client.get('/batches/0?rank=0&world=2&maxTokens=800'), 400, 'bad_request', /n/);
    refuses(await client.get('/batches/1?rank=0&world=2&maxTokens=800&colour=blue'), 400, 'bad_request', /colour/);
  });

  test('what is not there yet is pending, with what it waits for; a wait ends in time', async () => {
    const client = new FeedClient(under, 'pending');
    await client.produce({ seed: 5, groups: 1, size: 4 });
    await client.create();
    const started = performance.now();
    const answer = await client.get('/batches/1?rank=0&world=1&maxTokens=800&wait=1');
    assert.ok(performance.now() - started < 20_000);
    assert.equal(answer.status, 202);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
    const { pending } = answer.json() as { pending: { waitsFor: string; need: number; since: number } };
    assert.ok(pending.waitsFor.length > 0 && pending.need === 8 && pending.since > 0);
    const waiting = client.slice(1);
    await client.produce({ seed: 6, groups: 8, size: 4 });
    await waiting; // held until the batch is cut
  });

  test('a manifest says what is in the batch and what is not, and names the batch before', async () => {
    const client = new FeedClient(under, 'manifest');
    await client.produce({ seed: 7, groups: 10, size: 4, trouble: 0.5 });
    await client.create();
    await client.step(1);
    await client.slice(2);
    const [first, second] = (await Promise.all(
      [1, 2].map(async (n) => (await client.get(`/batches/${n}/manifest`)).json() as Manifest),
    )) as [Manifest, Manifest];
    assert.deepEqual([first.previousId, second.previousId, first.committed, second.committed], [null, first.batchId, true, false]);
    assert.equal(first.counts.rows, first.rows.length);
    assert.equal(new Set([...first.rows, ...second.rows].map(({ rowId }) => rowId)).size, first.rows.length + second.rows.length);
  });

  test('the end is in band: what is left makes a last batch, then every request for more says so', async () => {
    const client = new FeedClient(under, 'end');
    await client.produce({ seed: 8, groups: 3, size: 4 });
    await client.create({ batch: { by: 'rollouts', size: 8 } });
    await client.end();
    let n = 1;
    for (; ; n++) {
      const answer = await client.act('leases', { holder: 't', step: n, world: 1, maxTokens: 800, wait: 30 });
      assert.equal(answer.status, 200, answer.bytes.toString());
      if (answer.headers.get('x-feed-end') === 'true') break;
      await client.commit(answer.json());
      assert.ok(n < 10, 'it never ends');
    }
    assert.ok(n > 1, 'nothing was served');
    const end = await client.get(`/batches/${n}?rank=0&world=1&maxTokens=800`);
    assert.deepEqual([end.headers.get('x-feed-end'), end.json()], ['true', { end: true, n, committed: n - 1 }]);
  });
};
