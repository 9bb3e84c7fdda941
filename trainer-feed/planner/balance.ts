/**
 * Spreads micro-batches over ranks: every rank gets equally many, ranks cost nearly the same in sum, and those that run at the same time (the k-th of every rank)
 * are alike, since ranks wait for each other after each.
 */

const MAX_SWAP_ROUNDS = 10_000;

/** `costs.length` is a multiple of `world`. Returns the items of each rank, costliest first. Deterministic. */
export function balance(costs: ArrayLike<number>, world: number): number[][] {
  const count = costs.length / world;
  if (!Number.isInteger(count)) throw new RangeError(`${costs.length} micro-batches cannot be spread equally over ${world} ranks`);
  const cost = (item: number): number => costs[item] as number;
  const order = Array.from({ length: costs.length }, (_, i) => i).sort((a, b) => cost(b) - cost(a) || a - b);
  const ranks: number[][] = Array.from({ length: world }, () => []);
  const loads = new Float64Array(world);
  for (let tier = 0; tier < count; tier++) {
    // the costliest of a tier goes to the rank with the least so far
    const poorest = Array.from({ length: world }, (_, rank) => rank).sort((a, b) => (loads[a] as number) - (loads[b] as number) || a - b);
    for (const [i, rank] of poorest.entries()) {
      const item = order[tier * world + i] as number;
      (ranks[rank] as number[]).push(item);
      loads[rank] = (loads[rank] as number) + cost(item);
    }
  }
  refine(ranks, loads, cost);
  for (const items of ranks) items.sort((a, b) => cost(b) - cost(a) || a - b);
  return ranks;
}

/**
 * While it helps, the fullest rank swaps one micro-batch for a cheaper one of another rank, the emptiest that has a fit: the pair that comes closest to half their
 * difference. When the fullest cannot give, the emptiest takes from another.
 */
function refine(ranks: number[][], loads: Float64Array, cost: (item: number) => number): void {
  for (let round = 0; round < MAX_SWAP_ROUNDS; round++) {
    const byLoad = Array.from(loads, (_, rank) => rank).sort((a, b) => (loads[a] as number) - (loads[b] as number) || a - b);
    const [high, low] = [byLoad.at(-1) as number, byLoad[0] as number];
    const pairs = [...byLoad.slice(0, -1).map((rank) => [high, rank] as const), ...byLoad.slice(1, -1).toReversed().map((rank) => [rank, low] as const)]; // prettier-ignore
    if (!pairs.some(([from, to]) => trySwap(from, to, ranks, loads, cost))) return;
  }
}

function trySwap(high: number, low: number, ranks: number[][], loads: Float64Array, cost: (item: number) => number): boolean {
  const gap = (loads[high] as number) - (loads[low] as number);
  const from = ranks[high] as number[];
  const to = ranks[low] as number[];
  const swap = gap > 0 ? bestSwap(from, to, gap, cost) : null;
  if (swap === null) return false;
  const [i, j, moved] = swap;
  [from[i], to[j]] = [to[j] as number, from[i] as number];
  loads[high] = (loads[high] as number) - moved;
  loads[low] = (loads[low] as number) + moved;
  return true;
}

/** Two sorted walks: for each of the fullest rank's items the partner whose difference lies nearest half the gap. Null when no swap narrows it by a millionth. */
function bestSwap(
  from: readonly number[],
  to: readonly number[],
  gap: number,
  cost: (item: number) => number,
): [number, number, number] | null {
  const ascending = (items: readonly number[]): number[] =>
    items.map((_, i) => i).sort((a, b) => cost(items[a] as number) - cost(items[b] as number) || a - b);
  const left = ascending(from);
  const right = ascending(to);
  let best: [number, number, number] | null = null;
  let nearest = gap / 2 - gap * 1e-6;
  let r = 0;
  for (const i of left) {
    const target = cost(from[i] as number) - gap / 2;
    while (r < right.length && cost(to[right[r] as number] as number) < target) r++;
    for (const place of [r - 1, r]) {
      const j = right[place];
      if (j === undefined) continue;
      const moved = cost(from[i] as number) - cost(to[j] as number);
      const distance = Math.abs(moved - gap / 2);
      if (moved > 0 && moved < gap && distance < nearest) {
        nearest = distance;
        best = [i, j, moved];
      }
    }
  }
  return best;
}

/** (largest load - smallest load) / mean load; 0 for one rank. */
export function imbalance(ranks: readonly (readonly number[])[], costs: ArrayLike<number>): number {
  const loads = ranks.map((items) => items.reduce((sum, item) => sum + (costs[item] as number), 0));
  const mean = loads.reduce((a, b) => a + b, 0) / loads.length;
  return mean === 0 ? 0 : (Math.max(...loads) - Math.min(...loads)) / mean;
}
