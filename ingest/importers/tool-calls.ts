/** Tool calls of a message graph: which call of which sampled answer, and the node that holds its result. */
import { isList, isRecord, nameOf, textOf, type Json, type JsonRecord } from './json-value.ts';

export type GraphNode = { readonly parent: number | null; readonly sampled: boolean; readonly message: JsonRecord | null };
export type ToolCall = { readonly toolCallId: string; readonly name: string; readonly node: number; readonly resultNode: number | null };

/** A result is looked for on the path above it; a call further away than this stays without one. */
const MAX_DISTANCE = 4096;

/** The tool calls of sampled answers that have an id, in order. Ids that repeat inside one answer count once. */
export function toolCallsOf(nodes: readonly GraphNode[]): ToolCall[] {
  const results = new Map<string, number>();
  const asked = new Set(nodes.flatMap((node) => callsIn(node).map((call) => call.id)));
  nodes.forEach((node, index) => {
    const id = textOf(node.message?.['tool_call_id']);
    if (node.message?.['role'] !== 'tool' || id === null || !asked.has(id)) return;
    const at = askedBy(nodes, index, id);
    if (at !== null && !results.has(keyOf(at, id))) results.set(keyOf(at, id), index);
  });
  return nodes.flatMap((node, index) => {
    const unique = new Map(callsIn(node).map((call) => [call.id, call.name]));
    return [...unique].map(([id, name]) => ({ toolCallId: id, name, node: index, resultNode: results.get(keyOf(index, id)) ?? null }));
  });
}

function keyOf(node: number, id: string): string {
  return `${node}/${id}`;
}

function callsIn(node: GraphNode): { id: string; name: string }[] {
  const calls: Json | undefined = node.sampled ? node.message?.['tool_calls'] : undefined;
  if (!isList(calls)) return [];
  return calls.flatMap((call) => {
    if (!isRecord(call)) return [];
    const id = nameOf(call['id']);
    const name = textOf(call['name']);
    return id === null || name === null || name.length > 1024 ? [] : [{ id, name }];
  });
}

/** The nearest ancestor that made this call. */
function askedBy(nodes: readonly GraphNode[], index: number, id: string): number | null {
  let at = nodes[index]?.parent ?? null;
  for (let steps = 0; at !== null && steps < MAX_DISTANCE; steps++) {
    const node: GraphNode | undefined = nodes[at];
    if (node === undefined) return null;
    if (callsIn(node).some((call) => call.id === id)) return at;
    at = node.parent;
  }
  return null;
}
