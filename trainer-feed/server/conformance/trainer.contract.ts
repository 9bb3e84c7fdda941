/** Leases, commits, checkpoints, resume and rollback. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FeedClient, refuses, type Contract } from './conformance.ts';

const PLAN = { world: 2, maxTokens: 800 };

export const trainerContract: Contract = (under) => {
  const started = async (name: string, seed: number, spec: object = {}): Promise<FeedClient> => {
    const client = new FeedClient(under, name);
    await client.produce({ seed, groups: 16, size: 4 });
    await client.create(spec);
    return client;
  };

  test('one holder: others are told who holds the feed and for how long; the same name takes over from itself', async () => {
    const client = await started('holder', 11);
    const first = await client.lease(1, { holder: 'a' });
    const held = refuses(await client.act('leases', { holder: 'b', step: 1, ...PLAN }), 409, 'lease_held', /leased to a for \d+ s more/);
    assert.equal(held['holder'], 'a');
    const renewed = await client.lease(1, { holder: 'a', token: first.token });
    assert.equal(renewed.token, first.token);
    assert.ok(renewed.expires >= first.expires);
    const restarted = await client.lease(1, { holder: 'a' });
    assert.ok(restarted.token > first.token);
    refuses(
      await client.act('commits', { n: 1, batchId: first.batchId, token: first.token }),
      409,
      'lease_lost',
      /no longer holds the feed/,
    );
    refuses(await client.act('leases', { holder: 'a', step: 1, ...PLAN, token: first.token }), 409, 'lease_lost', /stop it, or resume/);
    assert.equal((await client.act('release', { token: restarted.token })).status, 200);
    refuses(await client.act('release', { token: restarted.token }), 409, 'lease_lost', /nobody holds the feed now/);
    await client.lease(1, { holder: 'b' });
  });

  test('an expired lease may be taken; until somebody does, its holder may commit', async () => {
    const client = await started('expiry', 12);
    const short = await client.lease(1, { holder: 'a', ttlSeconds: 0.01 });
    await sleep(50);
    await client.commit(short);
    const second = await client.lease(2, { holder: 'a', ttlSeconds: 0.01 });
    await sleep(50);
    const taken = await client.lease(2, { holder: 'b' });
    refuses(await client.act('commits', { n: 2, batchId: second.batchId, token: second.token }), 409, 'lease_lost', /b holds it now/);
    await client.commit(taken);
  });

  test('a step is trained in order and committed once', async () => {
    const client = await started('order', 13);
    refuses(await client.act('leases', { holder: 't', step: 2, ...PLAN }), 409, 'step_mismatch', /trains step 1 next.*resume/);
    const lease = await client.lease(1);
    const commit = (more: object): Promise<unknown> => client.act('commits', { n: 1, batchId: lease.batchId, token: lease.token, ...more });
    refuses((await commit({ n: 2 })) as never, 409, 'out_of_order', /commit in order/);
    refuses((await commit({ step: 3 })) as never, 409, 'step_mismatch', /not step 3/);
    refuses((await commit({ batchId: 'f'.repeat(64) })) as never, 409, 'chain_mismatch', /resume from a checkpoint of the live chain/);
    await client.commit(lease, { metrics: { loss: 0.5 }, checkpoint: { uri: 'file:///c/1' } });
    const again = await client.act('commits', { n: 1, batchId: lease.batchId, token: 0 });
    assert.deepEqual([again.status, (again.json() as { repeated: boolean }).repeated], [200, true]);
    const status = (await client.get('/status')).json() as { checkpoints: { n: number; uri: string }[]; committed: number };
    assert.deepEqual([status.committed, status.checkpoints.map(({ n, uri }) => [n, uri])], [1, [[1, 'file:///c/1']]]);
    refuses(await client.act('checkpoints', { n: 2, batchId: lease.batchId }), 409, 'out_of_order', /commit in order/);
    refuses(await client.act('checkpoints', { n: 1, batchId: 'x' }), 409, 'chain_mismatch', /batch 1 is/);
  });

  test('two commits at once: one step', async () => {
    const client = await started('race', 14);
    const lease = await client.lease(1);
    const both = await Promise.all([1, 2, 3].map(() => client.act('commits', { n: 1, batchId: lease.batchId, token: lease.token })));
    assert.deepEqual(both.map(({ status }) => status), [200, 200, 200]); // prettier-ignore
    assert.equal(((await client.get('/status')).json() as { committed: number }).committed, 1);
  });

  test('resume: go on, make up for a lost commit, refuse what is of another history', async () => {
    const client = await started('resume', 15);
    const resume = (body: object): ReturnType<FeedClient['act']> => client.act('resume', { holder: 'trainer', ...body });
    assert.deepEqual((await resume({})).json(), { timeline: 0, next: 1, batchId: null, rewound: false, madeUp: false });
    const first = await client.step(1);
    const second = await client.step(2);
    refuses(await resume({}), 409, 'chain_mismatch', /you sent no checkpoint.*restart: true/);
    assert.equal(((await resume({ checkpoint: { n: 2, batchId: second.batchId } })).json() as { next: number }).next, 3);
    const third = await client.lease(3);
    const made = (await resume({ checkpoint: { timeline: 0, n: 3, batchId: third.batchId } })).json() as { madeUp: boolean; next: number };
    assert.deepEqual([made.madeUp, made.next], [true, 4]);
    refuses(await resume({ checkpoint: { n: 2, batchId: first.batchId } }), 409, 'chain_mismatch', /history that was given up/);
    refuses(await resume({ checkpoint: { n: 9, batchId: first.batchId } }), 409, 'chain_mismatch', /batch 9 is not cut/);
    refuses(await resume({ checkpoint: { timeline: 4, n: 1, batchId: first.batchId } }), 409, 'chain_mismatch', /on timeline 0/);
    await client.lease(4, { holder: 'other' });
    refuses(await resume({ checkpoint: { n: 1, batchId: first.batchId } }), 409, 'lease_held', /leased to other/);
  });

  test('rollback with replay: the same batches under the same ids, byte for byte but for the timeline', async () => {
    const client = await started('replay', 16);
    const chain = [await client.step(1), await client.step(2), await client.step(3)];
    const rows = async (n: number): Promise<unknown> => ((await client.get(`/batches/${n}/manifest`)).json() as { rows: unknown }).rows;
    const before = [await rows(2), await rows(3)];
    const zombie = await client.lease(4);
    const back = (await client.act('resume', { holder: 'trainer', checkpoint: { n: 1, batchId: chain[0]?.batchId } })).json() as {
      timeline: number;
      rewound: boolean;
      next: number;
    };
    assert.deepEqual(back, { timeline: 1, next: 2, batchId: chain[0]?.batchId, rewound: true, madeUp: false });
    refuses(await client.act('commits', { n: 4, batchId: zombie.batchId, token: zombie.token }), 409, 'out_of_order', /commit in order/);
    const again = [await client.step(2), await client.step(3)];
    assert.deepEqual(again.map(({ batchId }) => batchId), chain.slice(1).map(({ batchId }) => batchId)); // prettier-ignore
    assert.deepEqual([await rows(2), await rows(3)], before);
    const fourth = await client.lease(4);
    assert.equal(fourth.batchId, zombie.batchId, 'a batch that was cut and not committed is replayed too');
  });

  test('rollback with recut: the groups go back, and still no row is trained twice on the live chain', async () => {
    const client = await started('recut', 17);
    const chain = [await client.step(1), await client.step(2), await client.step(3)];
    await client.act('resume', { holder: 'trainer', checkpoint: { n: 1, batchId: chain[0]?.batchId }, mode: 'recut' });
    for (const n of [2, 3, 4]) await client.step(n);
    const rows: string[] = [];
    for (const n of [1, 2, 3, 4])
      rows.push(...((await client.get(`/batches/${n}/manifest`)).json() as { rows: { rowId: string }[] }).rows.map(({ rowId }) => rowId));
    assert.equal(new Set(rows).size, rows.length);
  });

  test('begin anew, and to the beginning by a checkpoint without steps', async () => {
    const client = await started('anew', 18);
    const first = await client.step(1);
    const anew = (await client.act('resume', { holder: 'trainer', restart: true })).json() as { next: number; timeline: number };
    assert.deepEqual([anew.next, anew.timeline], [1, 1]);
    assert.equal((await client.step(1)).batchId, first.batchId);
    const zero = (await client.act('resume', { holder: 'trainer', checkpoint: { n: 0 } })).json() as { next: number; timeline: number };
    assert.deepEqual([zero.next, zero.timeline], [1, 2]);
  });
};
