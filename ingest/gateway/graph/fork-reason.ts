/**
 * Why a request leaves the chain before it: the table of reasons. Known are only roles, prints and ids, so what was rendered where is judged by the place
 * of the first id that differs: inside an answer's completion, or before it.
 */
import type { Exchange, ForkReason } from './exchange.ts';
import { PARTS, type Part, type Prints } from './message-print.ts';
import { childrenOf, firstChildOf, hasFlag, NONE, type TraceGraph } from './trace-graph.ts';
import { partOf, sameIds, type Request, type Walk } from './walk.ts';

/** Ids between the end of a rendered prompt and the reasoning of the answer: generation prompt and opening tag. */
const REASONING_HEAD = 8;
/** To tell a re-tokenised stretch from a dropped one: this many ids of the old completion must turn up again this soon. */
const RESYNC_IDS = 6;
const RESYNC_WITHIN = 64;
/** No spelling of a text is this many times shorter than another. */
const LEFT_OUT_RATIO = 8;

export type Fork = { readonly reason: ForkReason | null; readonly samePrompt: boolean };

/** `reason` is null where the walk ended at a leaf: nothing is left behind. `samePrompt`: the prompt was answered before. */
export function forkOf(graph: TraceGraph, exchange: Exchange, request: Request, walk: Walk): Fork {
  if (firstChildOf(graph, walk.node) === NONE) return { reason: null, samePrompt: false };
  const overlaps = (node: number): boolean => (graph.times[node] as number) > exchange.start;
  const twin = isAllKnown(request, walk) ? twinOf(graph, request, walk, overlaps) : NONE;
  if (twin !== NONE) return { reason: exchange.retry ? 'retry' : overlaps(twin) ? 'parallel' : 'resample', samePrompt: true };
  return { reason: reasonOf(graph, exchange, request, walk, overlaps), samePrompt: false };
}

function reasonOf(graph: TraceGraph, exchange: Exchange, request: Request, walk: Walk, overlaps: (node: number) => boolean): ForkReason {
  if (exchange.compaction) return 'compaction';
  const children = [...childrenOf(graph, walk.node)];
  if (children.some(overlaps)) return 'parallel';
  // The same messages were answered before, to another prompt.
  if (isAllKnown(request, walk) && children.some((child) => hasFlag(graph, child, 'sampled'))) return 'template_changed';
  return request.prints === null ? reasonByIds(graph, request, walk) : reasonByEvidence(graph, request, request.prints, walk);
}

/** The request has nothing beyond the walk but perhaps ids of a generation prompt. */
function isAllKnown({ prints, prompt, roles }: Request, walk: Walk): boolean {
  return prints === null ? walk.offset === prompt?.length : walk.depth === roles.length;
}

/** An answer to the very same prompt, an overlapping one if there is any. Where ids are missing on either side, the messages decide. */
function twinOf(graph: TraceGraph, { prompt, promptBytes }: Request, walk: Walk, overlaps: (node: number) => boolean): number {
  const rest = (prompt?.length ?? 0) - walk.offset;
  const isTwin = (child: number): boolean => {
    if (!hasFlag(graph, child, 'sampled')) return false;
    if (promptBytes === null || !hasFlag(graph, child, 'tokens')) return true;
    return graph.unsampled[child] === rest && sameIds(graph, graph.starts[child] as number, promptBytes, walk.offset, rest);
  };
  let found = NONE;
  for (const child of childrenOf(graph, walk.node)) {
    if (overlaps(child)) {
      if (isTwin(child)) return child;
    } else if (found === NONE && isTwin(child)) found = child;
  }
  return found;
}

// What the request is compared with

