import { rowOf } from './graph.ts';
import type { Forest, Skeleton } from './graph.ts';

/** One fetch of token streams: all nodes between the first and the last (others are passed over), or the nodes by name. Ascending. */
export type StreamFetch = { readonly kind: 'range' | 'names'; readonly nodes: readonly number[] };

/** A path is read by ranges while a range holds at most this many nodes per wanted one. */
const MAX_WASTE = 4;
/** Tokens of all nodes in one range: bounds the memory of a fetch. */
const RANGE_TOKENS = 4 * 1024 * 1024;
/** Node indexes travel in the address of the request. */
const NAMED_NODES = 1_000;

/** Tokens of the nodes of a path. */
export function tokensOf(forest: Forest, path: readonly number[]): number {
  const { index, tokens } = forest.skeleton;
  return path.reduce((sum, node) => sum + (tokens[rowOf(index, node) ?? -1] ?? 0), 0);
}

/** How to fetch the nodes of a path with few queries of bounded size. */
export function planStreams(skeleton: Skeleton, path: readonly number[]): StreamFetch[] {
  const rows = path.map((node) => rowOf(skeleton.index, node) ?? 0);
  const span = (rows.at(-1) ?? 0) - (rows[0] ?? 0) + 1;
  return span <= path.length * MAX_WASTE ? planRanges(skeleton, path, rows) : planNames(path);
}

function planRanges(skeleton: Skeleton, path: readonly number[], rows: readonly number[]): StreamFetch[] {
  const fetches: StreamFetch[] = [];
  let nodes: number[] = [];
  let inRange = 0;
  for (const [at, node] of path.entries()) {
    const before = nodes.length === 0 ? (rows[at] as number) : (rows[at - 1] as number) + 1;
    let added = 0;
    for (let row = before; row <= (rows[at] as number); row++) added += skeleton.tokens[row] as number;
    if (nodes.length > 0 && inRange + added > RANGE_TOKENS) {
      fetches.push({ kind: 'range', nodes });
      nodes = [];
      inRange = 0;
      added = skeleton.tokens[rows[at] as number] as number;
    }
    nodes.push(node);
    inRange += added;
  }
  if (nodes.length > 0) fetches.push({ kind: 'range', nodes });
  return fetches;
}

function planNames(path: readonly number[]): StreamFetch[] {
  return namedParts(path).map((nodes) => ({ kind: 'names', nodes }));
}

/** Nodes in as many parts as it takes to name them in a query. */
export function namedParts(nodes: readonly number[]): number[][] {
  return Array.from({ length: Math.ceil(nodes.length / NAMED_NODES) }, (_, part) => nodes.slice(part * NAMED_NODES, (part + 1) * NAMED_NODES));
} // prettier-ignore
