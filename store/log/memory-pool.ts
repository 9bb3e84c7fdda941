/** Memory that is used again: fresh megabytes cost more (page faults, garbage collection) than filling them. */
export type MemoryPool = {
  /** `bytes` of memory with anything in it; from the pool unless it is very small, or larger than the pool's pieces. */
  take(bytes: number): Buffer;
  /** Gives memory back that `take` gave: nobody may touch it any more. */
  give(memory: Buffer): void;
};

/** Below this fresh memory is as cheap. */
const FROM_BYTES = 64 * 1024;

/** After so many pieces of a size were given back, those that were free all the while are let go. */
const LOOK_EVERY = 256;

/** Pieces of one size. */
type Shelf = { readonly free: Buffer[]; fewestFree: number; given: number };

/**
 * Keeps pieces of up to `pieceBytes`, in sizes that are powers of two, as long as they are needed now and then; at most `pieces` times `pieceBytes` in all. Larger
 * requests are not pooled.
 */
export function createMemoryPool(pieceBytes: number, pieces: number): MemoryPool {
  const maxFreeBytes = pieces * pieceBytes;
  const shelves = new Map<number, Shelf>();
  for (let size = FROM_BYTES; size <= pieceBytes; size *= 2) shelves.set(size, { free: [], fewestFree: 0, given: 0 });
  let freeBytes = 0;
  return {
    take: (bytes) => {
      const size = 2 ** Math.ceil(Math.log2(Math.max(bytes, 1)));
      const shelf = shelves.get(size);
      if (shelf === undefined) return Buffer.allocUnsafeSlow(bytes);
      const piece = shelf.free.pop();
      shelf.fewestFree = Math.min(shelf.fewestFree, shelf.free.length);
      if (piece !== undefined) freeBytes -= size;
      return (piece ?? Buffer.allocUnsafeSlow(size)).subarray(0, bytes);
    },
    give: ({ buffer }) => {
      const size = buffer.byteLength;
      const shelf = shelves.get(size);
      if (shelf === undefined) return;
      if (freeBytes + size <= maxFreeBytes) {
        shelf.free.push(Buffer.from(buffer));
        freeBytes += size;
      }
      if (++shelf.given % LOOK_EVERY !== 0) return;
      shelf.free.length -= shelf.fewestFree;
      freeBytes -= shelf.fewestFree * size;
      shelf.fewestFree = shelf.free.length;
    },
  };
}
