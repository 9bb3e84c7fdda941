import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seededRandom } from '../../base/random.ts';
import type { ReadMicroBatch } from '../../trainer-feed/planner/read-slice.ts';
import { batchGradient, shuffledAdvantages } from './gradient.ts';
import { dppoKl, ppoClip, type RlLoss } from './loss.ts';
import { addGradient, logProbabilities, WEIGHTS } from './policy.ts';
import { VOCABULARY_SIZE } from './vocabulary.ts';

const weightsOf = (seed: number, scale = 0.5): Float64Array => {
  const random = seededRandom(seed);
  return Float64Array.from({ length: WEIGHTS }, () => (random.next() - 0.5) * 2 * scale);
};

type Row = { readonly ids: readonly number[]; readonly mask: readonly number[]; readonly advantage: number };

/** A micro-batch as readSlice gives it; what was sampled is as likely under the sampler as under `sampler` weights. */
function microBatchOf(rows: readonly Row[], sampler: Float64Array, rlWeights: readonly number[] | null = null): ReadMicroBatch {
  const ids = Int32Array.from(rows.flatMap((row) => row.ids));
  const mask = Uint8Array.from(rows.flatMap((row) => row.mask));
  const offsets = Int32Array.from([0, ...rows.map((_, i) => rows.slice(0, i + 1).reduce((sum, row) => sum + row.ids.length, 0))]);
  const logps = new Float64Array(VOCABULARY_SIZE);
  const logprobs = new Float32Array(ids.length);
  for (const [i, row] of rows.entries()) {
    const first = offsets[i] as number;
    for (let at = first; at < first + row.ids.length; at++) {
      if (mask[at] === 1) logprobs[at] = logProbabilities(sampler, { ids, first, at }, logps)[ids[at] as number] as number;
    }
  }
  const streams: Record<string, Int32Array | Uint8Array | Float32Array> = { token_ids: ids, loss_mask: mask, logprobs };
  if (rlWeights !== null) streams['rl_weights'] = Float32Array.from(rlWeights);
  const advantages = (): Float32Array => Float32Array.from(rows.flatMap((row) => row.mask.map((each) => each * row.advantage)));
  return {
    offsets,
    padding: 0,
    envs: rows.map(() => ''),
    values: () => rows.map(() => null),
    stream: (name) => streams[name] ?? null,
    advantages,
    temperatures: () => new Float32Array(ids.length),
  };
}

const row = fc
  .array(fc.tuple(fc.integer({ min: 0, max: VOCABULARY_SIZE - 1 }), fc.constantFrom(0, 1)), { minLength: 2, maxLength: 9 })
  .chain((tokens) => fc.record({ tokens: fc.constant(tokens), advantage: fc.float({ min: -1, max: 1, noNaN: true }) }))
  .map(({ tokens, advantage }): Row => ({ ids: tokens.map(([id]) => id), mask: tokens.map(([, m], i) => (i === 0 ? 0 : m)), advantage }));

/** Weights that the gradient moves. */
function touched(gradient: Float64Array): number[] {
  return [...gradient.keys()].filter((i) => gradient[i] !== 0);
}

function assertGradient(
  loss: (weights: Float64Array) => number,
  weights: Float64Array,
  gradient: Float64Array,
  at: readonly number[],
): void {
  const step = 1e-5;
  for (const i of at) {
    const moved = (by: number): Float64Array => weights.with(i, (weights[i] as number) + by);
    const slope = (loss(moved(step)) - loss(moved(-step))) / (2 * step);
    const exact = gradient[i] as number;
    assert.ok(Math.abs(slope - exact) < 1e-6 * Math.max(1, Math.abs(exact)), `weight ${i}: ${exact}, by differences ${slope}`);
  }
}

test('the log-probabilities of a place are those of a distribution', () => {
  const weights = weightsOf(1, 20);
  const logps = logProbabilities(weights, { ids: [3, 1, 4], first: 0, at: 3 }, new Float64Array(VOCABULARY_SIZE));
  assert.ok(Math.abs(logps.reduce((sum, logp) => sum + Math.exp(logp), 0) - 1) < 1e-12);
});

