import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';

/** Those who wait for an append. `wake` lets each of them look again; `close` ends every wait as if its time had passed. */
export type WakeUps = {
  wake(): void;
  /** Resolves true once `condition` holds, false when `waitMs` passed or the log was closed. Rejects with `aborted`. */
  until(condition: () => boolean, waitMs: number, signal?: AbortSignal): Promise<boolean>;
  close(): void;
};

export function createWakeUps(clock: Clock): WakeUps {
  const waiting = new Set<() => void>();
  let closed = false;

  const until = (condition: () => boolean, waitMs: number, signal?: AbortSignal): Promise<boolean> => {
    if (signal?.aborted) return Promise.reject(aborted(signal));
    if (condition()) return Promise.resolve(true);
    if (closed || !(waitMs > 0)) return Promise.resolve(false);
    return new Promise((resolve, reject) => {
      const timer = new AbortController();
      const settle = (finish: () => void): void => {
        waiting.delete(look);
        timer.abort();
        signal?.removeEventListener('abort', onAbort);
        finish();
      };
      const look = (): void => {
        try {
          if (closed) settle(() => resolve(false));
          else if (condition()) settle(() => resolve(true));
        } catch (error) {
          settle(() => reject(error as Error));
        }
      };
      const onAbort = (): void => settle(() => reject(aborted(signal as AbortSignal)));
      waiting.add(look);
      signal?.addEventListener('abort', onAbort, { once: true });
      clock.sleep(waitMs, timer.signal).then(
        () => settle(() => resolve(false)),
        () => {},
      );
    });
  };

  const wake = (): void => {
    for (const look of waiting) look();
  };
  return {
    wake,
    until,
    close: () => {
      closed = true;
      wake();
    },
  };
}

function aborted(signal: AbortSignal): TapedeckError {
  return new TapedeckError('aborted', 'aborted while waiting for an append to the log', { cause: signal.reason });
}
