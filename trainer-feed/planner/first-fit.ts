/** First-fit decreasing bin packing in O(n log n): a tree over the bins finds the first one with room. */

/**
 * Packs items of the given sizes into as few bins of `capacity` as the heuristic finds (at most 11/9 of the optimum and a bit). Returns the items of each bin,
 * in the order they were put in: longest first, equal ones by index. No size may exceed the capacity.
 */
export function firstFitDecreasing(sizes: ArrayLike<number>, capacity: number): number[][] {
  const order = Array.from({ length: sizes.length }, (_, i) => i).sort((a, b) => (sizes[b] as number) - (sizes[a] as number) || a - b);
  const bins: number[][] = [];
  const room = roomTree(Math.max(1, sizes.length), capacity);
  for (const item of order) {
    const size = sizes[item] as number;
    if (size > capacity) throw new RangeError(`an item of ${size} does not fit into ${capacity}`);
    const bin = room.take(size);
    (bins[bin] ??= []).push(item);
  }
  return bins;
}

/** Room that is left in each of `count` bins; every inner node holds the largest room below it. */
function roomTree(count: number, capacity: number): { take(size: number): number } {
  let leaves = 1;
  while (leaves < count) leaves *= 2;
  const largest = new Float64Array(2 * leaves).fill(capacity);
  return {
    /** The first bin that has room for `size`, with that much taken. */
    take(size) {
      let at = 1;
      while (at < leaves) at = (largest[2 * at] as number) >= size ? 2 * at : 2 * at + 1;
      const bin = at - leaves;
      largest[at] = (largest[at] as number) - size;
      while (at > 1) {
        at >>= 1;
        largest[at] = Math.max(largest[2 * at] as number, largest[2 * at + 1] as number);
      }
      return bin;
    },
  };
}
