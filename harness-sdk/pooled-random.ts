/** Randomness drawn in blocks: a call of the system for the 16 bytes of every event id would cost more than the event. */
import type { Random } from '../base/random.ts';

const POOL_BYTES = 4096;

export function pooledRandom(random: Random): Random {
  const pool = new Uint8Array(POOL_BYTES);
  let at = POOL_BYTES;
  return {
    next: () => random.next(),
    bytes: (target) => {
      if (target.length > POOL_BYTES / 8) return random.bytes(target);
      if (at + target.length > POOL_BYTES) {
        random.bytes(pool);
        at = 0;
      }
      target.set(pool.subarray(at, at + target.length));
      at += target.length;
      return target;
    },
  };
}
