/** When the pieces of a streamed answer came: constant memory however long it is. Milliseconds; quantiles are exact to a quarter. */
const BUCKETS = 96;
const PER_DOUBLING = 4;
const FIRST_MS = 0.01;

export type ChunkTimes = { note(nowMs: number): void; summary(): ChunkSummary | null };

/** Times between pieces; null before there are two. */
export type ChunkSummary = {
  readonly count: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
};

export function createChunkTimes(): ChunkTimes {
  let counts: Uint32Array | null = null;
  let last: number | null = null;
  let count = 0;
  let sum = 0;
  let max = 0;
  const quantile = (q: number): number => {
    let left = Math.ceil(count * q);
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= (counts as Uint32Array)[bucket] as number;
      if (left <= 0) return Math.min(max, FIRST_MS * 2 ** ((bucket + 1) / PER_DOUBLING));
    }
    return max;
  };
  return {
    note(nowMs) {
      if (last !== null) {
        const gap = Math.max(0, nowMs - last);
        counts ??= new Uint32Array(BUCKETS);
        const bucket = gap <= FIRST_MS ? 0 : Math.min(BUCKETS - 1, Math.floor(PER_DOUBLING * Math.log2(gap / FIRST_MS)));
        counts[bucket] = (counts[bucket] as number) + 1;
        count++;
        sum += gap;
        max = Math.max(max, gap);
      }
      last = nowMs;
    },
    summary: () =>
      count === 0
        ? null
        : { count: count + 1, meanMs: round(sum / count), p50Ms: round(quantile(0.5)), p99Ms: round(quantile(0.99)), maxMs: round(max) },
  };
}

function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}
