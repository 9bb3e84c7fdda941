/** A window of a trace's graph with the bodies of its nodes, cut to a preview. */
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { positionText } from '../positions/log-position.ts';
import type { Forest } from '../traces/graph.ts';
import { locateTrace, noNode, optionsOf, readForest, type TraceRequest } from '../traces/read-trace.ts';
import { namedParts } from '../traces/stream-plan.ts';
import { NODES_OF } from '../traces/trace-queries.ts';
import type { TraceNode } from '../traces/trace-answer.ts';
import { nodeOf } from '../traces/trace-rows.ts';
import { around, childrenOf, pathUp, type WindowNode } from './neighbourhood.ts';

export type GraphRequest = TraceRequest & {
  readonly want:
    | { readonly kind: 'around'; readonly node: number }
    | { readonly kind: 'children'; readonly node: number; readonly after: number }
    | { readonly kind: 'path'; readonly node: number };
  readonly limit: number;
  readonly chars: number;
};

export type GraphAnswer = {
  readonly project: string;
  readonly run: string;
  readonly rollout: string;
  readonly trace: string;
  /** The log position the answer is true of: asked again with it as `asOf` it stays the same for ever, until the run is deleted. */
  readonly asOf: string;
  /** Nodes of the whole trace. */
  readonly size: number;
  /** Ascending by index; with `children`, how many each has in the whole trace. */
  readonly nodes: readonly (TraceNode & { readonly children: number })[];
  /** How to go on: `after` for children, the `node` of the next stretch of a path; null at the end, and for `around`. */
  readonly next: number | null;
};

/** Errors: `not_found`, `bad_request` (ambiguous id), and those of the store. */
export async function readGraphWindow(store: ColumnStore, request: GraphRequest): Promise<GraphAnswer> {
  const place = await locateTrace(store, request);
  const forest = await readForest(store, request, place);
  const { nodes, next } = windowOf(forest, request);
  const options = optionsOf(request, place);
  const parts = namedParts(nodes.map((node) => node.index)).map((named) =>
    store.rows<Parameters<typeof nodeOf>[0]>(NODES_OF, { ...options, params: { ...options.params, nodes: named, chars: request.chars } }),
  );
  const rows = (await Promise.all(parts)).flat();
  const children = new Map(nodes.map((node) => [node.index, node.children]));
  return {
    project: request.project,
    ...place,
    trace: request.trace,
    asOf: positionText(request.position),
    size: forest.skeleton.index.length,
    nodes: rows.map((row) => ({ ...nodeOf(row, request.chars), children: children.get(row.index) ?? 0 })),
    next,
  };
}

function windowOf(forest: Forest, { want, limit, trace }: GraphRequest): { nodes: readonly WindowNode[]; next: number | null } {
  if (want.kind === 'around') {
    const nodes = around(forest, want.node, limit);
    if (nodes !== undefined) return { nodes, next: null };
  } else if (want.kind === 'children') {
    const found = childrenOf(forest, want.node, { after: want.after, limit });
    if (found !== undefined) return { nodes: found.nodes, next: found.hasMore ? (found.nodes.at(-1)?.index ?? null) : null };
  } else {
    const found = pathUp(forest, want.node, limit);
    if (found !== undefined) return { nodes: found.nodes, next: found.above };
  }
  throw noNode(trace, want.node, forest);
}