/** A chain below the end of the walk: first the nodes whose message the request repeats, apart from dropped reasoning, then the newest ones. */
function rivalChain(graph: TraceGraph, request: Request, prints: Prints, from: number): number[] {
  let best = from;
  let at = firstChildOf(graph, from);
  const depthOf = (node: number): number => (node === NONE ? 0 : (graph.depths[node] as number));
  while (at !== NONE) {
    const k = depthOf(at) - 1;
    const repeats = k < request.roles.length && relationOf(graph, at, request, prints, k) !== 'differs';
    if (repeats && depthOf(at) > depthOf(best)) best = at;
    let next = repeats ? (graph.firstChild[at] as number) : NONE;
    for (let up = at; next === NONE && up !== from; up = graph.parents[up] as number) next = graph.nextSibling[up] as number;
    at = next;
  }
  return [...chainBetween(graph, from, best), ...newestChain(graph, best)];
}

function chainBetween(graph: TraceGraph, from: number, to: number): number[] {
  const chain: number[] = [];
  for (let at = to; at !== from; at = graph.parents[at] as number) chain.push(at);
  return chain.reverse();
}

function newestChain(graph: TraceGraph, from: number): number[] {
  const chain: number[] = [];
  for (let at = firstChildOf(graph, from); at !== NONE; at = firstChildOf(graph, at)) chain.push(at);
  return chain;
}

type Relation = 'equal' | 'without_reasoning' | 'differs';
/** Parts that a harness may rewrite without changing what was said. */
const NAMES_ONLY: ReadonlySet<Part> = new Set<Part>(['tool_calls.id', 'tool_call_id']);
/** Parts that hold reasoning: it counts as dropped when the re-sent message has none. */
const REASONING: ReadonlySet<Part> = new Set<Part>(['reasoning_content', 'provider_state']);

/** How message k of the request stands to a node's. */
function relationOf(graph: TraceGraph, node: number, request: Request, prints: Prints, k: number): Relation {
  if (request.roles[k] !== graph.roles[node] || !hasFlag(graph, node, 'message')) return 'differs';
  let relation: Relation = 'equal';
  for (const [part, name] of PARTS.entries()) {
    const sent = partOf(prints.words, k, part);
    if (sent === partOf(graph.prints, node, part) || NAMES_ONLY.has(name)) continue;
    if (!REASONING.has(name) || sent !== 0) return 'differs';
    relation = 'without_reasoning';
  }
  return relation;
}

// The evidence

/** The first id in which the prompt leaves a chain: the node, its place in the chain, and the place of the id among the node's own. */
type Difference = { readonly node: number; readonly at: number; readonly id: number };

function firstDifference(graph: TraceGraph, { prompt }: Request, walk: Walk, chain: readonly number[]): Difference | null {
  if (prompt === null) return null;
  let offset = walk.offset;
  for (const [at, node] of chain.entries()) {
    const [start, length] = [graph.starts[node] as number, graph.lengths[node] as number];
    for (let id = 0; id < length; id++) if (graph.ids[start + id] !== prompt[offset + id]) return { node, at, id };
    offset += length;
  }
  return null;
}

function reasonByEvidence(graph: TraceGraph, request: Request, prints: Prints, walk: Walk): ForkReason {
  const chain = rivalChain(graph, request, prints, walk.node);
  const relations = chain.map((node) => {
    const k = (graph.depths[node] as number) - 1;
    return k < request.roles.length ? relationOf(graph, node, request, prints, k) : null;
  });
  const found = firstDifference(graph, request, walk, chain);
  if (found === null) return reasonByMessages(graph, request, walk, chain, relations);
  const relation = relations[found.at] ?? null;
  const before = relations.slice(0, found.at);
  const isAnswer = hasFlag(graph, found.node, 'sampled');
  const inCompletion = isAnswer && found.id >= (graph.unsampled[found.node] as number);
  if (inCompletion && relation !== null) return reasonInAnswer(graph, request, walk, chain, found, relation);
  if (!before.every((r) => r === 'equal')) return reasonByMessages(graph, request, walk, chain, relations);
  if (!isAnswer) return relation === 'equal' ? 'template_changed' : editOf(graph, request, chain);
  if (relation === null) return 'template_changed'; // the request ends where this answer stands
  const inHead = (graph.unsampled[found.node] as number) - found.id <= REASONING_HEAD && relation !== 'differs';
  if (inHead && hasReasoning(graph, found.node)) return 'reasoning_dropped';
  return request.roles[walk.depth + found.at] === graph.roles[found.node] ? 'template_changed' : editOf(graph, request, chain);
}

