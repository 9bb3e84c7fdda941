import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { systemClock } from './clock.ts';

test('sleep resolves after its time, and leaves nothing on the signal', async () => {
  const stop = new AbortController();
  const started = systemClock.monotonicMs();
  await systemClock.sleep(20, stop.signal);
  assert.ok(systemClock.monotonicMs() - started >= 18);
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
});

test('an abort ends it at once with the reason of the signal, before and during the sleep', async () => {
  const reason = new Error('enough');
  const stop = new AbortController();
  const sleeping = systemClock.sleep(60_000, stop.signal);
  stop.abort(reason);
  await assert.rejects(sleeping, reason);
  await assert.rejects(systemClock.sleep(60_000, stop.signal), reason);
});
