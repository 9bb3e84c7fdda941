/** Puts items into a given number of bins so that all bins cost nearly the same: costliest first, each into the cheapest bin that has room. */

type Bin = { cost: number; room: number; readonly index: number; readonly items: number[] };

/** Null when an item finds no room: then a tighter packing is needed. Deterministic; O(n log bins) where bins have room. */
export function spread(sizes: ArrayLike<number>, costs: ArrayLike<number>, bins: number, capacity: number): number[][] | null {
  const order = Array.from({ length: sizes.length }, (_, i) => i).sort((a, b) => (costs[b] as number) - (costs[a] as number) || a - b);
  const all: Bin[] = Array.from({ length: bins }, (_, index) => ({ cost: 0, room: capacity, index, items: [] }));
  const heap = [...all];
  for (const item of order) {
    const size = sizes[item] as number;
    const passed: Bin[] = [];
    let bin = pop(heap);
    while (bin !== undefined && bin.room < size) {
      passed.push(bin);
      bin = pop(heap);
    }
    if (bin === undefined) return null;
    bin.items.push(item);
    bin.room -= size;
    bin.cost += costs[item] as number;
    for (const each of [...passed, bin]) push(heap, each);
  }
  return all.map(({ items }) => items);
}

function isCheaper(a: Bin, b: Bin): boolean {
  return a.cost < b.cost || (a.cost === b.cost && a.index < b.index);
}

function push(heap: Bin[], bin: Bin): void {
  let at = heap.length;
  heap.push(bin);
  while (at > 0) {
    const up = (at - 1) >> 1;
    if (!isCheaper(bin, heap[up] as Bin)) break;
    heap[at] = heap[up] as Bin;
    at = up;
  }
  heap[at] = bin;
}

function pop(heap: Bin[]): Bin | undefined {
  const top = heap[0];
  const last = heap.pop();
  if (top === undefined || last === undefined || heap.length === 0) return top;
  let at = 0;
  for (;;) {
    let down = 2 * at + 1;
    if (down >= heap.length) break;
    if (down + 1 < heap.length && isCheaper(heap[down + 1] as Bin, heap[down] as Bin)) down++;
    if (!isCheaper(heap[down] as Bin, last)) break;
    heap[at] = heap[down] as Bin;
    at = down;
  }
  heap[at] = last;
  return top;
}
