import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { systemClock } from './clock.ts';
import { withDeadline } from './deadline.ts';
import { isTapedeckError, TapedeckError } from './errors.ts';

const never = (): Promise<never> => new Promise(() => {});

test('a result in time is the result, and nothing is left on the signal', async () => {
  const stop = new AbortController();
  assert.equal(await withDeadline(systemClock, 1000, 'x', async () => 7, stop.signal), 7);
  await assert.rejects(
    withDeadline(systemClock, 1000, 'x', () => Promise.reject(new Error('own')), stop.signal),
    /own/,
  );
  assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
});

test('the deadline says what was waited for and tells the work', async () => {
  let told: AbortSignal | undefined;
  const waiting = withDeadline(systemClock, 5, 'the tide', (signal) => {
    told = signal;
    return never();
  });
  await assert.rejects(waiting, (e) => isTapedeckError(e, 'deadline_exceeded') && e.message.includes('the tide'));
  assert.equal(told?.aborted, true);
});

test('an abort before or while waiting ends by name; a reason of ours passes through', async () => {
  await assert.rejects(withDeadline(systemClock, 1000, 'x', never, AbortSignal.abort()), (e) => isTapedeckError(e, 'aborted'));
  const stop = new AbortController();
  const waiting = withDeadline(systemClock, 1000, 'x', never, stop.signal);
  stop.abort(new TapedeckError('closed', 'going down'));
  await assert.rejects(waiting, (e) => isTapedeckError(e, 'closed'));
});
