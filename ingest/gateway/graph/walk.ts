/**
 * How far a request is already in the graph: the longest stored path whose messages and, where known, ids it repeats. All children are looked at, so a
 * duplicate that leads nowhere never hides the path that goes on. Whole nodes only.
 */
import type { Prints } from './message-print.ts';
import { HASH_WORDS, PARTS, PRINT_WORDS } from './message-print.ts';
import { bytesOf, hasFlag, NONE, pathTo, type TraceGraph } from './trace-graph.ts';

/** A request as the walk sees it. `prints` null = a token-in call, by ids only; `prompt` null = no ids, by messages only. */
export type Request = {
  readonly prints: Prints | null;
  /** Index of each message's role in the graph, -1 where no node has it. */
  readonly roles: readonly number[];
  readonly prompt: Uint32Array | null;
  readonly promptBytes: Buffer | null;
  readonly toolsHash: string | null;
  /** A stretch known to be equal: the pool and the places from..upTo of the prompt agree, `shift` apart. A note of the walk to itself. */
  readonly equal: { shift: number; from: number; upTo: number };
};

/** Ids compared at once beyond a node's own: the next nodes of a path mostly lie right behind it. */
const LOOK_AHEAD = 4096;

export function requestOf(graph: TraceGraph, prints: Prints | null, prompt: Uint32Array | null, toolsHash: string | null): Request {
  const roles = (prints?.roles ?? []).map((role) => graph.roleNames.indexOf(role));
  return { prints, roles, prompt, promptBytes: prompt === null ? null : bytesOf(prompt), toolsHash, equal: { shift: 0, from: 0, upTo: 0 } };
}

/** Where the walk ended: the node (NONE: at no root), messages of the request it used up, ids of the prompt it covers, and re-used nodes whose message differs. */
export type Walk = { readonly node: number; readonly depth: number; readonly offset: number; readonly drift: readonly Drift[] };
export type Drift = { readonly node: number; readonly fields: readonly string[] };

export function walk(graph: TraceGraph, request: Request): Walk {
  const longest = longestPath(graph, request);
  const node = request.prints === null ? lastWithIds(graph, longest.node) : longest.node;
  if (node === NONE) return { node: NONE, depth: 0, offset: 0, drift: [] };
  return {
    node,
    depth: graph.depths[node] as number,
    offset: request.prompt === null ? 0 : (graph.pathIds[node] as number),
    drift: longest.drifted > 0 ? driftAlong(graph, request, node) : [],
  };
}

/** A walk by ids may pass nodes without ids of their own, but it proves only what lies above the last node that has some. */
function lastWithIds(graph: TraceGraph, end: number): number {
  let at = end;
  while (at !== NONE && graph.lengths[at] === 0) at = graph.parents[at] as number;
  return at;
}

/**
 * Depth first over the matching nodes, newest child first; the best end has the most ids, then the most messages, then the fewest drifted nodes, then
 * the newest branch. Every node is visited at most once: its depth and the offset of its ids are its own.
 */
function longestPath(graph: TraceGraph, request: Request): { readonly node: number; readonly drifted: number } {
  const drifted: number[] = [0]; // by depth, on the path to the node at hand
  let best = NONE;
  let fewest = 0;
  let at = graph.firstRoot;
  while (at !== NONE) {
    const match = matchOf(graph, request, at);
    let next = NONE;
    if (match !== 'none') {
      const depth = graph.depths[at] as number;
      const count = (drifted[depth - 1] as number) + (match === 'drift' ? 1 : 0);
      drifted[depth] = count;
      const longer = best === NONE ? 1 : compareEnds(graph, at, best, request.prompt !== null) || fewest - count;
      if (longer > 0) [best, fewest] = [at, count];
      next = graph.firstChild[at] as number;
    }
    at = next === NONE ? nextBeside(graph, at) : next;
  }
  return { node: best, drifted: fewest };
}

function compareEnds(graph: TraceGraph, a: number, b: number, byIds: boolean): number {
  const ids = (graph.pathIds[a] as number) - (graph.pathIds[b] as number);
  const messages = (graph.depths[a] as number) - (graph.depths[b] as number);
  return byIds ? ids || messages : messages || ids;
}