/** The prompt differs inside what was sampled. */
function reasonInAnswer(
  graph: TraceGraph,
  request: Request,
  walk: Walk,
  chain: readonly number[],
  found: Difference,
  relation: Relation,
): ForkReason {
  if (relation === 'without_reasoning') return 'reasoning_dropped';
  if (relation === 'differs') return editOf(graph, request, chain);
  const atHead = found.id - (graph.unsampled[found.node] as number) <= REASONING_HEAD;
  return atHead && hasReasoning(graph, found.node) && !goesOn(graph, request, walk, chain, found) ? 'reasoning_dropped' : 'retokenised';
}

function hasReasoning(graph: TraceGraph, node: number): boolean {
  return PARTS.some((name, part) => REASONING.has(name) && partOf(graph.prints, node, part) !== 0);
}

/**
 * Whether the completion goes on in the prompt soon after the place where the two part: only the spelling of a stretch differs. A stretch with nothing, or next to
 * nothing, in its place was left out, not spelled another way.
 */
function goesOn(graph: TraceGraph, { prompt }: Request, walk: Walk, chain: readonly number[], found: Difference): boolean {
  const end = (graph.starts[found.node] as number) + (graph.lengths[found.node] as number);
  const here = (graph.starts[found.node] as number) + found.id;
  const offset = walk.offset + chain.slice(0, found.at).reduce((sum, node) => sum + (graph.lengths[node] as number), found.id);
  for (let from = here + 1; from + RESYNC_IDS <= end && from - here <= RESYNC_WITHIN; from++) {
    const window = graph.ids.subarray(from, from + RESYNC_IDS);
    for (let shift = 0; shift <= RESYNC_WITHIN; shift++) {
      if (window.every((id, i) => prompt?.[offset + shift + i] === id)) return shift * LEFT_OUT_RATIO > from - here;
    }
  }
  return false;
}

/** No id tells: the first message that differs does. */
function reasonByMessages(
  graph: TraceGraph,
  request: Request,
  walk: Walk,
  chain: readonly number[],
  relations: readonly (Relation | null)[],
): ForkReason {
  const first = relations.findIndex((relation) => relation !== 'equal');
  if (first >= 0 && relations[first] === 'without_reasoning') return 'reasoning_dropped';
  const answered = first < 0 || chain.slice(0, first).some((node) => hasFlag(graph, node, 'sampled'));
  const otherTools = walk.node === NONE && chain[0] !== undefined && graph.rootTools.get(chain[0]) !== request.toolsHash;
  return otherTools && answered ? 'template_changed' : editOf(graph, request, chain);
}

/** The messages differ: a history that got shorter was compacted, any other was edited. */
function editOf(graph: TraceGraph, { prompt, roles }: Request, chain: readonly number[]): ForkReason {
  const last = chain.findLast((node) => hasFlag(graph, node, 'sampled'));
  if (last === undefined || roles.length >= (graph.depths[last] as number) - 1) return 'edited_history';
  const ids = (graph.pathIds[last] as number) - (graph.lengths[last] as number) + (graph.unsampled[last] as number);
  return prompt !== null && hasFlag(graph, last, 'tokens') && prompt.length >= ids ? 'edited_history' : 'compaction';
}

/** A token-in call has no messages: only a re-spelled answer can be told. */
function reasonByIds(graph: TraceGraph, request: Request, walk: Walk): ForkReason {
  const next = request.prompt?.[walk.offset];
  const children = [...childrenOf(graph, walk.node)];
  const first =
    children.find((child) => (graph.lengths[child] as number) > 0 && graph.ids[graph.starts[child] as number] === next) ?? children[0];
  if (first === undefined) return 'unknown';
  const chain = [first, ...newestChain(graph, first)];
  const found = firstDifference(graph, request, walk, chain);
  if (found === null || !hasFlag(graph, found.node, 'sampled') || found.id < (graph.unsampled[found.node] as number)) return 'unknown';
  return goesOn(graph, request, walk, chain, found) ? 'retokenised' : 'unknown';
}
