/** Time is injected: nothing outside this file reads the system clock or sets a timer of its own. */
export interface Clock {
  /** Wall clock, integer microseconds since 1970 UTC. */
  nowMicros(): number;
  /** Monotonic milliseconds, for durations and deadlines only. */
  monotonicMs(): number;
  /** Resolves after `ms`, or rejects with the signal's reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMicros: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
  monotonicMs: () => performance.now(),
  sleep,
};

/** Not `node:timers/promises`: that makes an AbortError with a stack for every wait that ends early, which is most of them. */
function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (signal?.aborted) {
    reject(signal.reason as Error);
    return promise;
  }
  const onAbort = (): void => {
    clearTimeout(timer);
    reject(signal?.reason as Error);
  };
  const timer = setTimeout(() => {
    signal?.removeEventListener('abort', onAbort);
    resolve();
  }, ms);
  signal?.addEventListener('abort', onAbort, { once: true });
  return promise;
}
