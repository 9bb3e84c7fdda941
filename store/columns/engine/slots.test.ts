import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { createSlots } from './slots.ts';

const slotsOf = (count: number, maxWaitMs = 10_000) => createSlots(count, { maxWaiting: 2, maxWaitMs }, systemClock);
const isRefusal = (error: unknown): boolean => isTapedeckError(error, 'sql_refused') && error.details['clickhouseCode'] === 202;

test('a slot goes to who has waited longest', async () => {
  const slots = slotsOf(1);
  const { signal } = new AbortController();
  const slot = await slots.acquire(signal);
  const order: string[] = [];
  const first = slots.acquire(signal).then((given) => [order.push('first'), slots.release(given)]);
  const second = slots.acquire(signal).then(() => order.push('second'));
  assert.deepEqual([slots.busy, slots.waiting], [1, 2]);
  await assert.rejects(slots.acquire(signal), isRefusal); // the line is full
  slots.release(slot);
  await Promise.all([first, second]);
  assert.deepEqual([order, slots.busy, slots.waiting], [['first', 'second'], 1, 0]);
  assert.deepEqual(getEventListeners(signal, 'abort'), [], 'nothing is left on the signal');
});

test('who waits too long is refused, who is aborted gets the reason, and neither keeps a place or a listener', async () => {
  const slots = slotsOf(1, 20);
  const { signal } = new AbortController();
  await slots.acquire(signal);
  await assert.rejects(slots.acquire(signal), isRefusal);
  assert.deepEqual(getEventListeners(signal, 'abort'), []);
  const stop = new AbortController();
  const waiting = slots.acquire(stop.signal);
  const why = new Error('gone');
  stop.abort(why);
  await assert.rejects(waiting, why);
  assert.equal(slots.waiting, 0);
});

test('a turn that comes in the moment of the abort is passed on', async () => {
  const slots = slotsOf(1);
  const slot = await slots.acquire(new AbortController().signal);
  const stop = new AbortController();
  const leaving = slots.acquire(stop.signal);
  const staying = slots.acquire(new AbortController().signal);
  stop.abort(new Error('gone'));
  slots.release(slot);
  await assert.rejects(leaving, /gone/);
  assert.equal(await staying, slot);
  assert.equal(slots.busy, 1);
});
