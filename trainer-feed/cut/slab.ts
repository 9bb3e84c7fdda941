/**
 * Memory for the arrays of many rows: a few large buffers, cut up in order, because an ArrayBuffer of its own for every row makes the garbage collector run all the time.
 * A slab lives as long as any row in it, which is as long as the batch.
 */

const SLAB_BYTES = 1 << 24;

export type Slab = {
  /** `bytes` zeros, aligned to 8. */
  readonly take: (bytes: number) => { readonly buffer: ArrayBuffer; readonly offset: number };
};

/** `expectedBytes`: what will be taken in all, so that a small batch does not hold a large buffer. */
export function createSlab(expectedBytes: number): Slab {
  let buffer = new ArrayBuffer(0);
  let used = 0;
  let left = expectedBytes;
  return {
    take: (bytes) => {
      const rounded = (bytes + 7) & ~7;
      if (buffer.byteLength - used < rounded) {
        buffer = new ArrayBuffer(Math.max(rounded, Math.min(SLAB_BYTES, left)));
        used = 0;
      }
      const offset = used;
      used += rounded;
      left = Math.max(0, left - rounded);
      return { buffer, offset };
    },
  };
}
