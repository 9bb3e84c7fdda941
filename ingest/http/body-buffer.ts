import { TapedeckError, type ErrorCode } from '../../base/errors.ts';
import type { BufferPool } from './buffer-pool.ts';
import type { Claim } from './claim.ts';

export type SizeLimit = { readonly bytes: number; readonly code: ErrorCode; readonly what: string };

/** One body in a pooled buffer, counted in the request's claim. Beyond the limit or the budget, `write` throws (`limit.code`, `overloaded`). */
export type BodyBuffer = {
  write(chunk: Uint8Array): void;
  readonly length: number;
  /** What was written, without a copy; valid until `release`. */
  view(): Buffer;
  /** Gives the claimed bytes back and, when nobody may still read it, the buffer to the pool. Idempotent. */
  release(isUnread: boolean): void;
};

const FIRST_BYTES = 64 * 1024;

/** Opens a buffer for `expected` bytes; when that is null it starts small and grows by doubling. Throws when the limit or the budget does not allow it. */
export function openBody(pool: BufferPool, claim: Claim, limit: SizeLimit, expected: number | null): BodyBuffer {
  if (expected !== null && expected > limit.bytes) throw tooLarge(limit);
  let capacity = expected ?? Math.min(FIRST_BYTES, limit.bytes);
  claim.grow(capacity);
  let buffer = pool.take(capacity);
  let isOpen = true;
  let length = 0;

  const grow = (need: number): void => {
    if (need > limit.bytes) throw tooLarge(limit);
    const wider = Math.min(Math.max(need, 2 * capacity), limit.bytes);
    claim.grow(wider - capacity);
    capacity = wider;
    if (capacity <= buffer.length) return;
    const grown = pool.take(capacity);
    buffer.copy(grown, 0, 0, length);
    pool.give(buffer);
    buffer = grown;
  };

  return {
    write(chunk) {
      const need = length + chunk.length;
      if (need > capacity) grow(need);
      buffer.set(chunk, length);
      length = need;
    },
    get length() {
      return length;
    },
    view: () => buffer.subarray(0, length),
    release(isUnread) {
      if (!isOpen) return;
      isOpen = false;
      claim.shrink(capacity);
      if (isUnread) pool.give(buffer);
    },
  };
}

function tooLarge({ bytes, code, what }: SizeLimit): TapedeckError {
  return new TapedeckError(code, `${what} has more than ${bytes} bytes; send smaller batches`, { details: { limit: bytes } });
}
