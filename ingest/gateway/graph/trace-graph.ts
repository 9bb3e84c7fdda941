/**
 * The graph of one trace in bounded memory: per node its parent, role, print and place in one pool of token ids, no text and no objects. It is a
 * function of the trace's node.appended events alone, so that a gateway that restarts folds the same graph from the log.
 */
import { TapedeckError } from '../../../base/errors.ts';
import type { DataOf } from '../../../events/registry.ts';
import type { Message } from '../dialects/dialect.ts';
import type { NodePlan } from './exchange.ts';
import { addPrint, PRINT_WORDS } from './message-print.ts';

export const NONE = -1;
export const FLAGS = { sampled: 1, message: 2, tokens: 4 } as const;

/** Opaque outside this folder. Arrays grow by doubling; what lies beyond `count` and `used` is meaningless. */
export type TraceGraph = {
  count: number;
  /** Sampled nodes. */
  answers: number;
  parents: Int32Array;
  /** Children newest first; roots hang on `firstRoot`. NONE ends a list. */
  firstChild: Int32Array;
  nextSibling: Int32Array;
  firstRoot: number;
  /** Index into `roleNames`. */
  roles: Uint16Array;
  roleNames: string[];
  flags: Uint8Array;
  prints: Uint32Array;
  /** Where the node's ids lie in `ids`, how many they are, and how many of them come before its first sampled one. */
  starts: Float64Array;
  lengths: Uint32Array;
  unsampled: Uint32Array;
  /** Ids on the path from the root to the node, its own included; messages (nodes) on it. */
  pathIds: Float64Array;
  depths: Uint32Array;
  /** End of the exchange that made the node, microseconds. */
  times: Float64Array;
  /** Tools hash by root. */
  rootTools: Map<number, string | null>;
  ids: Uint32Array;
  /** The same memory as `ids`, for comparing bytes. */
  idBytes: Buffer;
  used: number;
};

const FIRST_NODES = 16;
const FIRST_IDS = 1024;

export function emptyGraph(): TraceGraph {
  const ids = new Uint32Array(FIRST_IDS);
  return {
    count: 0,
    answers: 0,
    parents: new Int32Array(FIRST_NODES),
    firstChild: new Int32Array(FIRST_NODES),
    nextSibling: new Int32Array(FIRST_NODES),
    firstRoot: NONE,
    roles: new Uint16Array(FIRST_NODES),
    roleNames: [],
    flags: new Uint8Array(FIRST_NODES),
    prints: new Uint32Array(FIRST_NODES * PRINT_WORDS),
    starts: new Float64Array(FIRST_NODES),
    lengths: new Uint32Array(FIRST_NODES),
    unsampled: new Uint32Array(FIRST_NODES),
    pathIds: new Float64Array(FIRST_NODES),
    depths: new Uint32Array(FIRST_NODES),
    times: new Float64Array(FIRST_NODES),
    rootTools: new Map(),
    ids,
    idBytes: bytesOf(ids),
    used: 0,
  };
}

/** The bytes of a typed array, without a copy. */
export function bytesOf(array: Uint32Array): Buffer {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength);
}

/** Memory that the graph holds, in bytes: what a caller with many traces counts. */
export function graphBytes(graph: TraceGraph): number {
  const { parents, firstChild, nextSibling, roles, flags, prints, starts, lengths, unsampled, pathIds, depths, times, ids } = graph;
  const arrays = [parents, firstChild, nextSibling, roles, flags, prints, starts, lengths, unsampled, pathIds, depths, times, ids];
  return arrays.reduce((sum, array) => sum + array.byteLength, 0) + graph.rootTools.size * 96;
}

/** Adds planned nodes, once their events are durable. */
export function applyNodes(graph: TraceGraph, nodes: readonly NodePlan[]): void {
  for (const node of nodes) {
    if (node.index !== graph.count) throw outOfOrder(node.index, graph.count);
    addNode(graph, { ...node, ids: node.tokens?.ids ?? null, mask: node.tokens?.mask ?? null });
  }
}

/**
 * Adds one node from the log; `time` is the event's. An event seen before changes nothing (a log may hold one twice) and gives false; a node
 * beyond the next one means that events are missing: throws.
 */
export function applyEvent(graph: TraceGraph, event: { readonly time: number; readonly data: DataOf<'node.appended'> }): boolean {
  const { data, time } = event;
  if (data.index < graph.count) return false;
  if (data.index > graph.count) throw outOfOrder(data.index, graph.count);
  const { ids, mask } = data.tokens ?? {};
  addNode(graph, {
    parent: data.parent ?? null,
    role: data.role,
    message: (data.message ?? null) as Message | null,
    sampled: data.sampled,
    ids: ids?.typed() ?? null,
    mask: mask?.bytes ?? null,
    toolsHash: data.toolsHash ?? null,
    time,
  });
  return true;
}

