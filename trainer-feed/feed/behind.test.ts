import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Behind } from './behind.ts';

test('one piece at a time, and its end can be waited for', async () => {
  const behind = new Behind();
  const first = Promise.withResolvers<void>();
  behind.begin(() => first.promise);
  assert.equal(behind.isBusy, true);
  assert.throws(() => behind.begin(() => Promise.resolve()), /has not ended/);
  first.resolve();
  await behind.settled();
  assert.equal(behind.isBusy, false);
  behind.begin(() => Promise.resolve());
  await behind.settled();
});

test('what went wrong is thrown once, to whoever asks next: at the next beginning or at the end', async () => {
  const behind = new Behind();
  behind.begin(() => Promise.reject(new Error('the disk is full')));
  await assert.rejects(behind.settled(), /the disk is full/);
  await behind.settled();
  behind.begin(() => Promise.reject(new Error('the disk is gone')));
  while (behind.isBusy) await Promise.resolve();
  assert.throws(() => behind.begin(() => Promise.resolve()), /the disk is gone/);
  behind.begin(() => Promise.resolve());
  await behind.settled();
});