/** The next node beside `at` or beside the nearest node above it that has one. */
function nextBeside(graph: TraceGraph, at: number): number {
  let up = at;
  while (up !== NONE && graph.nextSibling[up] === NONE) up = graph.parents[up] as number;
  return up === NONE ? NONE : (graph.nextSibling[up] as number);
}

/** Whether a node whose parent matches also does. `drift`: its ids are those of the prompt, its message is not the one that was re-sent. */
function matchOf(graph: TraceGraph, request: Request, node: number): 'none' | 'exact' | 'drift' {
  const { prints, prompt } = request;
  const length = graph.lengths[node] as number;
  if (prints === null) return hasFlag(graph, node, 'tokens') && (length === 0 || idsMatch(graph, request, node)) ? 'exact' : 'none';
  if (graph.parents[node] === NONE && graph.rootTools.get(node) !== request.toolsHash) return 'none';
  const k = (graph.depths[node] as number) - 1;
  if (k >= request.roles.length || request.roles[k] !== graph.roles[node]) return 'none';
  const same = samePrint(graph, node, prints, k);
  if (prompt === null || length === 0) return same ? 'exact' : 'none';
  if (!idsMatch(graph, request, node)) return 'none';
  return same ? 'exact' : 'drift';
}

function samePrint(graph: TraceGraph, node: number, prints: Prints, k: number): boolean {
  if (!hasFlag(graph, node, 'message')) return false;
  const [a, b] = [node * PRINT_WORDS, k * PRINT_WORDS];
  for (let w = 0; w < HASH_WORDS; w++) if (graph.prints[a + w] !== prints.words[b + w]) return false;
  return true;
}

/** Whether the node's ids lie in the prompt right behind those of its parent's path. */
function idsMatch(graph: TraceGraph, { prompt, promptBytes, equal }: Request, node: number): boolean {
  const length = graph.lengths[node] as number;
  const offset = (graph.pathIds[node] as number) - length;
  if (prompt === null || promptBytes === null || offset + length > prompt.length) return false;
  const start = graph.starts[node] as number;
  if (graph.ids[start + length - 1] !== prompt[offset + length - 1]) return false; // siblings differ most often at the end
  const shift = start - offset;
  if (shift === equal.shift && offset + length <= equal.upTo && offset >= equal.from) return true;
  const ahead = Math.min(LOOK_AHEAD, prompt.length - offset, graph.used - start);
  if (ahead > length && sameIds(graph, start, promptBytes, offset, ahead)) {
    equal.shift = shift;
    equal.from = offset;
    equal.upTo = offset + ahead;
    return true;
  }
  return sameIds(graph, start, promptBytes, offset, length);
}

/** Compares `length` ids of the pool from `start` with those of `other` from `offset`. */
export function sameIds(graph: TraceGraph, start: number, other: Buffer, offset: number, length: number): boolean {
  return graph.idBytes.compare(other, offset * 4, (offset + length) * 4, start * 4, (start + length) * 4) === 0;
}

function driftAlong(graph: TraceGraph, { prints }: Request, end: number): Drift[] {
  if (prints === null) return [];
  const found: Drift[] = [];
  for (const [k, node] of pathTo(graph, end).entries()) {
    if (!samePrint(graph, node, prints, k)) found.push({ node, fields: differingParts(graph, node, prints, k) });
  }
  return found;
}

/** The parts in which a node and message k of the request differ. A node without a message differs in `message`. */
export function differingParts(graph: TraceGraph, node: number, prints: Prints, k: number): string[] {
  if (!hasFlag(graph, node, 'message')) return ['message'];
  return PARTS.filter((_, part) => partOf(graph.prints, node, part) !== partOf(prints.words, k, part));
}

/** The word of one part of a print: 0 = the message has none. */
export function partOf(words: Uint32Array, at: number, part: number): number {
  return words[at * PRINT_WORDS + HASH_WORDS + part] as number;
}
