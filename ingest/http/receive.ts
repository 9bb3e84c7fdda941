import type { Readable } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { BodyBuffer } from './body-buffer.ts';

const SETTLED = new Error('the body has settled');

export type BodyDeadlines = { readonly clock: Clock; readonly bodyIdleMs: number; readonly bodyMs: number };

/**
 * Reads `source` to its end into `target`. Throws `slow_body` when no byte comes for `bodyIdleMs` or the whole takes longer than `bodyMs`, `truncated_body` when the
 * client goes away, and what `target.write` throws. After an error nothing more is read and `target` is not written to.
 */
export function receive(source: Readable, target: BodyBuffer, deadlines: BodyDeadlines): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const done = new AbortController();
  const settle = (error?: unknown): void => {
    source.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
    done.abort(SETTLED);
    if (error === undefined) resolve();
    else {
      source.pause();
      reject(error as Error);
    }
  };
  const onData = (chunk: Uint8Array): void => {
    try {
      target.write(chunk);
    } catch (error) {
      settle(error);
    }
  };
  const onEnd = (): void => settle();
  const onBroken = (): void => settle(new TapedeckError('truncated_body', `the connection broke after ${target.length} bytes of the body`));
  source.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  void watch(target, deadlines, done.signal).then(settle, () => {});
  return promise;
}

/** Resolves with the error when the body is too slow; rejects when `signal` aborts. */
async function watch(target: BodyBuffer, { clock, bodyIdleMs, bodyMs }: BodyDeadlines, signal: AbortSignal): Promise<TapedeckError> {
  const end = clock.monotonicMs() + bodyMs;
  for (let seen = -1; seen !== target.length;) {
    seen = target.length;
    const left = end - clock.monotonicMs();
    await clock.sleep(Math.min(bodyIdleMs, Math.max(left, 0)), signal);
    if (clock.monotonicMs() >= end) return tooSlow(`the body took longer than ${bodyMs} ms (${target.length} bytes came)`, bodyMs);
  }
  return tooSlow(`no byte of the body came for ${bodyIdleMs} ms (after ${target.length} bytes)`, bodyIdleMs);
}

function tooSlow(what: string, limit: number): TapedeckError {
  return new TapedeckError('slow_body', `${what}; send smaller batches or over a faster connection`, { details: { limit } });
}