test('the gradient of a log-probability is that of finite differences', () => {
  const weights = weightsOf(2);
  for (const ids of [[2, 10, 11, 12, 1, 10], [4, 4, 4, 4], [7, 0], [9]]) {
    const place = { ids, first: 0, at: ids.length - 1 };
    const logpOf = (w: Float64Array): number =>
      logProbabilities(w, place, new Float64Array(VOCABULARY_SIZE))[ids.at(-1) as number] as number;
    const gradient = new Float64Array(WEIGHTS);
    addGradient(gradient, logProbabilities(weights, place, new Float64Array(VOCABULARY_SIZE)), place, 1);
    assertGradient(logpOf, weights, gradient, [...gradient.keys()]);
  }
});

for (const [name, rl] of Object.entries({ dppoKl, ppoClip }) as [string, RlLoss][]) {
  test(`the gradient of a batch under ${name} is that of finite differences`, () => {
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 4 }), fc.integer(), (rows, seed) => {
        const weights = weightsOf(seed);
        // near the sampler, as an asynchronous trainer is; a token at the very edge of a trust region has no gradient to compare
        const microBatch = microBatchOf(
          rows,
          weightsOf(seed + 1, 0.02).map((drift, i) => drift + (weights[i] as number)),
        );
        const of = (w: Float64Array) => batchGradient(w, [microBatch], [microBatch.advantages()], 7, rl);
        const { gradient } = of(weights);
        // some of those it moves, and some of all, which it may have forgotten
        const at = [...touched(gradient).filter((_, i) => i % 17 === 0), ...[...gradient.keys()].filter((i) => i % 61 === 0)];
        assertGradient((w) => of(w).metrics.loss, weights, gradient, at);
      }),
      { numRuns: 25 },
    );
  });
}

test('a token without rl weight, advantage or mask gives no gradient; weights scale it', () => {
  const rows = [{ ids: [2, 10, 11], mask: [0, 1, 1], advantage: 1 }];
  const weights = weightsOf(3);
  const gradientOf = (rlWeights: readonly number[] | null) => {
    const microBatch = microBatchOf(rows, weights, rlWeights);
    return batchGradient(weights, [microBatch], [microBatch.advantages()], 2, dppoKl);
  };
  assert.equal(gradientOf([0, 0, 0]).metrics.tokens, 0);
  assert.equal(gradientOf([1, 1, 0]).metrics.tokens, 1);
  const [once, twice] = [gradientOf(null).gradient, gradientOf([2, 2, 2]).gradient];
  for (const i of touched(once)) assert.ok(Math.abs((twice[i] as number) - 2 * (once[i] as number)) < 1e-12);
});

test('rows see nothing of the rows before them', () => {
  const weights = weightsOf(4);
  const last = { ids: [5, 6, 7], mask: [0, 1, 1], advantage: 0.5 };
  const gradientOf = (rows: readonly Row[]) => {
    const microBatch = microBatchOf(rows, weights);
    return batchGradient(weights, [microBatch], [microBatch.advantages()], 2, dppoKl).gradient;
  };
  assert.deepEqual(gradientOf([{ ids: [1, 2, 3, 4], mask: [0, 0, 0, 0], advantage: 0 }, last]), gradientOf([last]));
});

test('the control gives every row the advantage of a row, each once, on its trained tokens and beside them', () => {
  const rows = [-1, -0.5, 0.5, 1].map((advantage) => ({ ids: [1, 2, 3], mask: [0, 1, 1], advantage }));
  const batches = [microBatchOf(rows.slice(0, 2), weightsOf(5)), microBatchOf(rows.slice(2), weightsOf(5))];
  const drawn = [1, 2, 3, 4].map((seed) =>
    shuffledAdvantages(batches, seededRandom(seed)).flatMap((each) => [each[1] as number, each[4] as number]),
  );
  for (const advantages of drawn) assert.deepEqual(advantages.toSorted((a, b) => a - b), [-1, -0.5, 0.5, 1]); // prettier-ignore
  assert.ok(new Set(drawn.map(String)).size > 1);
});
