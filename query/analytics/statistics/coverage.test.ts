/** How often each interval covers the truth, simulated with a fixed seed: the claims of docs/analytics.md, and why rollouts must not be pooled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seededRandom } from '../../../base/random.ts';
import { bootstrapOverTasks } from './bootstrap.ts';
import { clopperPearson, intervalOverTasks, wilson } from './interval.ts';
import { minimumDetectable, pairedT } from './paired.ts';
import { passAtK } from './pass-at-k.ts';
import { signFlip } from './sign-flip.ts';

const random = seededRandom(20_260_101);
const chance = (p: number): boolean => random.next() < p;
const between = (low: number, high: number, value: number, what: string): void =>
  assert.ok(value >= low && value <= high, `${what}: ${value.toFixed(3)} is not between ${low} and ${high}`);

function normal(): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}

/** Chances of tasks as evals have them: many hard, many easy, few between; their mean is 1/2. */
function taskChance(): number {
  return Math.sin((Math.PI / 2) * random.next()) ** 2;
}

function rollouts(p: number, n: number): number {
  let solved = 0;
  for (let i = 0; i < n; i++) if (chance(p)) solved++;
  return solved;
}

/** The share of simulated evals whose interval holds `truth`. */
function coverage(
  rounds: number,
  truth: number,
  interval: () => { readonly low: number | null; readonly high: number | null } | null,
): number {
  let covered = 0;
  for (let round = 0; round < rounds; round++) {
    const found = interval();
    if (found !== null && found.low !== null && found.high !== null && found.low <= truth && truth <= found.high) covered++;
  }
  return covered / rounds;
}

const TASKS = 30;
const N = 8;
const OPTIONS = { confidence: 0.95, share: true };

test('30 tasks of 8 rollouts: t over tasks covers 95 %, Wilson on pooled rollouts far less', () => {
  const solved = (): number[] => Array.from({ length: TASKS }, () => rollouts(taskChance(), N));
  const clustered = coverage(3_000, 0.5, () => intervalOverTasks(solved().map((c) => passAtK(N, c, 1)), OPTIONS));
  between(0.93, 0.97, clustered, 't over tasks');
  const pooled = coverage(3_000, 0.5, () => wilson(solved().reduce((total, c) => total + c, 0), TASKS * N, 0.95));
  between(0.55, 0.72, pooled, 'pooled Wilson, which is wrong');
}); // prettier-ignore

test('pass@4 of 30 tasks of 8: t over tasks', () => {
  // E[1 - (1 - p)^4] for p of the arcsine law: 1 - 35/128
  const covered = coverage(3_000, 1 - 35 / 128, () => intervalOverTasks(Array.from({ length: TASKS }, () => passAtK(N, rollouts(taskChance(), N), 4)), OPTIONS));
  between(0.91, 0.97, covered, 't over tasks for pass@4');
}); // prettier-ignore

test('one rollout a task: Wilson over tasks', () => {
  const covered = coverage(4_000, 0.5, () =>
    intervalOverTasks(
      Array.from({ length: TASKS }, () => rollouts(taskChance(), 1)),
      OPTIONS,
    ),
  );
  between(0.93, 0.98, covered, 'Wilson over tasks');
});

test('Clopper-Pearson never covers less than it says', () => {
  for (const p of [0.02, 0.2, 0.5, 0.97])
    between(
      0.945,
      1,
      coverage(3_000, p, () => clopperPearson(rollouts(p, 20), 20, 0.95)),
      `at ${p}`,
    );
});

test('nearly certain tasks: all equal most of the time, and the interval still covers', () => {
  const covered = coverage(3_000, 0.99, () =>
    intervalOverTasks(
      Array.from({ length: 20 }, () => rollouts(0.99, 1)),
      OPTIONS,
    ),
  );
  between(0.93, 1, covered, 'Clopper-Pearson or Wilson');
});

test('bootstrap over 30 tasks', () => {
  const covered = coverage(600, 0.5, () =>
    bootstrapOverTasks(
      Array.from({ length: TASKS }, () => rollouts(taskChance(), N) / N),
      { confidence: 0.95, resamples: 400, random },
    ),
  );
  between(0.89, 0.97, covered, 'bootstrap');
});

test('paired t covers the difference, with half the width of an unpaired one', () => {
  let paired = 0;
  let unpaired = 0;
  const covered = coverage(2_000, 0.05, () => {
    const tasks = Array.from({ length: TASKS }, () => {
      const p = 0.9 * taskChance();
      return { base: rollouts(p, N) / N, other: rollouts(p + 0.05, N) / N };
    });
    const found = pairedT(tasks.map(({ base, other }) => other - base), 0.95);
    const sides = (['base', 'other'] as const).map((side) => intervalOverTasks(tasks.map((task) => task[side]), OPTIONS).se ?? 0);
    paired += found.se ?? 0;
    unpaired += Math.hypot(...sides);
    return found;
  });
  between(0.93, 0.97, covered, 'paired t');
  assert.ok(paired < 0.6 * unpaired, `paired ${paired}, unpaired ${unpaired}`);
}); // prettier-ignore

test('the sign-flip test errs in 5 % where there is no difference', () => {
  let rejected = 0;
  for (let round = 0; round < 800; round++) {
    const differences = Array.from({ length: 14 }, () => {
      const p = taskChance();
      return (rollouts(p, N) - rollouts(p, N)) / N;
    });
    if (signFlip(differences, { resamples: 1_000, random }).p < 0.05) rejected++;
  }
  between(0.02, 0.07, rejected / 800, 'errors');
});

test('the smallest difference that is said to be found is found in 80 % of tries', () => {
  const spread = 0.3;
  const sample = (shift: number): number[] => Array.from({ length: 50 }, () => shift + spread * normal());
  let shift = 0;
  for (let round = 0; round < 400; round++) shift += (minimumDetectable(sample(0), 0.95, 0.8) as number) / 400;
  let found = 0;
  for (let round = 0; round < 2_000; round++) if ((pairedT(sample(shift), 0.95).p as number) < 0.05) found++;
  between(0.76, 0.84, found / 2_000, 'power');
});
