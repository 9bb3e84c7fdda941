import type { ByteBudget } from '../../base/byte-budget.ts';
import { TapedeckError } from '../../base/errors.ts';

/** What one request holds of the bytes in flight. It grows as the body does; a request that is alone may grow beyond the budget, so that every legal body can pass. */
export type Claim = {
  /** Takes `bytes` more; throws `overloaded`, and then holds what it held before. */
  grow(bytes: number): void;
  /** Gives part back. */
  shrink(bytes: number): void;
  /** Gives everything back. Idempotent. */
  release(): void;
};

export function openClaim(budget: ByteBudget): Claim {
  let held = 0;
  let giveBack = (): void => {};
  const resize = (bytes: number): boolean => {
    giveBack();
    const taken = budget.tryTake(bytes);
    if (taken === null) return false;
    giveBack = taken;
    held = bytes;
    return true;
  };
  return {
    grow(bytes) {
      const before = held;
      if (resize(before + bytes)) return;
      resize(before);
      throw new TapedeckError(
        'overloaded',
        `${budget.used} of ${budget.limit} bytes are in flight; send the same request again after the time in Retry-After`,
        { details: { limit: budget.limit } },
      );
    },
    shrink: (bytes) => void resize(Math.max(0, held - bytes)),
    release: () => void resize(0),
  };
}
