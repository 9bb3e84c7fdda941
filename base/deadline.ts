import type { Clock } from './clock.ts';
import { TapedeckError } from './errors.ts';

/**
 * Runs `work` with a deadline. After `ms` the work's signal aborts and the promise rejects with `deadline_exceeded`, which says what was
 * waited for. When `signal` aborts first, it rejects with `aborted`. The work itself is told, never left running unknowingly.
 */
export async function withDeadline<T>(
  clock: Clock,
  ms: number,
  waitingFor: string,
  work: (signal: AbortSignal) => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const stop = new AbortController();
  const done = new AbortController();
  const outer = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const timer = clock.sleep(ms, done.signal).then(
    () => {
      const error = new TapedeckError('deadline_exceeded', `no answer within ${ms} ms while waiting for ${waitingFor}`, {
        details: { waitingFor, ms },
      });
      stop.abort(error);
      throw error;
    },
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([work(outer), timer, abortion(outer, waitingFor)]);
  } finally {
    done.abort();
  }
}

function abortion(signal: AbortSignal, waitingFor: string): Promise<never> {
  return new Promise((_, reject) => {
    const onAbort = (): void =>
      reject(
        signal.reason instanceof TapedeckError
          ? signal.reason
          : new TapedeckError('aborted', `aborted while waiting for ${waitingFor}`, { cause: signal.reason }),
      );
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}
