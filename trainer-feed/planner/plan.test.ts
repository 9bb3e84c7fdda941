import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { balance, imbalance } from './balance.ts';
import { firstFitDecreasing } from './first-fit.ts';
import { planBatch, type Plan } from './plan.ts';
import { planIdOf, planRequest } from './plan-request.ts';
import { rowOf, rowsArbitrary } from './rows.arbitrary.ts';

const request = (more: object) => planRequest.parse({ world: 1, maxTokens: 4096, ...more });

function planned(rows: Parameters<typeof planBatch>[1], more: object): Plan {
  const plan = planBatch('b1', rows, request(more));
  assert.ok(plan.ok, plan.ok ? '' : plan.error.message);
  return plan.value;
}

/** Whole numbers below 2^32 from a seed (Numerical Recipes' linear congruence, upper bits). */
function prand(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 8;
  };
}

/** First fit as its definition says, one bin after the other. */
function slowFirstFit(sizes: readonly number[], capacity: number): number[][] {
  const order = sizes.map((_, i) => i).toSorted((a, b) => (sizes[b] as number) - (sizes[a] as number) || a - b);
  const bins: { room: number; items: number[] }[] = [];
  for (const item of order) {
    const size = sizes[item] as number;
    let bin = bins.find(({ room }) => room >= size);
    if (bin === undefined) bins.push((bin = { room: capacity, items: [] }));
    bin.room -= size;
    bin.items.push(item);
  }
  return bins.map(({ items }) => items);
}

test('first fit decreasing packs as its definition says', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 64 }), { maxLength: 300 }), (sizes) => {
      assert.deepEqual(firstFitDecreasing(sizes, 64), slowFirstFit(sizes, 64));
    }),
  );
});

test('every row is in one micro-batch, none is too long, every rank has equally many, images lie apart', () => {
  const requests = fc.record({ world: fc.integer({ min: 1, max: 9 }), padToMultiple: fc.constantFrom(1, 2, 8, 64) });
  fc.assert(
    fc.property(rowsArbitrary(128), requests, (rows, { world, padToMultiple }) => {
      const plan = planned(rows, { world, padToMultiple, maxTokens: 128 });
      const all = plan.ranks.flat();
      assert.equal(plan.ranks.length, world);
      for (const rank of plan.ranks) assert.equal(rank.length, plan.microBatchesPerRank);
      assert.ok(plan.microBatchesPerRank >= 1);
      assert.deepEqual(all.flatMap(({ rows: indexes }) => indexes).toSorted((a, b) => a - b), rows.map((_, i) => i)); // prettier-ignore
      for (const { rows: indexes, tokens, padding } of all) {
        assert.equal(tokens, indexes.reduce((sum, i) => sum + (rows[i]?.seqLen as number), 0)); // prettier-ignore
        assert.ok(tokens + padding <= 128);
        assert.equal((tokens + padding) % padToMultiple, 0);
        assert.ok(padding < padToMultiple || (indexes.length === 0 && padding === padToMultiple));
        assert.ok(new Set(indexes.map((i) => rows[i]?.multimodal)).size <= 1);
      }
      assert.equal(plan.paddingTokens, all.reduce((sum, { padding }) => sum + padding, 0)); // prettier-ignore
    }),
  );
});

test('the same rows and request give the same plan; another order of properties too', () => {
  const rows = Array.from({ length: 50 }, (_, i) => rowOf(i, 1 + ((i * 37) % 100)));
  const once = planned(rows, { world: 4, maxTokens: 256 });
  assert.deepEqual(planned(rows, { maxTokens: 256, world: 4 }), once);
});

test('ranks cost nearly the same where lengths allow', () => {
  const random = prand(7);
  for (let round = 0; round < 60; round++) {
    const world = 1 + (random() % 8);
    const rows = Array.from({ length: 300 + (random() % 300) }, (_, i) => rowOf(i, 1, { seqLen: 16 + (random() % 1024) }));
    const plan = planned(rows, { world, maxTokens: 4096 });
    assert.ok(plan.imbalance < 0.02, `imbalance ${plan.imbalance} in round ${round}`);
    const least = Math.ceil(rows.reduce((sum, { seqLen }) => sum + seqLen, 0) / 4096 / world);
    assert.ok(plan.microBatchesPerRank <= least + 2, `${plan.microBatchesPerRank} micro-batches, ${least} at least`);
  }
});

