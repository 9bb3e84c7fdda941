import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EstimatesAnswer } from '../../query/analytics/estimates.ts';
import { judge, kOf, parseGate, type Gate } from './gate.ts';

function gate(text: string): Gate {
  const parsed = parseGate(text);
  assert.ok(parsed.ok, text);
  return parsed.value;
}

const overall = (measure: string, estimate: number | null): object => ({ measure, k: 1, estimate });
const answer = (pass1: number | null, counts: object = {}): EstimatesAnswer =>
  ({
    estimates: {
      avg: overall('avg', pass1),
      passAtK: [overall('pass@1', pass1)],
      passHatK: [overall('pass^4', 0.2)],
      bestAtK: [],
      majority: null,
    },
    counts: { rollouts: 100, superseded: 0, missing: 0, failed: 0, unscored: 0, nan: 0, ...counts },
  }) as unknown as EstimatesAnswer;

test('limits hold or not; per cent is a hundredth', () => {
  const failed = (text: string, value: number | null): boolean => judge(gate(text), answer(value), null).failed;
  assert.deepEqual([failed('pass@1 < 0.8', 0.79), failed('pass@1 < 0.8', 0.8), failed('pass@1<=80%', 0.8), failed('pass@1 > 0.8', 0.8)], [true, false, true, false]);
  assert.deepEqual([failed('avg >= -1.5', -1.5), failed('pass^4 < 0.1', 0), failed('  avg   <  2 ', 1)], [true, false, true]);
}); // prettier-ignore

test('what has no estimate fails: nobody knows that it is good enough', () => {
  for (const text of ['pass@1 < 0.8', 'pass@7 < 0.1', 'maj@3 < 0.1', 'significantly worse than baseline'])
    assert.equal(judge(gate(text), answer(null), null).failed, true, text);
});

test('rollouts without a score', () => {
  const result = judge(gate('unscored > 5%'), answer(1, { failed: 4, missing: 2 }), null);
  assert.deepEqual([result.failed, result.because], [true, 'unscored is 5.9 %']);
});

test('the k that gates need', () => {
  assert.deepEqual(['pass@16 < 1', 'pass^2 < 1', 'avg < 1', 'pass@4 significantly worse than baseline', 'significantly worse than baseline'].map((text) => kOf(gate(text))), [16, 2, null, 4, null]); // prettier-ignore
});

test('anything else is refused with examples', () => {
  for (const text of [
    '',
    'pass@1',
    'pass@0 < 1',
    'pass@1 < x',
    'pass@1 = 1',
    'reward < 1',
    'unscored significantly worse than baseline',
    'best@4 significantly worse than baseline',
    'maj@4 significantly worse than baseline',
    'worse',
  ]) {
    const parsed = parseGate(text);
    assert.ok(!parsed.ok && parsed.error.message.includes('pass@1 < 0.8'), text);
  }
});
