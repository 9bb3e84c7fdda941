/** The graph of one trace as far as finding a request in it needs: parents, keys of messages, and token ids where the engine gave them. */
import type { MessageKey } from './message-key.ts';

export type GraphNode = {
  readonly index: number;
  readonly parent: GraphNode | null;
  readonly role: string;
  readonly key: MessageKey;
  readonly sampled: boolean;
  /** Null: the engine gave none. Empty: known to have none of its own. */
  readonly ids: Uint32Array | null;
  /** Ids on the path down to it. */
  readonly pathIds: number;
  readonly depth: number;
  readonly children: GraphNode[];
  /** Of roots: which tools were offered. */
  readonly tools: string | null;
};
export type TraceGraph = { readonly roots: GraphNode[]; readonly byIndex: Map<number, GraphNode> };

export function emptyGraph(): TraceGraph {
  return { roots: [], byIndex: new Map() };
}

export type NewNode = Pick<GraphNode, 'index' | 'role' | 'key' | 'sampled' | 'ids' | 'tools'> & { readonly parent: number | null };

export function addNode(graph: TraceGraph, { parent: parentIndex, ids, ...rest }: NewNode): void {
  const parent = parentIndex === null ? null : (graph.byIndex.get(parentIndex) ?? null);
  const node: GraphNode = {
    ...rest,
    parent,
    ids,
    pathIds: (parent?.pathIds ?? 0) + (ids?.length ?? 0),
    depth: (parent?.depth ?? 0) + 1,
    children: [],
  };
  graph.byIndex.set(node.index, node);
  (parent?.children ?? graph.roots).push(node);
}

export type Request = {
  readonly keys: readonly MessageKey[];
  readonly roles: readonly string[];
  readonly prompt: Uint32Array | null;
  readonly tools: string;
};

/**
 * The end of the longest stored path that the request repeats: each message the same and, where ids are known on both sides, the ids those of the prompt. Null: it begins
 * a root. `from`: where to begin instead of at the roots.
 */
export function walk(graph: TraceGraph, request: Request, from: GraphNode | null): GraphNode | null {
  let best = from;
  const base = from?.depth ?? 0;
  // a stack of our own: a path may be longer than the stack of calls
  const open = [...(from?.children ?? graph.roots)].toReversed();
  for (let node = open.pop(); node !== undefined; node = open.pop()) {
    if (!matches(node, request, node.depth - 1 - base)) continue;
    if (isBetter(node, best, request.prompt !== null)) best = node;
    for (const child of node.children.toReversed()) open.push(child);
  }
  return best;
}

function matches(node: GraphNode, { keys, roles, prompt, tools }: Request, place: number): boolean {
  const key = keys[place];
  if (key === undefined || roles[place] !== node.role || (node.parent === null && node.tools !== null && node.tools !== tools))
    return false;
  const isSame = key.whole === node.key.whole;
  if (prompt === null || node.ids === null || node.ids.length === 0) return isSame;
  // the ids are the truth: a message that was re-sent in other words is still this node
  return idsAt(prompt, node.pathIds - node.ids.length, node.ids);
}

/** More ids, then more messages, then the newer; without ids the other way round. */
function isBetter(node: GraphNode, best: GraphNode | null, byIds: boolean): boolean {
  if (best === null) return true;
  const ids = node.pathIds - best.pathIds;
  const depth = node.depth - best.depth;
  return (byIds ? ids || depth : depth || ids) >= 0;
}

function idsAt(prompt: Uint32Array, at: number, ids: Uint32Array): boolean {
  if (at + ids.length > prompt.length) return false;
  for (let i = 0; i < ids.length; i++) if (prompt[at + i] !== ids[i]) return false;
  return true;
}
