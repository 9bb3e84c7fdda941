import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Clock } from '../../base/clock.ts';
import { createIdempotencyWindow, type Answer } from './idempotency.ts';

let now = 0;
const clock: Clock = { nowMicros: () => 0, monotonicMs: () => now, sleep: () => new Promise(() => {}) };
const open = (maxBytes = 1_000_000): ReturnType<typeof createIdempotencyWindow> =>
  createIdempotencyWindow({ maxBytes, keepMs: 1000, clock });
const answer = (body: string, status = 200): Answer => ({ status, body, headers: {} });
const A = Buffer.from('a');
const B = Buffer.from('b');

test('the same key and body gets the stored answer, another body is a mismatch', async () => {
  const window = open();
  let runs = 0;
  const work = async (): Promise<Answer> => answer(String(++runs));
  assert.deepEqual(await window.run('k', A, work), { answer: answer('1'), replayed: false });
  assert.deepEqual(await window.run('k', A, work), { answer: answer('1'), replayed: true });
  await assert.rejects(window.run('k', B, work), { code: 'idempotency_mismatch' });
  assert.deepEqual(await window.run('other', B, work), { answer: answer('2'), replayed: false });
});

test('a request in flight is joined, not run twice', async () => {
  const window = open();
  const gate = Promise.withResolvers<Answer>();
  let runs = 0;
  const work = (): Promise<Answer> => (runs++, gate.promise);
  const both = [window.run('k', A, work), window.run('k', A, work)];
  await assert.rejects(window.run('k', B, work), { code: 'idempotency_mismatch' });
  gate.resolve(answer('x'));
  assert.deepEqual(
    (await Promise.all(both)).map((r) => r.replayed),
    [false, true],
  );
  assert.equal(runs, 1);
});

test('answers that ask for a retry, and failures, are not kept', async () => {
  const window = open();
  for (const status of [503, 429, 500]) {
    await window.run('k', A, async () => answer('no', status));
    assert.equal((await window.run('k', A, async () => answer('yes', 503))).replayed, false);
  }
  await assert.rejects(
    window.run('k', A, () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal((await window.run('k', A, async () => answer('yes'))).replayed, false);
});

test('the window is bounded by bytes and by time, oldest first', async () => {
  const window = open(2000);
  for (let i = 0; i < 20; i++) {
    await window.run(`k${i}`, A, async () => answer('x'.repeat(100)));
    assert.ok(window.bytes <= 2000);
  }
  assert.equal((await window.run('k19', A, async () => answer('new'))).replayed, true);
  assert.equal((await window.run('k0', A, async () => answer('new'))).replayed, false);
  now += 1001;
  assert.equal((await window.run('k19', A, async () => answer('new'))).replayed, false);
});
