import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { createProducers } from './accept-producers.ts';
import { producerKey, type ProducerState } from './accept-sequence.ts';

const patient = { clock: systemClock, waitMs: 1000 };
const keyOf = (id: string): string => producerKey({ project: 'default', id });
const none = new Map<string, ProducerState>();
const settled = (epoch: number, next: number): ProducerState => ({ epoch, certain: next, next });

test('before loading, judging is refused as something to retry; loaded states count', async () => {
  const producers = createProducers({ loadProducers: async () => new Map([[keyOf('p'), settled(1, 4)]]) });
  assert.throws(() => producers.judge({ project: 'default', id: 'p', epoch: 1, seq: 4 }, none, 0), { code: 'store_unavailable' });
  await producers.load();
  assert.equal(producers.judge({ project: 'default', id: 'p', epoch: 1, seq: 4 }, none, 0).kind, 'take');
  assert.equal(producers.judge({ project: 'default', id: 'p', epoch: 1, seq: 3 }, none, 0).kind, 'duplicate');
  assert.equal(producers.judge({ project: 'default', id: 'p', epoch: 0, seq: 0 }, none, 0).kind, 'refuse');
});

test('a failed load leaves it not loaded and can be repeated', async () => {
  let fails = true;
  const producers = createProducers({
    loadProducers: async () => {
      if (fails) throw new Error('down');
      return new Map();
    },
  });
  await assert.rejects(producers.load());
  assert.equal(producers.loaded, false);
  fails = false;
  await producers.load();
  assert.equal(producers.loaded, true);
});

test('memory is bounded: the least recently used is dropped, and unknown producers may then start anywhere', async () => {
  const producers = createProducers({ loadProducers: async () => new Map(), maxProducers: 2 });
  await producers.load();
  assert.equal(producers.judge({ project: 'default', id: 'a', epoch: 0, seq: 9 }, none, 0).kind, 'refuse');
  for (const id of ['a', 'b']) producers.commit(keyOf(id), settled(0, 5));
  producers.commit(keyOf('a'), settled(0, 6));
  producers.commit(keyOf('c'), settled(0, 1));
  assert.equal(producers.size, 2);
  assert.equal(producers.judge({ project: 'default', id: 'b', epoch: 0, seq: 5 }, none, 0).kind, 'take');
  assert.equal(producers.judge({ project: 'default', id: 'a', epoch: 0, seq: 9 }, none, 0).kind, 'refuse');
});

test('works that share a producer run one after another in the order they came, others at once', async () => {
  const producers = createProducers({ loadProducers: async () => new Map() });
  const log: string[] = [];
  const work = (name: string, ids: string[], ms: number): Promise<void> =>
    producers.exclusive(ids, patient, async () => {
      log.push(`+${name}`);
      await delay(ms);
      log.push(`-${name}`);
    });
  await Promise.all([work('1', ['a', 'b'], 20), work('2', ['b', 'c'], 5), work('3', ['c', 'a'], 5), work('4', ['d'], 5)]);
  assert.deepEqual(log, ['+1', '+4', '-4', '-1', '+2', '-2', '+3', '-3']);
});

test('a work that throws lets the next one run', async () => {
  const producers = createProducers({ loadProducers: async () => new Map() });
  const failing = producers.exclusive(['a'], patient, async () => {
    throw new Error('no');
  });
  const next = producers.exclusive(['a'], patient, async () => 'ran');
  await assert.rejects(failing, /no/);
  assert.equal(await next, 'ran');
});

test('who waits too long gives up, and who comes after it still waits for those before', async () => {
  const producers = createProducers({ loadProducers: async () => new Map() });
  const gate = Promise.withResolvers<void>();
  const order: string[] = [];
  const first = producers.exclusive(['a'], patient, async () => {
    await gate.promise;
    order.push('first');
  });
  const second = producers.exclusive(['a'], { clock: systemClock, waitMs: 20 }, async () => order.push('second'));
  const third = producers.exclusive(['a'], patient, async () => order.push('third'));
  await assert.rejects(second, { code: 'deadline_exceeded', message: /earlier requests of the same producer/ });
  await delay(20);
  assert.deepEqual(order, []);
  gate.resolve();
  await Promise.all([first, third]);
  assert.deepEqual(order, ['first', 'third']);
});
