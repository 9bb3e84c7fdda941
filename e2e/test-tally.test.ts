import assert from 'node:assert/strict';
import { test } from 'node:test';
import { failedFiles, tallyOf, withSecondRun, type Tally } from './test-tally.ts';

function tally(entries: Record<string, { passed: number; failed: string[] }>): Tally {
  return new Map(Object.entries(entries).map(([file, { passed, failed }]) => [file, { passed, failed, skipped: [] }]));
}

test('a file that passes the second time counts, and its failure is told as unstable', () => {
  const first = tally({ a: { passed: 3, failed: [] }, b: { passed: 1, failed: ['b > slow'] } });
  const { tally: both, unstable } = withSecondRun(first, tally({ b: { passed: 2, failed: [] } }));
  assert.deepEqual(failedFiles(both), []);
  assert.equal(tallyOf(both, 'b').passed, 2);
  assert.deepEqual(unstable, ['b > slow']);
});

test('a file that fails again, or runs fewer tests than before, stays failed', () => {
  const first = tally({ a: { passed: 1, failed: ['a > x'] }, b: { passed: 0, failed: ['b > y'] } });
  const { tally: both, unstable } = withSecondRun(first, tally({ a: { passed: 1, failed: ['a > x'] }, b: { passed: 0, failed: [] } }));
  assert.deepEqual(failedFiles(both), ['a', 'b']);
  assert.deepEqual(unstable, []);
});
