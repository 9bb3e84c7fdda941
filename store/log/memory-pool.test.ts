import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMemoryPool } from './memory-pool.ts';

const PIECE = 1024 * 1024;

test('memory that was given back is taken again', () => {
  const pool = createMemoryPool(PIECE, 2);
  const first = pool.take(PIECE);
  pool.give(first);
  const second = pool.take(PIECE - 10);
  assert.equal(second.buffer, first.buffer);
  assert.equal(second.length, PIECE - 10);
  assert.notEqual(pool.take(PIECE).buffer, first.buffer);
});

test('a small batch takes a small piece, and pieces of all sizes share one bound', () => {
  const pool = createMemoryPool(PIECE, 1);
  const quarters = Array.from({ length: 5 }, () => pool.take(PIECE / 4 - 100));
  for (const quarter of quarters) assert.equal(quarter.buffer.byteLength, PIECE / 4);
  for (const quarter of quarters) pool.give(quarter);
  const whole = pool.take(PIECE);
  pool.give(whole);
  assert.notEqual(pool.take(PIECE).buffer, whole.buffer); // four quarters are free already
  const known = new Set(quarters.map(({ buffer }) => buffer));
  const again = Array.from({ length: 5 }, () => pool.take(PIECE / 4).buffer);
  assert.equal(again.filter((buffer) => known.has(buffer)).length, 4);
});

test('what does not fit is not pooled, and no more is kept than was asked for', () => {
  const pool = createMemoryPool(PIECE, 1);
  const [small, large, kept, over] = [pool.take(10), pool.take(PIECE + 1), pool.take(PIECE), pool.take(PIECE)];
  for (const memory of [small, large, kept, over]) pool.give(memory);
  assert.equal(pool.take(PIECE).buffer, kept.buffer);
  const fresh = pool.take(PIECE).buffer;
  for (const memory of [small, large, over]) assert.notEqual(fresh, memory.buffer);
});

test('pieces that a burst needed are let go when nothing needs them any more', () => {
  const pool = createMemoryPool(PIECE, 8);
  const burst = Array.from({ length: 8 }, () => pool.take(PIECE));
  const memories = new Set(burst.map(({ buffer }) => buffer));
  for (const memory of burst) pool.give(memory);
  // two at a time, for long
  for (let i = 0; i < 1000; i++) for (const memory of [pool.take(PIECE), pool.take(PIECE)]) pool.give(memory);
  const now = Array.from({ length: 8 }, () => pool.take(PIECE).buffer);
  assert.equal(now.filter((buffer) => memories.has(buffer)).length, 2);
});
