/**
 * Buffers that are used again: a fresh 1 MB buffer per request costs more (page faults, garbage) than reading the body. Sizes are powers of two from 64 KiB;
 * free buffers are kept up to `maxFreeBytes`.
 */
export type BufferPool = {
  /** A buffer of at least `bytes`; its content is whatever was there. */
  take(bytes: number): Buffer;
  /** Gives a buffer back. Only when nobody reads it any more. */
  give(buffer: Buffer): void;
  readonly freeBytes: number;
};

const SMALLEST = 64 * 1024;

export function createBufferPool(maxFreeBytes: number): BufferPool {
  const free = new Map<number, Buffer[]>();
  let freeBytes = 0;
  return {
    take(bytes) {
      const size = sizeClass(bytes);
      const buffer = free.get(size)?.pop();
      if (buffer === undefined) return Buffer.allocUnsafeSlow(size);
      freeBytes -= size;
      return buffer;
    },
    give(buffer) {
      if (freeBytes + buffer.length > maxFreeBytes) return;
      freeBytes += buffer.length;
      const list = free.get(buffer.length);
      if (list === undefined) free.set(buffer.length, [buffer]);
      else list.push(buffer);
    },
    get freeBytes() {
      return freeBytes;
    },
  };
}

function sizeClass(bytes: number): number {
  return bytes <= SMALLEST ? SMALLEST : 2 ** Math.ceil(Math.log2(bytes));
}
