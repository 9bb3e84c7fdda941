import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createSchedule } from './schedule.ts';

test('original and scaled gaps, clocks that run backwards, pauses that are cut', () => {
  const dues = (speed: number, maxPauseMs: number, times: number[]): number[] => {
    const schedule = createSchedule({ speed, maxPauseMs });
    return times.map((time) => schedule.dueMs(time));
  };
  assert.deepEqual(dues(1, Infinity, [5_000_000, 5_250_000, 6_000_000]), [0, 250, 1000]);
  assert.deepEqual(dues(4, Infinity, [5_000_000, 5_250_000, 6_000_000]), [0, 62.5, 250]);
  assert.deepEqual(dues(1, Infinity, [5_000_000, 4_000_000, 5_500_000]), [0, 0, 500]);
  assert.deepEqual(dues(1, 100, [0, 86_400_000_000, 86_400_010_000]), [0, 100, 110]);
});

test('never runs backwards, and never waits longer than asked', () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat({ max: 1e9 })),
      fc.double({ min: 0.1, max: 100, noNaN: true }),
      fc.nat({ max: 10_000 }),
      (times, speed, maxPauseMs) => {
        const schedule = createSchedule({ speed, maxPauseMs });
        let last = 0;
        for (const time of times) {
          const due = schedule.dueMs(time);
          assert.ok(due >= last && due - last <= maxPauseMs + 1e-6);
          last = due;
        }
      },
    ),
  );
});