test('micro-batches that run at the same time are alike: the k-th of every rank by cost', () => {
  const ranks = balance([9, 1, 5, 3, 8, 2, 6, 4], 2);
  for (const items of ranks) assert.deepEqual(items.map((i) => [9, 1, 5, 3, 8, 2, 6, 4][i]).toSorted((a, b) => (b as number) - (a as number)), items.map((i) => [9, 1, 5, 3, 8, 2, 6, 4][i])); // prettier-ignore
  assert.equal(imbalance(ranks, [9, 1, 5, 3, 8, 2, 6, 4]), 0);
});

test('fewer rows than ranks: those without get a padding row with nothing in it', () => {
  const plan = planned([rowOf(0, 10)], { world: 4, padToMultiple: 8 });
  assert.equal(plan.microBatchesPerRank, 1);
  assert.deepEqual(plan.ranks.flat().map(({ rows, padding }) => `${rows.length} rows, ${padding} padding`).toSorted((a, b) => a.localeCompare(b)), [...Array<string>(3).fill('0 rows, 8 padding'), '1 rows, 6 padding']); // prettier-ignore
});

test('bins are shared out rather than padded: five rows in one bin serve four ranks', () => {
  const plan = planned(Array.from({ length: 5 }, (_, i) => rowOf(i, 10)), { world: 4 }); // prettier-ignore
  assert.equal(plan.paddingTokens, 0);
  assert.equal(plan.microBatchesPerRank, 1);
});

test('an imbalance is worth one micro-batch more on each rank, of the kind with more rows', () => {
  const rows = ([[16, true], [1, true], [6, true], [9, true], [15, false], [1, true]] as const).map(([seqLen, multimodal], i) => rowOf(i, 1, { seqLen, multimodal })); // prettier-ignore
  const plan = planned(rows, { world: 2, maxTokens: 38, cost: { linear: 1, quadratic: 0.01 } });
  assert.deepEqual(plan.ranks.map((rank) => rank.map((one) => one.rows)), [[[0], [2, 1, 5]], [[4], [3]]]); // prettier-ignore
  assert.ok(plan.imbalance < 0.02);
});

test('but never one in which nobody has a row: that would balance sums and help no one', () => {
  const rows = ([[14, false], [8, true], [7, false]] as const).map(([seqLen, multimodal], i) => rowOf(i, 1, { seqLen, multimodal })); // prettier-ignore
  const plan = planned(rows, { world: 2, maxTokens: 25, cost: { linear: 1, quadratic: 0.01 } });
  assert.deepEqual(plan.ranks.map((rank) => rank.map((one) => one.rows)), [[[0, 2]], [[1]]]); // prettier-ignore
});

test('a row that does not fit is named, with the remedy', () => {
  const plan = planBatch('b1', [rowOf(0, 10), rowOf(1, 5000)], request({}));
  assert.ok(!plan.ok);
  assert.equal(plan.error.code, 'row_exceeds_max_tokens');
  assert.match(plan.error.message, /trace-1.* 5000 tokens.*at least 5000.*maxRowTokens of at most 4096/s);
});

test('maxTokens that is no multiple of padToMultiple is refused with the number to take', () => {
  const plan = planBatch('b1', [rowOf(0, 10)], request({ maxTokens: 100, padToMultiple: 64 }));
  assert.ok(!plan.ok);
  assert.match(plan.error.message, /take 64/);
});

test('plan_id depends on the batch and on each part of the request', () => {
  const base = { world: 2, maxTokens: 1024, padToMultiple: 8, cost: { linear: 1, quadratic: 0.5 } };
  const variants = [base, { ...base, world: 3 }, { ...base, maxTokens: 2048 }, { ...base, padToMultiple: 16 }, { ...base, cost: { linear: 2, quadratic: 0.5 } }, { ...base, cost: { linear: 1, quadratic: 0.25 } }]; // prettier-ignore
  const ids = [...variants.map((v) => planIdOf('b1', request(v))), planIdOf('b2', request(base))];
  assert.equal(new Set(ids).size, ids.length);
  assert.equal(planIdOf('b1', request(base)), ids[0]);
});
