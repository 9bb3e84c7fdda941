/**
 * The writer's queue of the embedded log. Appends wait here while a commit is on its way to the disk; then all that are ready go into the next one, so a
 * hundred callers share one sync. Offsets are given at the commit: one that fails leaves no gap.
 */
import { ByteBudget } from '../../base/byte-budget.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { EncodedBatch } from './batch-frame.ts';
import type { BatchPlace } from './log-database.ts';

export type PlacedBatch = { readonly place: BatchPlace; readonly bytes: Buffer };

export type GroupCommit = {
  /**
   * Queues an append of `bytes`; `encode` is called at once when there is room (else `overloaded`). Resolves with the offset of the first record once it is
   * durable. Its order among the appends of a partition is that of the calls.
   */
  append(partition: number, bytes: number, encode: () => Promise<EncodedBatch[]>, signal?: AbortSignal): Promise<number>;
  /** Resolves when everything queued has settled; later appends are `closed`. */
  close(): Promise<void>;
};

type Pending = {
  readonly partition: number;
  /** Settles when `ready` or `failed` is set. Never rejects. */
  encoding: Promise<void>;
  ready: EncodedBatch[] | null;
  failed: unknown;
  readonly resolve: (first: number) => void;
  readonly reject: (error: unknown) => void;
};

type Target = {
  /** Offset of the next append, per partition; moved on after each commit. */
  readonly ends: number[];
  /** Writes all or nothing. */
  readonly commit: (batches: readonly PlacedBatch[]) => Promise<void>;
  readonly onCommitted: () => void;
};

export function createGroupCommit(options: Target & { readonly maxPendingBytes: number }): GroupCommit {
  const budget = new ByteBudget(options.maxPendingBytes);
  let queue: Pending[] = [];
  let pumping: Promise<void> | null = null;
  let closed = false;

  const pump = async (): Promise<void> => {
    // What else this turn of the event loop appends belongs to the same commit.
    await new Promise(setImmediate);
    while (queue.length > 0) {
      const { ready, left } = splitReady(queue);
      queue = left;
      if (ready.length > 0) await commitTogether(ready, options);
      else await queue[0]?.encoding;
    }
    pumping = null;
  };

  const enqueue = async (partition: number, encoded: Promise<EncodedBatch[]>, signal?: AbortSignal): Promise<number> => {
    let onAbort = (): void => {};
    try {
      return await new Promise<number>((resolve, reject) => {
        const pending: Pending = { partition, ready: null, failed: undefined, resolve, reject, encoding: Promise.resolve() };
        pending.encoding = encoded.then(
          (ready) => void (pending.ready = ready),
          (error: unknown) => void (pending.failed = error),
        );
        queue.push(pending);
        onAbort = () => {
          // Once it is in a commit the outcome of the commit is the answer.
          if (!queue.includes(pending)) return;
          queue = queue.filter((other) => other !== pending);
          reject(aborted(signal as AbortSignal));
        };
        signal?.addEventListener('abort', onAbort, { once: true });
        pumping ??= pump();
      });
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  };

  return {
    append: async (partition, bytes, encode, signal) => {
      if (closed) throw new TapedeckError('closed', 'the log is closed');
      if (signal?.aborted) throw aborted(signal);
      const release = budget.tryTake(bytes);
      if (release === null) {
        throw new TapedeckError(
          'overloaded',
          `${budget.used} bytes wait for the disk, the limit is ${budget.limit}: send this again later`,
          {
            details: { limit: budget.limit },
          },
        );
      }
      try {
        return await enqueue(partition, encode(), signal);
      } finally {
        release();
      }
    },
    close: async () => {
      closed = true;
      await pumping;
    },
  };
}

/** Appends that are encoded, in order; one that is not holds back the later ones of its partition. */
function splitReady(queue: readonly Pending[]): { ready: Pending[]; left: Pending[] } {
  const held = new Set<number>();
  const ready: Pending[] = [];
  const left: Pending[] = [];
  for (const pending of queue) {
    const isEncoded = pending.ready !== null || pending.failed !== undefined;
    if (!isEncoded) held.add(pending.partition);
    (held.has(pending.partition) ? left : ready).push(pending);
  }
  return { ready, left };
}

async function commitTogether(group: readonly Pending[], target: Target): Promise<void> {
  const ends = [...target.ends];
  const placed: PlacedBatch[] = [];
  const acknowledge: (() => void)[] = [];
  for (const { partition, ready, failed, resolve, reject } of group) {
    if (ready === null) {
      reject(failed);
      continue;
    }
    const first = ends[partition] as number;
    let base = first;
    for (const { count, seal, bytes } of ready) {
      placed.push({ place: { partition, base, count, seal }, bytes });
      base += count;
    }
    ends[partition] = base;
    acknowledge.push(() => resolve(first));
  }
  if (placed.length === 0) return;
  try {
    await target.commit(placed);
  } catch (error) {
    for (const pending of group) pending.reject(error);
    return;
  } finally {
    for (const { ready } of group) for (const { release } of ready ?? []) release();
  }
  for (let i = 0; i < ends.length; i++) target.ends[i] = ends[i] as number;
  for (const done of acknowledge) done();
  target.onCommitted();
}

function aborted(signal: AbortSignal): TapedeckError {
  return new TapedeckError('aborted', 'aborted while waiting for its turn: nothing of this append is in the log', { cause: signal.reason });
}
