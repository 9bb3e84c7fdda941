import type { Clock } from './clock.ts';
import { TapedeckError } from './errors.ts';

/** A reason made once: `abort()` without one makes an error with a stack each time. */
const SETTLED = new Error('the work has settled');

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
  const inner = new AbortController();
  const done = new AbortController();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  const end = (error: TapedeckError): void => {
    reject(error);
    inner.abort(error);
  };
  const onAbort = (): void => {
    const reason: unknown = signal?.reason;
    end(
      reason instanceof TapedeckError ? reason : new TapedeckError('aborted', `aborted while waiting for ${waitingFor}`, { cause: reason }),
    );
  };
  const onTime = (): void =>
    end(
      new TapedeckError('deadline_exceeded', `no answer within ${ms} ms while waiting for ${waitingFor}`, { details: { waitingFor, ms } }),
    );

  clock.sleep(ms, done.signal).then(onTime, () => {});
  // Not AbortSignal.any: it keeps every signal it made alive for as long as a long-lived `signal` is.
  if (signal?.aborted) onAbort();
  else signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work(inner.signal), ended]);
  } finally {
    signal?.removeEventListener('abort', onAbort);
    done.abort(SETTLED);
  }
}
