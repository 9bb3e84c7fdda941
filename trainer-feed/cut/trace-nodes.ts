/** Facts of a trace's nodes, each counted once: what the cut decides by, so that it reads no token twice. */
import type { MemberTrace, NodeTokens } from '../groups/ready-group.ts';
import type { Refusal } from '../algorithms/algorithm.ts';

const MISSING_LOGPROB = -9999;

export type NodeFacts = {
  readonly tokens: NodeTokens;
  readonly length: number;
  /** Tokens that count as sampled: mask 1 in a node the model produced in this trace, unless its stream broke and the spec does not train such. */
  readonly sampled: number;
  /** Oldest and newest policy version of the sampled tokens; null if not known per node. */
  readonly minVersion: number | null;
  readonly maxVersion: number | null;
  readonly multimodal: boolean;
};

export type TraceNodes = {
  readonly byIndex: ReadonlyMap<number, NodeFacts>;
  readonly sampledTokens: number;
  readonly totalTokens: number;
  /** Sampled nodes, those without tokens too. */
  readonly turns: number;
};

/** Facts of all nodes of `trace`; a refusal where columns do not fit each other or hold what cannot be shipped. */
export function readNodes(trace: MemberTrace, partial: 'context' | 'train', placeholders: ReadonlySet<number>): TraceNodes | Refusal {
  const byIndex = new Map<number, NodeFacts>();
  let sampledTokens = 0;
  let totalTokens = 0;
  let turns = 0;
  for (const node of trace.nodes.values()) {
    const wrong = columnFault(node);
    if (wrong !== null) return { refused: wrong.refused, message: `trace ${trace.trace}, node ${node.index}: ${wrong.message}` };
    const facts = factsOf(node, partial, placeholders);
    byIndex.set(node.index, facts);
    sampledTokens += facts.sampled;
    totalTokens += facts.length;
    if (node.sampled) turns++;
  }
  for (const node of trace.bare.values()) if (node.sampled) turns++;
  return { byIndex, sampledTokens, totalTokens, turns };
}

function factsOf(node: NodeTokens, partial: 'context' | 'train', placeholders: ReadonlySet<number>): NodeFacts {
  const counts = node.sampled && !(node.partial && partial === 'context');
  const runs = node.policyRuns;
  const versions =
    runs !== null && runs.length > 0 ? runs.map((run) => run.version) : node.policyVersion === null ? null : [node.policyVersion];
  return {
    tokens: node,
    length: node.ids.length,
    sampled: counts ? ones(node.mask, node.mask.length) : 0,
    minVersion: versions === null ? null : versions.reduce((a, b) => Math.min(a, b)),
    maxVersion: versions === null ? null : versions.reduce((a, b) => Math.max(a, b)),
    multimodal: placeholders.size > 0 && node.ids.some((id) => placeholders.has(id)),
  };
}

/** How many of the first `end` entries of `mask` are set. */
export function ones(mask: Uint8Array, end: number): number {
  let count = 0;
  for (let i = 0; i < end; i++) count += mask[i] as number;
  return count;
}

function columnFault(node: NodeTokens): Refusal | null {
  const { ids, mask, logprobs, referenceLogprobs, isContent, policyRuns } = node;
  if (!below2to31(ids)) return { refused: 'token_id_range', message: 'a token id is 2^31 or more, which the feed cannot ship' };
  if (mask.length !== ids.length) return { refused: 'token_lengths', message: `mask has ${mask.length} entries for ${ids.length} ids` };
  if (isContent !== null && isContent.length !== ids.length) {
    return { refused: 'token_lengths', message: `isContent has ${isContent.length} entries for ${ids.length} ids` };
  }
  const masked = ones(mask, mask.length);
  for (const [name, column] of [['logprobs', logprobs], ['referenceLogprobs', referenceLogprobs]] as const) {
    if (column === null) continue;
    if (column.length !== masked) return { refused: 'token_lengths', message: `${name} has ${column.length} entries for ${masked} sampled tokens` };
    if (!usable(column)) return { refused: 'non_finite_logprobs', message: `${name} holds a value that is not finite or stands for a missing one (${MISSING_LOGPROB})` };
  } // prettier-ignore
  if (policyRuns !== null && policyRuns.length > 0 && policyRuns.reduce((total, run) => total + run.length, 0) !== masked) {
    return { refused: 'token_lengths', message: `policyRuns do not add up to ${masked} sampled tokens` };
  }
  return null;
}

// Plain loops: an iterator over a typed array costs several times as much.
function below2to31(ids: Uint32Array): boolean {
  let bits = 0;
  for (let i = 0; i < ids.length; i++) bits |= ids[i] as number;
  return bits >= 0;
}

function usable(logprobs: Float32Array): boolean {
  let finite = 0; // stays 0: x - x is NaN for NaN and the infinities
  let missing = false;
  for (let i = 0; i < logprobs.length; i++) {
    const value = logprobs[i] as number;
    finite += value - value;
    missing ||= value === MISSING_LOGPROB;
  }
  return finite === 0 && !missing;
}
