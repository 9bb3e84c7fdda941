/** The estimators against their definitions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seededRandom } from '../../../base/random.ts';
import { bestOfK, type Candidate } from './best-of-k.ts';
import { majorityAtK, type Vote } from './majority-vote.ts';
import { passAtK, passHatK } from './pass-at-k.ts';

function near(actual: number, expected: number, relative = 1e-12): void {
  assert.ok(Math.abs(actual - expected) <= relative * Math.max(1, Math.abs(expected)), `${actual} is not ${expected}`);
}

function binomial(n: number, k: number): bigint {
  if (k < 0 || k > n) return 0n;
  let result = 1n;
  for (let i = 1; i <= k; i++) result = (result * BigInt(n - i + 1)) / BigInt(i);
  return result;
}

/** a / b as a double, from integers of any size. */
function quotient(a: bigint, b: bigint): number {
  return Number((a * 10n ** 30n) / b) / 1e30;
}

function subsets<T>(items: readonly T[], k: number): T[][] {
  if (k === 0) return [[]];
  return items.flatMap((item, place) => subsets(items.slice(place + 1), k - 1).map((rest) => [item, ...rest]));
}

const nck = fc
  .integer({ min: 1, max: 2_000 })
  .chain((n) => fc.record({ n: fc.constant(n), c: fc.integer({ min: 0, max: n }), k: fc.integer({ min: 1, max: n }) }));

test('pass@k and pass^k equal their binomials, also where doubles overflow', () => {
  const check = ({ n, c, k }: { n: number; c: number; k: number }): void => {
    const all = binomial(n, k);
    near(passAtK(n, c, k), 1 - quotient(binomial(n - c, k), all), 1e-11);
    near(passHatK(n, c, k), quotient(binomial(c, k), all), 1e-11);
  };
  fc.assert(fc.property(nck, check), { numRuns: 150 });
  check({ n: 1_030, c: 515, k: 515 });
  check({ n: 5_000, c: 2, k: 2_500 });
});

test('pass@k is the share of subsets with a success, pass^k of those with successes only', () => {
  fc.assert(
    fc.property(fc.array(fc.boolean(), { minLength: 1, maxLength: 9 }), fc.nat(), (rollouts, seed) => {
      const k = 1 + (seed % rollouts.length);
      const drawn = subsets(rollouts, k);
      const c = rollouts.filter(Boolean).length;
      near(passAtK(rollouts.length, c, k), drawn.filter((each) => each.some(Boolean)).length / drawn.length);
      near(passHatK(rollouts.length, c, k), drawn.filter((each) => each.every(Boolean)).length / drawn.length);
    }),
  );
});

test('edges of pass@k: k = 1 is the share, k = n is any or all; impossible ones are refused', () => {
  assert.equal(passAtK(8, 2, 1), 0.25);
  assert.equal(passHatK(8, 2, 1), 0.25);
  assert.deepEqual([passAtK(8, 1, 8), passAtK(8, 0, 8), passHatK(8, 8, 8), passHatK(8, 7, 8)], [1, 0, 1, 0]);
  for (const [n, c, k] of [[4, 2, 5], [4, 5, 2], [4, -1, 2], [4, 2, 0], [4.5, 2, 1], [0, 0, 1]] as const) {
    assert.throws(() => passAtK(n, c, k), RangeError);
    assert.throws(() => passHatK(n, c, k), RangeError);
  }
}); // prettier-ignore

test('pass@k grows with k and with c; pass^k falls with k', () => {
  fc.assert(
    fc.property(nck, ({ n, c, k }) => {
      if (k < n) assert.ok(passAtK(n, c, k + 1) >= passAtK(n, c, k) - 1e-12);
      if (k < n) assert.ok(passHatK(n, c, k + 1) <= passHatK(n, c, k) + 1e-12);
      if (c < n) assert.ok(passAtK(n, c + 1, k) >= passAtK(n, c, k) - 1e-12);
      assert.ok(passAtK(n, c, k) >= 0 && passAtK(n, c, k) <= 1);
    }),
    { numRuns: 200 },
  );
});

/** The worth of the best of a subset; among equals, one by lot. */
function bestOf(drawn: readonly Candidate[]): number {
  const top = Math.max(...drawn.map(({ chosenBy }) => chosenBy));
  const best = drawn.filter(({ chosenBy }) => chosenBy === top);
  return best.reduce((sum, { worth }) => sum + worth, 0) / best.length;
}

test('best of k is the mean over subsets of the worth of the best', () => {
  const candidate = fc.record({ chosenBy: fc.integer({ min: 0, max: 3 }), worth: fc.integer({ min: -5, max: 5 }) });
  fc.assert(
    fc.property(fc.array(candidate, { minLength: 1, maxLength: 8 }), fc.nat(), (candidates, seed) => {
      const k = 1 + (seed % candidates.length);
      const drawn = subsets(candidates, k);
      near(bestOfK(candidates, k), drawn.reduce((sum, each) => sum + bestOf(each), 0) / drawn.length, 1e-10);
    }),
  );
});

test('best of k: what is never chosen counts for nothing, and nobody chooses by NaN', () => {
  const candidates = [{ chosenBy: -Infinity, worth: -Infinity }, { chosenBy: 1, worth: 3 }, { chosenBy: 2, worth: 5 }]; // prettier-ignore
  near(bestOfK(candidates, 3), 5);
  near(bestOfK(candidates, 2), 13 / 3);
  assert.equal(bestOfK(candidates, 1), -Infinity);
  assert.throws(() => bestOfK([...candidates, { chosenBy: NaN, worth: 1 }], 2), RangeError);
});

test('best of k by its own binary worth is pass@k', () => {
  fc.assert(
    fc.property(nck, ({ n, c, k }) => {
      const candidates = Array.from({ length: n }, (_, place) => ({ chosenBy: place < c ? 1 : 0, worth: place < c ? 1 : 0 }));
      near(bestOfK(candidates, k), passAtK(n, c, k), 1e-9);
    }),
    { numRuns: 60 },
  );
});

test('maj@k: one vote over all, the mean over subsets, near it when sampled; ties share', () => {
  const votes: Vote[] = [1, 1, 2, 2, 3].map((answer) => ({ answer, correct: answer === 1 ? 1 : 0 }));
  assert.deepEqual(majorityAtK(votes, 5, seededRandom(1)), { value: 0.5, method: 'all' });
  assert.deepEqual(majorityAtK(votes, 1, seededRandom(1)), { value: 2 / 5, method: 'exact' });
  const many: Vote[] = Array.from({ length: 60 }, (_, place) => ({
    answer: place % 3 === 0 ? 1 : place,
    correct: place % 3 === 0 ? 1 : 0,
  }));
  const sampled = majorityAtK(many, 9, seededRandom(1));
  assert.equal(sampled.method, 'sampled');
  assert.deepEqual(sampled, majorityAtK(many, 9, seededRandom(1)));
  assert.ok(sampled.value > 0.8);
});