function outOfOrder(index: number, next: number): TapedeckError {
  return new TapedeckError('internal', `node ${index} does not follow: the next node of this trace is ${next}`, {
    details: { index, next },
  });
}

type NewNode = Pick<NodePlan, 'parent' | 'role' | 'message' | 'sampled' | 'toolsHash' | 'time'> & {
  readonly ids: Uint32Array | null;
  readonly mask: Uint8Array | null;
};

function addNode(graph: TraceGraph, node: NewNode): void {
  const at = graph.count;
  if (node.parent !== null && node.parent >= at)
    throw new TapedeckError('internal', `node ${at} names the later node ${node.parent} as parent`);
  if (at === graph.parents.length) growNodes(graph);
  const parent = node.parent ?? NONE;
  graph.parents[at] = parent;
  graph.firstChild[at] = NONE;
  if (parent === NONE) {
    graph.nextSibling[at] = graph.firstRoot;
    graph.firstRoot = at;
    graph.rootTools.set(at, node.toolsHash);
  } else {
    graph.nextSibling[at] = graph.firstChild[parent] as number;
    graph.firstChild[parent] = at;
  }
  graph.roles[at] = roleIndex(graph, node.role);
  graph.flags[at] =
    (node.sampled ? FLAGS.sampled : 0) | (node.message === null ? 0 : FLAGS.message) | (node.ids === null ? 0 : FLAGS.tokens);
  if (node.message !== null) addPrint(node.message, graph.prints, at * PRINT_WORDS);
  graph.times[at] = node.time;
  graph.depths[at] = (parent === NONE ? 0 : (graph.depths[parent] as number)) + 1;
  addIds(graph, at, node);
  if (node.sampled) graph.answers++;
  graph.count = at + 1;
}

function addIds(graph: TraceGraph, at: number, { ids, mask }: NewNode): void {
  const parent = graph.parents[at] as number;
  const length = ids?.length ?? 0;
  graph.starts[at] = graph.used;
  graph.lengths[at] = length;
  const sampledFrom = mask?.indexOf(1) ?? -1;
  graph.unsampled[at] = sampledFrom < 0 ? length : sampledFrom;
  graph.pathIds[at] = (parent === NONE ? 0 : (graph.pathIds[parent] as number)) + length;
  if (ids === null || length === 0) return;
  if (graph.used + length > graph.ids.length) growIds(graph, graph.used + length);
  graph.ids.set(ids, graph.used);
  graph.used += length;
}

function roleIndex(graph: TraceGraph, role: string): number {
  const known = graph.roleNames.indexOf(role);
  return known >= 0 ? known : graph.roleNames.push(role) - 1;
}

function growNodes(graph: TraceGraph): void {
  const size = graph.parents.length * 2;
  graph.parents = grown(graph.parents, new Int32Array(size));
  graph.firstChild = grown(graph.firstChild, new Int32Array(size));
  graph.nextSibling = grown(graph.nextSibling, new Int32Array(size));
  graph.roles = grown(graph.roles, new Uint16Array(size));
  graph.flags = grown(graph.flags, new Uint8Array(size));
  graph.prints = grown(graph.prints, new Uint32Array(size * PRINT_WORDS));
  graph.starts = grown(graph.starts, new Float64Array(size));
  graph.lengths = grown(graph.lengths, new Uint32Array(size));
  graph.unsampled = grown(graph.unsampled, new Uint32Array(size));
  graph.pathIds = grown(graph.pathIds, new Float64Array(size));
  graph.depths = grown(graph.depths, new Uint32Array(size));
  graph.times = grown(graph.times, new Float64Array(size));
}

function growIds(graph: TraceGraph, needed: number): void {
  graph.ids = grown(graph.ids, new Uint32Array(Math.max(needed, Math.ceil(graph.ids.length * 1.5))));
  graph.idBytes = bytesOf(graph.ids);
}

function grown<T extends Int32Array | Uint16Array | Uint8Array | Uint32Array | Float64Array>(old: T, larger: T): T {
  larger.set(old);
  return larger;
}

/** The children of `node` (NONE: the roots), newest first. */
export function* childrenOf(graph: TraceGraph, node: number): Generator<number> {
  let child = firstChildOf(graph, node);
  while (child !== NONE) {
    yield child;
    child = graph.nextSibling[child] as number;
  }
}

export function firstChildOf(graph: TraceGraph, node: number): number {
  return node === NONE ? graph.firstRoot : (graph.firstChild[node] as number);
}

export function hasFlag(graph: TraceGraph, node: number, flag: keyof typeof FLAGS): boolean {
  return ((graph.flags[node] as number) & FLAGS[flag]) !== 0;
}

/** The nodes from the root down to `node`; none for NONE. */
export function pathTo(graph: TraceGraph, node: number): number[] {
  const path: number[] = [];
  for (let at = node; at !== NONE; at = graph.parents[at] as number) path.push(at);
  return path.reverse();
}
