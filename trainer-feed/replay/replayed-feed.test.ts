import assert from 'node:assert/strict';
import { test } from 'node:test';
import { planRequest } from '../planner/plan-request.ts';
import { createReplayedFeed, type ReplayedBatch } from './replayed-feed.ts';

const id = (n: number): string => `batch-${n}`;
const batch = async (n: number): Promise<ReplayedBatch> => ({
  n, batchId: id(n), previousId: n === 1 ? null : id(n - 1), timeline: 2, algorithm: 'grpo', policyVersion: n - 1, counts: { rows: 2 },
  rows: [{ rowId: `${n}a`, seqLen: 5, multimodal: false }, { rowId: `${n}b`, seqLen: 9, multimodal: false }],
}); // prettier-ignore
const plan = planRequest.parse({ world: 2, maxTokens: 16 });
const open = (from = 3, to = 5) => createReplayedFeed({ feed: 'main', from, to, batch });

test('steps come in order, once each, and end', async () => {
  const feed = open();
  assert.deepEqual(await feed.resume(null), { timeline: 2, next: 3, batchId: id(2), rewound: false, madeUp: false });
  for (const step of [3, 4, 5]) {
    const { batch: leased, token, plan: packed } = await feed.lease(step, plan);
    assert.deepEqual([leased.batchId, packed.ranks.length], [id(step), 2]);
    assert.deepEqual(await feed.commit(step, id(step), token), { committed: step, batchId: id(step), timeline: 2, repeated: false });
    assert.equal((await feed.commit(step, id(step), 0)).repeated, true);
  }
  assert.ok(feed.isOver);
  await assert.rejects(feed.lease(6, plan), { code: 'out_of_order' });
});

test('a checkpoint inside the range goes on behind it; another chain or another range is refused', async () => {
  const feed = open();
  const { token } = await feed.lease(3, plan);
  await feed.commit(3, id(3), token);
  assert.deepEqual(await feed.resume({ n: 2, batchId: id(2) }), { timeline: 2, next: 3, batchId: id(2), rewound: true, madeUp: false });
  assert.deepEqual((await feed.resume({ n: 4, batchId: id(4) })).next, 5);
  for (const bad of [
    { n: 4, batchId: 'other' },
    { n: 1, batchId: id(1) },
    { n: 6, batchId: id(6) },
  ]) {
    await assert.rejects(feed.resume(bad), { code: 'chain_mismatch' });
  }
});

test('wrong steps, ids and tokens', async () => {
  const feed = open();
  await assert.rejects(feed.lease(4, plan), { code: 'step_mismatch' });
  await assert.rejects(feed.lease(3, planRequest.parse({ world: 1, maxTokens: 4 })), { code: 'row_exceeds_max_tokens' });
  const first = await feed.lease(3, plan);
  const second = await feed.lease(3, plan);
  await assert.rejects(feed.commit(3, id(3), first.token), { code: 'lease_lost' });
  await assert.rejects(feed.commit(3, 'other', second.token), { code: 'chain_mismatch' });
  await assert.rejects(feed.commit(4, id(4), second.token), { code: 'out_of_order' });
  assert.throws(() => feed.release(first.token), { code: 'lease_lost' });
  feed.release(second.token);
  assert.throws(() => feed.checkStep(9), { code: 'out_of_order' });
  assert.throws(() => open(0, 3), { code: 'usage' });
  assert.throws(() => open(4, 3), { code: 'usage' });
});
