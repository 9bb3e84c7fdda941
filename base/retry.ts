import type { Clock } from './clock.ts';
import type { Random } from './random.ts';

export type Verdict = 'retry' | 'permanent' | 'unknown';
export type Backoff = { readonly firstMs: number; readonly maxMs: number };

/**
 * The one retry loop. `classify` has three answers: `retry` waits (exponential back-off with full jitter) and tries again until the signal
 * aborts; `permanent` and `unknown` throw at once. `onRetry` makes the waiting visible (what, which attempt, for how long).
 */
export async function retry<T>(
  work: (attempt: number) => Promise<T>,
  options: {
    clock: Clock;
    random: Random;
    backoff: Backoff;
    classify: (error: unknown) => Verdict;
    signal: AbortSignal;
    onRetry?: (error: unknown, attempt: number, waitMs: number) => void;
  },
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    options.signal.throwIfAborted();
    try {
      return await work(attempt);
    } catch (error) {
      if (options.classify(error) !== 'retry') throw error;
      const ceiling = Math.min(options.backoff.maxMs, options.backoff.firstMs * 2 ** Math.min(attempt - 1, 20));
      const waitMs = Math.ceil(ceiling * (0.5 + options.random.next() / 2));
      options.onRetry?.(error, attempt, waitMs);
      await options.clock.sleep(waitMs, options.signal);
    }
  }
}
