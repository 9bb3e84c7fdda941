/** Feeds themselves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FeedClient, refuses, type Contract } from './conformance.ts';

export const feedsContract: Contract = (under) => {
  test('a feed is created once; the same spec again finds it, another spec is refused', async () => {
    const client = new FeedClient(under, 'create');
    const first = await client.create();
    assert.equal(first.status, 201);
    const made = first.json() as { feed: string; specHash: string; spec: { cutAhead: number } };
    assert.equal(made.feed, client.feed);
    assert.match(made.specHash, /^[0-9a-f]{64}$/);
    assert.equal(made.spec.cutAhead, 1, 'defaults are filled in');
    const again = await client.create();
    assert.equal(again.status, 200);
    refuses(await client.create({ cutAhead: 2 }), 409, 'feed_exists', /never changes; take another name/);
    const list = (await client.fetch('GET', '/v1/feeds')).json() as { feeds: { feed: string; spec?: unknown }[] };
    assert.ok(list.feeds.some(({ feed, spec }) => feed === client.feed && spec === undefined));
    assert.equal(((await client.get('')).json() as { specHash: string }).specHash, made.specHash);
  });

  test('a spec that cannot be met is refused whole, every fault with its field', async () => {
    const client = new FeedClient(under, 'faults');
    const answer = await client.create({ maxRowTokens: 0, batch: { by: 'rows', size: 8 }, unheardOf: 1 });
    const { problems } = refuses(answer, 422, 'invalid_value', /maxRowTokens/) as { problems: { field: string }[] };
    assert.ok(problems.some(({ field }) => field === 'batch.by') && problems.some(({ field }) => field === 'maxRowTokens'));
    refuses(await client.create({ group: { size: 2, minSize: 4 } }), 422, 'invalid_value', /group.minSize: exceeds group.size/);
    refuses(await client.create({ stepsPerCut: 3 }), 422, 'invalid_value', /cutAhead: must be at least stepsPerCut/);
    refuses(await client.create({ others: { score: { algorithm: 'magic' } } }), 422, 'invalid_value', /no algorithm magic/);
    refuses(await client.create({ membership: 'as:nobody-knows' }), 404, 'not_found', /there is no feed nobody-knows/);
    refuses(await client.post('/v1/feeds', { spec: {} }), 400, 'bad_request', /feed/);
  });

  test('an unknown feed is not found, a deleted one is gone for good', async () => {
    const client = new FeedClient(under, 'delete');
    refuses(await client.get('/status'), 404, 'not_found', /create it with POST/);
    await client.create();
    assert.equal((await client.get('/status')).status, 200);
    assert.equal((await client.fetch('DELETE', `/v1/feeds/${client.feed}?reason=over`)).status, 200);
    assert.equal((await client.fetch('DELETE', `/v1/feeds/${client.feed}`)).status, 200, 'again is harmless');
    refuses(await client.act('leases', { holder: 't', step: 1, world: 1, maxTokens: 10 }), 410, 'feed_deleted', /was deleted/);
    refuses(await client.create({ cutAhead: 4 }), 409, 'feed_exists', /another name/);
  });
};
