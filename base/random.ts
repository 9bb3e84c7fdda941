import { randomFillSync } from 'node:crypto';

/** Randomness is injected, so that a test can replay a seed. */
export interface Random {
  /** Fills `target` with random bytes and returns it. */
  bytes<T extends Uint8Array>(target: T): T;
  /** A float in [0, 1). */
  next(): number;
}

export const systemRandom: Random = {
  bytes: (target) => randomFillSync(target),
  next: () => Math.random(),
};

/** Deterministic stream from a 32-bit seed (mulberry32), for tests and jitter that must replay. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    bytes: (target) => {
      for (let i = 0; i < target.length; i++) target[i] = Math.floor(next() * 256);
      return target;
    },
  };
}
