/** The identity that makes a graph fit for training: the ids along a path are the engine's prompt and completion, bit for bit. */
import { bytesOf, hasFlag, NONE, pathTo, type TraceGraph } from './trace-graph.ts';
import { sameIds } from './walk.ts';

/** What differs, in words with positions; null when the path to `leaf` holds exactly prompt + completion. Nodes without tokens count as empty. */
export function checkIdentity(graph: TraceGraph, leaf: number, promptIds: Uint32Array, completionIds: Uint32Array): string | null {
  if (leaf < 0 || leaf >= graph.count) return `there is no node ${leaf}`;
  if (!hasFlag(graph, leaf, 'tokens')) return `node ${leaf} has no tokens`;
  const length = graph.pathIds[leaf] as number;
  const want = promptIds.length + completionIds.length;
  if (length !== want) return `the path to node ${leaf} holds ${length} ids, the engine saw ${want}`;
  const joined = new Uint32Array(want);
  joined.set(promptIds);
  joined.set(completionIds, promptIds.length);
  return checkPath(graph, leaf, joined);
}

/** What differs between the ids on the path to `node` and the first ids of `prompt`; null when nothing does. Neighbours in memory are compared at once. */
export function checkPath(graph: TraceGraph, node: number, prompt: Uint32Array): string | null {
  if (node === NONE) return null;
  if (prompt.length < (graph.pathIds[node] as number)) return `the path to node ${node} is longer than ${prompt.length} ids`;
  const bytes = bytesOf(prompt);
  let [start, offset, length] = [0, 0, 0];
  for (const at of pathTo(graph, node)) {
    const follows = graph.starts[at] === start + length;
    if (!follows) {
      if (!sameIds(graph, start, bytes, offset, length)) return differs(node, offset);
      offset += length;
      start = graph.starts[at] as number;
      length = 0;
    }
    length += graph.lengths[at] as number;
  }
  const total = offset + length;
  if (total !== graph.pathIds[node]) return `the path to node ${node} holds ${total} ids instead of ${graph.pathIds[node]}`;
  return sameIds(graph, start, bytes, offset, length) ? null : differs(node, offset);
}

function differs(node: number, offset: number): string {
  return `the ids on the path to node ${node} differ from place ${offset} on`;
}
