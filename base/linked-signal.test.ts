import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { withLinkedSignal } from './linked-signal.ts';

const listeners = (...signals: AbortSignal[]): number[] => signals.map((signal) => getEventListeners(signal, 'abort').length);

/** The reason with which the signal of the work aborts, after `act`. */
function reasonAfter(sources: readonly (AbortSignal | undefined)[], act: () => void): Promise<unknown> {
  return withLinkedSignal(sources, (signal) => {
    const { promise, resolve } = Promise.withResolvers<unknown>();
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener('abort', () => resolve(signal.reason));
    act();
    return promise;
  });
}

test('any of the sources aborts the work, with its reason; the first one counts', async () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const why = new Error('second');
  assert.equal(await reasonAfter([one.signal, undefined, other.signal], () => [other.abort(why), one.abort(new Error('first'))]), why);
  const gone = new Error('gone');
  assert.equal(await reasonAfter([new AbortController().signal, AbortSignal.abort(gone)], () => {}), gone);
});

test('while the work runs there is one listener on each source; none is left, however the work ends', async () => {
  const sources = [new AbortController().signal, new AbortController().signal] as const;
  assert.equal(await withLinkedSignal(sources, async () => listeners(...sources).join()), '1,1');
  assert.deepEqual(listeners(...sources), [0, 0]);
  await assert.rejects(
    withLinkedSignal(sources, () => Promise.reject(new Error('own'))),
    /own/,
  );
  await assert.rejects(
    withLinkedSignal(sources, () => {
      throw new Error('at once');
    }),
    /at once/,
  );
  assert.deepEqual(listeners(...sources), [0, 0]);
});

test('when one source aborts, the others are let go too', async () => {
  const stop = new AbortController();
  const longLived = new AbortController().signal;
  await reasonAfter([longLived, stop.signal], () => stop.abort());
  assert.deepEqual(listeners(longLived, stop.signal), [0, 0]);
});
