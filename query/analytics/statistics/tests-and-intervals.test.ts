/** Intervals and tests against their definitions; special functions against exact values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seededRandom } from '../../../base/random.ts';
import { bootstrapOverTasks } from './bootstrap.ts';
import { clopperPearson, intervalOverTasks, wilson } from './interval.ts';
import { deviation, mean, quantileOf, sum, summaryOf } from './moments.ts';
import { holm, mcNemar, minimumDetectable, pairedT, tasksNeeded } from './paired.ts';
import { signFlip } from './sign-flip.ts';
import { fairBinomialCdf, studentQuantile, studentTwoSided } from './special-functions.ts';
import { intervalOverStrata } from './strata.ts';

function near(actual: number | null, expected: number, tolerance = 1e-9): void {
  assert.ok(actual !== null && Math.abs(actual - expected) <= tolerance, `${actual} is not ${expected}`);
}
const RESAMPLING = { resamples: 2_000, random: seededRandom(7) };

test('Student with 1 and 2 degrees of freedom has closed forms', () => {
  near(studentQuantile(0.975, 1), Math.tan(Math.PI * 0.475), 1e-9);
  const p = 0.975;
  near(studentQuantile(p, 2), (2 * p - 1) / Math.sqrt(2 * p * (1 - p)), 1e-10);
  near(studentTwoSided(1, 1), 0.5);
  near(studentTwoSided(studentQuantile(0.975, 29), 29), 0.05);
  assert.deepEqual([studentTwoSided(Infinity, 5), studentTwoSided(-Infinity, 5)], [0, 0]);
  assert.ok(Number.isNaN(studentTwoSided(NaN, 5)));
});

test('the fair binomial is a sum of binomials', () => {
  near(fairBinomialCdf(2, 5), (1 + 5 + 10) / 32);
  near(fairBinomialCdf(0, 10), 1 / 1024);
  assert.deepEqual([fairBinomialCdf(-1, 4), fairBinomialCdf(4, 4)], [0, 1]);
});

test('Clopper-Pearson: closed forms at the ends', () => {
  const { low, high } = clopperPearson(0, 10, 0.95);
  assert.equal(low, 0);
  near(high, 1 - 0.025 ** (1 / 10));
  near(clopperPearson(10, 10, 0.95).low, 0.025 ** (1 / 10));
});

test('Wilson: the limits solve (p^ - p)^2 = z^2 p (1 - p) / n', () => {
  const { low, high } = wilson(7, 20, 0.95);
  const z = 1.959963984540054;
  for (const p of [low, high]) near((0.35 - p) ** 2, (z * z * p * (1 - p)) / 20);
});

test('the method follows from the estimates', () => {
  const options = { confidence: 0.95, share: true };
  const methodOf = (estimates: number[], share = true): string => intervalOverTasks(estimates, { ...options, share }).method;
  assert.equal(methodOf([0.5, 1, 0.25]), 't over tasks');
  assert.equal(methodOf([0, 1, 1]), 'Wilson over tasks');
  assert.equal(methodOf([1, 1, 1]), 'Clopper-Pearson over tasks');
  assert.equal(methodOf([0.5, 0.5]), 'Clopper-Pearson over tasks');
  assert.equal(methodOf([0, 1, 1], false), 't over tasks');
  assert.equal(methodOf([]), 'none');
  assert.equal(methodOf([0.5], false), 'none');
  const one = intervalOverTasks([1], options);
  near(one.low, 0.025);
  assert.equal(one.se, null);
});

test('t over tasks by hand', () => {
  const { low, high, se } = intervalOverTasks([1, 2, 3, 4], { confidence: 0.95, share: false });
  near(se, Math.sqrt(5 / 3) / 2);
  near(low, 2.5 - 3.182446305284263 * (Math.sqrt(5 / 3) / 2), 1e-8);
  near(high, 2.5 + 3.182446305284263 * (Math.sqrt(5 / 3) / 2), 1e-8);
});

test('strata: one is tasks, equal ones join, one task in one gives no interval', () => {
  const options = { confidence: 0.95, share: false };
  assert.deepEqual(intervalOverStrata([[1, 2, 4]], options), intervalOverTasks([1, 2, 4], options));
  const two = intervalOverStrata([[1, 2, 3], [11, 12, 13]], options);
  near(two.se, Math.sqrt(1 / 3 + 1 / 3) / 2);
  assert.equal(two.method, 't over tasks within envs');
  assert.equal(intervalOverStrata([[1], [2, 3]], options).method, 'none');
}); // prettier-ignore

test('moments: compensated, in any order the same; nothing of nothing is null', () => {
  assert.equal(sum([1e16, 1, -1e16]), 1);
  assert.deepEqual([mean([]), deviation([3]), deviation([0.1, 0.1, 0.1]), quantileOf([], 0.5)], [null, null, 0, null]);
  assert.equal(summaryOf([]).mean, null);
  near(quantileOf([1, 2, 3, 4], 0.5), 2.5);
  fc.assert(
    fc.property(fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 }), (values) => {
      assert.equal(sum(values), sum(values.toReversed()));
    }),
  );
});

test('the sign-flip test counts sign patterns', () => {
  const counted = (differences: readonly number[]): number => {
    const seen = Math.abs(differences.reduce((total, each) => total + each, 0));
    let hits = 0;
    for (let pattern = 0; pattern < 2 ** differences.length; pattern++) {
      const total = differences.reduce((part, each, bit) => part + (pattern & (1 << bit) ? each : -each), 0);
      if (Math.abs(total) >= seen - 1e-9) hits++;
    }
    return hits / 2 ** differences.length;
  };
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 10 }), (whole) => {
      const differences = whole.map((each) => each / 8);
      near(signFlip(differences, RESAMPLING).p, counted(differences));
    }),
  );
  // sums that are equal on paper differ in the last bits
  assert.equal(signFlip([0.4, 0.7], RESAMPLING).p, 2 / 4);
  assert.equal(signFlip([-0.2, 0.7, -0.9], RESAMPLING).p, 6 / 8);
  assert.deepEqual(signFlip([], RESAMPLING), { p: 1, method: 'exact', patterns: 1 });
  assert.equal(signFlip([0, 0, 0], RESAMPLING).p, 1);
});

test('beyond 20 differences the sign-flip test samples: never 0, near the exact value, the same for a seed', () => {
  const differences = Array.from({ length: 40 }, (_, place) => (place % 5 === 0 ? -0.1 : 0.1));
  const run = () => signFlip(differences, { resamples: 5_000, random: seededRandom(3) });
  const { p, method } = run();
  assert.equal(method, 'Monte Carlo');
  assert.ok(p > 0 && p < 0.01);
  assert.deepEqual(run(), run());
});

test('McNemar, Holm', () => {
  near(mcNemar(1, 9).p, (2 * (1 + 10)) / 1024);
  assert.equal(mcNemar(0, 0).p, 1);
  assert.equal(mcNemar(5, 5).p, 1);
  assert.deepEqual(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
  assert.deepEqual(holm([0.5, null, 0.9]), [1, null, 1]);
  assert.deepEqual(holm([]), []);
});

test('paired t, smallest difference that is found, tasks needed', () => {
  const { difference, se, p, low, high } = pairedT([0.1, 0.2, 0.3, 0.4], 0.95);
  near(difference, 0.25);
  near(se, Math.sqrt(0.05 / 3) / 2);
  near(p, 0.030466291662170977, 1e-8);
  near(((low as number) + (high as number)) / 2, 0.25);
  assert.equal(pairedT([0, 0], 0.95).p, 1);
  assert.equal(pairedT([0.5, 0.5], 0.95).p, 0);
  assert.deepEqual(pairedT([], 0.95).difference, null);
  assert.equal(pairedT([0.3], 0.95).low, null);
  assert.equal(minimumDetectable([0.3], 0.95, 0.8), null);
  near(minimumDetectable([0.1, -0.1, 0.2, -0.2], 0.95, 0.8), ((3.182446305284263 + 0.978472312371) * Math.sqrt(0.1 / 3)) / 2, 1e-6);
  assert.equal(tasksNeeded([0.1, -0.1, 0.2, 0.2], 0, 0.95, 0.8), null);
  assert.equal(tasksNeeded([1, -1], 0.5, 0.95, 0.8), Math.ceil(((1.959963984540054 + 0.8416212335729143) * Math.SQRT2 / 0.5) ** 2));
}); // prettier-ignore

test('the ends of the bootstrap are those of its confidence', () => {
  // the mean of 100 draws from 0 to 99 is nearly normal around 49.5 with a standard error of 28.866 / 10
  const values = Array.from({ length: 100 }, (_, at) => at);
  for (const [confidence, z] of [
    [0.95, 1.95996],
    [0.8, 1.28155],
  ] as const) {
    const found = bootstrapOverTasks(values, { confidence, resamples: 20_000, random: seededRandom(1) });
    assert.ok(Math.abs((found?.low ?? 0) - (49.5 - z * 2.8866)) < 0.2, `${confidence}: ${found?.low}`);
    assert.ok(Math.abs((found?.high ?? 0) - (49.5 + z * 2.8866)) < 0.2, `${confidence}: ${found?.high}`);
  }
});

test('the bootstrap draws whole tasks, the same for a seed', () => {
  const run = () => bootstrapOverTasks([0, 0, 1, 1, 1], { confidence: 0.95, resamples: 1_000, random: seededRandom(5) });
  assert.deepEqual(run(), run());
  const found = run();
  assert.ok(found !== null && found.low >= 0 && found.low < 0.6 && found.high > 0.6 && found.high <= 1);
  assert.equal(bootstrapOverTasks([1], { confidence: 0.95, resamples: 10, random: seededRandom(5) }), null);
});
