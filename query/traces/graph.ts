/**
 * The graph of a trace as columns: node indexes, parents, token counts. Everything is one pass over the nodes in the order of their index
 * (a parent is always smaller than its child), so that a trace of hundreds of thousands of nodes costs milliseconds.
 */

/** Stands for "no parent". */
export const NO_NODE = 0xffff_ffff;

/** The nodes of a trace in ascending order of `index`. */
export type Skeleton = {
  readonly index: Uint32Array;
  readonly parent: Uint32Array;
  /** Tokens of each node; 0 when it has no token stream. */
  readonly tokens: Float64Array;
};

export type Forest = {
  readonly skeleton: Skeleton;
  /** Row of the parent of each row in the skeleton; NO_NODE for roots and for nodes whose parent has not arrived. */
  readonly parentRow: Uint32Array;
  readonly childCount: Uint32Array;
  /** Indexes of nodes without a parent. */
  readonly roots: number[];
  /** Indexes of nodes that name a parent which is not there (yet). They start trees of their own. */
  readonly orphans: number[];
  /** Indexes of nodes without children, ascending: each names a branch. */
  readonly leaves: number[];
};

/** A root-to-leaf path, named by its leaf node. */
export type Branch = {
  readonly leaf: number;
  readonly nodes: number;
  readonly tokens: number;
  /** The last node shared with another branch; null when the branch shares none. */
  readonly forkNode: number | null;
  /** The first node that belongs to this branch alone: where a fork reason stands. */
  readonly firstOwn: number;
};

export function buildForest(skeleton: Skeleton): Forest {
  const { index, parent } = skeleton;
  const size = index.length;
  const parentRow = new Uint32Array(size).fill(NO_NODE);
  const childCount = new Uint32Array(size);
  const roots: number[] = [];
  const orphans: number[] = [];
  for (let row = 0; row < size; row++) {
    const wanted = parent[row] as number;
    if (wanted === NO_NODE) {
      roots.push(index[row] as number);
      continue;
    }
    const at = rowOf(index, wanted, row);
    if (at === undefined) orphans.push(index[row] as number);
    else {
      parentRow[row] = at;
      childCount[at] = (childCount[at] as number) + 1;
    }
  }
  const leaves: number[] = [];
  for (let row = 0; row < size; row++) if (childCount[row] === 0) leaves.push(index[row] as number);
  return { skeleton, parentRow, childCount, roots, orphans, leaves };
}

/** Row of the node with `index` among the first `end` rows. */
export function rowOf(index: Uint32Array, wanted: number, end: number = index.length): number | undefined {
  if (wanted < end && index[wanted] === wanted) return wanted; // dense numbering, the usual case
  let low = 0;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((index[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low < end && index[low] === wanted ? low : undefined;
}

/** Every branch, ascending by leaf. */
export function branchesOf(forest: Forest): Branch[] {
  const { skeleton, parentRow, childCount } = forest;
  const size = parentRow.length;
  const depth = new Uint32Array(size);
  const tokens = new Float64Array(size);
  const ownFrom = new Uint32Array(size); // row of the first node below the last fork
  const branches: Branch[] = [];
  for (let row = 0; row < size; row++) {
    const up = parentRow[row] as number;
    const isRoot = up === NO_NODE;
    depth[row] = isRoot ? 1 : (depth[up] as number) + 1;
    tokens[row] = (isRoot ? 0 : (tokens[up] as number)) + (skeleton.tokens[row] as number);
    ownFrom[row] = isRoot || (childCount[up] as number) > 1 ? row : (ownFrom[up] as number);
    if (childCount[row] !== 0) continue;
    const own = ownFrom[row] as number;
    const forkRow = parentRow[own] as number;
    branches.push({
      leaf: skeleton.index[row] as number,
      nodes: depth[row] as number,
      tokens: tokens[row] as number,
      forkNode: forkRow === NO_NODE ? null : (skeleton.index[forkRow] as number),
      firstOwn: skeleton.index[own] as number,
    });
  }
  return branches;
}

/** Node indexes from the root (or from an orphan) down to `node`; undefined when there is no such node. */
export function pathTo(forest: Forest, node: number): number[] | undefined {
  const { skeleton, parentRow } = forest;
  let row = rowOf(skeleton.index, node);
  if (row === undefined) return undefined;
  const path: number[] = [];
  for (; row !== undefined; row = parentRow[row] === NO_NODE ? undefined : parentRow[row]) path.push(skeleton.index[row] as number);
  return path.reverse();
}
