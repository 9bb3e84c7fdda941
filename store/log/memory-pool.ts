/** Memory that is used again: fresh megabytes cost more (page faults, garbage collection) than filling them. */
export type MemoryPool = {
  /** `bytes` of memory with anything in it; from the pool when it is of the pool's size or somewhat smaller. */
  take(bytes: number): Buffer;
  /** Gives memory back that `take` gave: nobody may touch it any more. */
  give(memory: Buffer): void;
};

/** Below this fresh memory is as cheap. */
const FROM_BYTES = 64 * 1024;

/** Keeps up to `pieces` of `pieceBytes` each. Larger requests are not pooled. */
export function createMemoryPool(pieceBytes: number, pieces: number): MemoryPool {
  const free: Buffer[] = [];
  return {
    take: (bytes) => {
      if (bytes < FROM_BYTES || bytes > pieceBytes) return Buffer.allocUnsafeSlow(bytes);
      return (free.pop() ?? Buffer.allocUnsafeSlow(pieceBytes)).subarray(0, bytes);
    },
    give: ({ buffer }) => {
      if (buffer.byteLength === pieceBytes && free.length < pieces) free.push(Buffer.from(buffer));
    },
  };
}
