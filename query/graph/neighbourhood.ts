/** Which nodes a window shows: around a node, below it, or up from it. Pure; a window never depends on the size of the trace but for finding it. */
import { NO_NODE, rowOf, type Forest } from '../traces/graph.ts';

export type WindowNode = {
  readonly index: number;
  readonly parent: number | null;
  /** Children in the whole trace, shown or not. */
  readonly children: number;
};

export type ChildrenOf = { readonly first: Uint32Array; readonly next: Uint32Array };

/** The children of every row as linked lists, ascending: two words a row instead of a list a row. */
export function linkChildren({ parentRow }: Forest): ChildrenOf {
  const size = parentRow.length;
  const first = new Uint32Array(size).fill(NO_NODE);
  const next = new Uint32Array(size).fill(NO_NODE);
  for (let row = size - 1; row >= 0; row--) {
    const up = parentRow[row] as number;
    if (up === NO_NODE) continue;
    next[row] = first[up] as number;
    first[up] = row;
  }
  return { first, next };
}

/**
 * The path of at most half the window up from `node`, then what lies below it breadth first, then its later siblings, as far as `limit` allows. Ascending by index.
 * Undefined when there is no such node.
 */
export function around(forest: Forest, node: number, limit: number): WindowNode[] | undefined {
  const centre = rowOf(forest.skeleton.index, node);
  if (centre === undefined) return undefined;
  const { first, next } = linkChildren(forest);
  const rows: number[] = [centre];
  for (let up = forest.parentRow[centre] as number; up !== NO_NODE && rows.length < Math.ceil(limit / 2); up = forest.parentRow[up] as number) rows.push(up);
  const queue = [centre];
  for (let at = 0; at < queue.length && rows.length < limit; at++) {
    for (let child = first[queue[at] as number] as number; child !== NO_NODE && rows.length < limit; child = next[child] as number) {
      rows.push(child);
      queue.push(child);
    }
  }
  for (let other = next[centre] as number; other !== NO_NODE && rows.length < limit; other = next[other] as number) rows.push(other);
  return rows.toSorted((a, b) => a - b).map((row) => nodeAt(forest, row));
} // prettier-ignore

/** Children of `node` with an index above `after`, at most `limit`, and how many there are in all. */
export function childrenOf(
  forest: Forest,
  node: number,
  { after, limit }: { readonly after: number; readonly limit: number },
): { readonly nodes: WindowNode[]; readonly hasMore: boolean } | undefined {
  const { parentRow, skeleton } = forest;
  const parent = rowOf(skeleton.index, node);
  if (parent === undefined) return undefined;
  const nodes: WindowNode[] = [];
  for (let row = parent + 1; row < parentRow.length; row++) {
    if (parentRow[row] !== parent || (skeleton.index[row] as number) <= after) continue;
    if (nodes.length === limit) return { nodes, hasMore: true };
    nodes.push(nodeAt(forest, row));
  }
  return { nodes, hasMore: false };
}

/** The path from `node` up, the nearest `limit` nodes of it, root first; `above` is where the next stretch begins, null at the root. */
export function pathUp(forest: Forest, node: number, limit: number): { readonly nodes: WindowNode[]; readonly above: number | null } | undefined {
  const start = rowOf(forest.skeleton.index, node);
  if (start === undefined) return undefined;
  const rows: number[] = [];
  let row = start;
  for (; row !== NO_NODE && rows.length < limit; row = forest.parentRow[row] as number) rows.push(row);
  return { nodes: rows.toReversed().map((each) => nodeAt(forest, each)), above: row === NO_NODE ? null : (forest.skeleton.index[row] as number) };
} // prettier-ignore

function nodeAt({ skeleton, childCount }: Forest, row: number): WindowNode {
  const parent = skeleton.parent[row] as number;
  return { index: skeleton.index[row] as number, parent: parent === NO_NODE ? null : parent, children: childCount[row] as number };
}
