/** So many requests a second for each key, by a token bucket that holds two seconds' worth. In the memory of one process: each process counts for itself. */
import type { Clock } from '../../../base/clock.ts';

const BURST_SECONDS = 2;
/** Buckets that are full again say nothing; they are let go when there are many. */
const MANY = 10_000;

export type RateLimit = {
  /** 0 when the request may go on, else the seconds after which one may. */
  take(key: string, perSecond: number): number;
};

export function createRateLimit(clock: Clock): RateLimit {
  const buckets = new Map<string, { tokens: number; at: number; full: number }>();
  return {
    take: (key, perSecond) => {
      const now = clock.monotonicMs();
      const most = Math.max(1, perSecond * BURST_SECONDS);
      if (buckets.size >= MANY) for (const [name, { full }] of buckets) if (full <= now) buckets.delete(name);
      const bucket = buckets.get(key) ?? { tokens: most, at: now, full: now };
      const tokens = Math.min(most, bucket.tokens + ((now - bucket.at) / 1000) * perSecond);
      const left = tokens >= 1 ? tokens - 1 : tokens;
      buckets.set(key, { tokens: left, at: now, full: now + ((most - left) / perSecond) * 1000 });
      return tokens >= 1 ? 0 : Math.ceil((1 - tokens) / perSecond);
    },
  };
}
