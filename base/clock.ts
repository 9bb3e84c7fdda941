import { setTimeout as delay } from 'node:timers/promises';

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
  sleep: async (ms, signal) => {
    await delay(ms, undefined, signal ? { signal } : undefined);
  },
};
