/** Memory that is used again: fresh megabytes cost more (page faults, garbage collection) than filling them. */
export type MemoryPool = {
  /** `bytes` of memory with anything in it; from the pool when it is of the pool's size or somewhat smaller. */
  take(bytes: number): Buffer;
  /** Gives memory back that `take` gave: nobody may touch it any more. */
  give(memory: Buffer): void;
};

/** Below this fresh memory is as cheap. */
const FROM_BYTES = 64 * 1024;

/** After so many pieces were given back, those that were free all the while are let go. */
const LOOK_EVERY = 256;

/** Keeps up to `pieces` of `pieceBytes` each, as long as they are needed now and then. Larger requests are not pooled. */
export function createMemoryPool(pieceBytes: number, pieces: number): MemoryPool {
  const free: Buffer[] = [];
  let fewestFree = 0;
  let given = 0;
  return {
    take: (bytes) => {
      if (bytes < FROM_BYTES || bytes > pieceBytes) return Buffer.allocUnsafeSlow(bytes);
      const piece = free.pop() ?? Buffer.allocUnsafeSlow(pieceBytes);
      fewestFree = Math.min(fewestFree, free.length);
      return piece.subarray(0, bytes);
    },
    give: ({ buffer }) => {
      if (buffer.byteLength !== pieceBytes) return;
      if (free.length < pieces) free.push(Buffer.from(buffer));
      if (++given % LOOK_EVERY !== 0) return;
      free.length -= fewestFree;
      fewestFree = free.length;
    },
  };
}
