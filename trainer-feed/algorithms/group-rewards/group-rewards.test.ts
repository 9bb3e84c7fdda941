import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { bradleyTerry } from './bradley-terry.ts';
import { conciseness } from './conciseness.ts';
import { pairwiseQuestions, type Judgement, type Verdict } from './group-reward.ts';
import { winRate } from './win-rate.ts';

const judged = (...rows: [number, number, Verdict][]): Judgement[] => rows.map(([first, second, verdict]) => ({ first, second, verdict }));
/** Answers of a judge that prefers the larger number, whatever the order. */
const fair = (strengths: readonly number[]): Judgement[] =>
  pairwiseQuestions(strengths.length).map(({ first, second }) => {
    const difference = (strengths[first] as number) - (strengths[second] as number);
    return { first, second, verdict: difference > 0 ? 'first' : difference < 0 ? 'second' : 'tie' };
  });

describe('pairwise win rate', () => {
  it('asks every pair in both orders', () => {
    assert.deepEqual(pairwiseQuestions(3).map(({ first, second }) => `${first}${second}`), ['01', '02', '10', '12', '20', '21']); // prettier-ignore
    assert.deepEqual(pairwiseQuestions(1), []);
  });
  it('is the share won, a tie counting half', () => {
    assert.deepEqual(winRate(3, fair([2, 1, 1])).scores, [1, 0.25, 0.25]);
  });
  it('cancels a judge that always prefers the first place', () => {
    const biased = pairwiseQuestions(3).map((q) => ({ ...q, verdict: 'first' as const }));
    assert.deepEqual(winRate(3, biased).scores, [0.5, 0.5, 0.5]);
  });
  it('weighs every opponent the same when an answer is missing, and leaves a member nobody compared without a score', () => {
    assert.deepEqual(winRate(4, judged([0, 1, 'first'], [1, 0, 'second'], [0, 2, 'second'])).scores, [0.5, 0, 1, null]);
  });
  it('refuses a judgement of a member that is none', () => {
    assert.throws(() => winRate(2, judged([0, 2, 'tie'])), /compares 0 with 2 in a group of 2/);
    assert.throws(() => bradleyTerry(2, judged([1, 1, 'tie'])), RangeError);
  });
});

describe('Bradley-Terry ranking', () => {
  it('solves two members exactly: the odds of their points with the virtual tie', () => {
    const { scores } = bradleyTerry(2, judged([0, 1, 'first'], [1, 0, 'second'], [0, 1, 'first']));
    const half = Math.log(3.5 / 0.5) / 2;
    assert.ok(Math.abs((scores[0] as number) - half) < 1e-9 && Math.abs((scores[1] as number) + half) < 1e-9);
  });
  it('is finite for a member that won or lost everything, 0 for all when all are equal, and 0 for one alone', () => {
    assert.deepEqual(bradleyTerry(3, fair([1, 1, 1])).scores, [0, 0, 0]);
    assert.deepEqual(bradleyTerry(1, []).scores, [0]);
    assert.deepEqual(bradleyTerry(2, []).scores, [0, 0]);
    assert.ok(bradleyTerry(5, fair([5, 4, 3, 2, 1])).scores.every((s) => Number.isFinite(s)));
  });
  it('ranks as the judge does, sums to 0, and satisfies the likelihood equations', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 2, maxLength: 8 }), (strengths) => {
        const answers = fair(strengths);
        const scores = bradleyTerry(strengths.length, answers).scores as number[];
        assert.ok(Math.abs(scores.reduce((a, b) => a + b, 0)) < 1e-9);
        for (const [i, a] of strengths.entries()) for (const [j, b] of strengths.entries()) if (a > b) assert.ok((scores[i] as number) > (scores[j] as number)); // prettier-ignore
        // expected points under the fitted strengths are the points scored, virtual ties included
        const p = scores.map(Math.exp);
        for (const i of strengths.keys()) {
          let expected = 0;
          let scored = 0;
          for (const j of strengths.keys()) {
            if (i === j) continue;
            expected += (3 * (p[i] as number)) / ((p[i] as number) + (p[j] as number));
            const difference = (strengths[i] as number) - (strengths[j] as number);
            scored += 0.5 + 2 * (difference > 0 ? 1 : difference < 0 ? 0 : 0.5);
          }
          assert.ok(Math.abs(expected - scored) < 1e-3);
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('conciseness bonus', () => {
  const of = (...members: [number | null, number][]) => conciseness(members.map(([correctness, length]) => ({ correctness, length })), { bonus: 0.5, threshold: 1 }).scores; // prettier-ignore
  it('gives the shortest correct member all of it, the longest none', () => {
    assert.deepEqual(of([1, 100], [1, 200], [1, 150], [0.5, 10], [null, 10]), [0.5, 0, 0.25, 0, 0]);
  });
  it('gives equal lengths all of it, and nothing where fewer than two are correct', () => {
    assert.deepEqual(of([1, 7], [2, 7]), [0.5, 0.5]);
    assert.deepEqual(of([1, 7], [0, 9]), [0, 0]);
    assert.deepEqual(of(), []);
  });
});
