/** Calls of the program that wait for something in the queue to happen. While one waits, the process keeps running. */
import { systemClock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';

export type Waiters = {
  /** To be called whenever something has changed. */
  check(): void;
  /** Resolves once `isDone()`. Throws `deadline_exceeded`, which says `what` was waited for, or `aborted`. */
  wait(isDone: () => boolean, timeoutMs: number, what: string, signal?: AbortSignal): Promise<void>;
};

export function createWaiters(): Waiters {
  const waiting = new Set<{ readonly isDone: () => boolean; resolve: () => void }>();
  return {
    check: () => {
      for (const waiter of waiting) {
        if (!waiter.isDone()) continue;
        waiting.delete(waiter);
        waiter.resolve();
      }
    },
    wait: async (isDone, timeoutMs, what, signal) => {
      if (isDone()) return;
      const waiter = { isDone, resolve: () => {} };
      const done = new Promise<void>((resolve) => {
        waiter.resolve = resolve;
      });
      waiting.add(waiter);
      try {
        await withDeadline(systemClock, timeoutMs, what, () => done, signal);
      } finally {
        waiting.delete(waiter);
      }
    },
  };
}
