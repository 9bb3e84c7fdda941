/** node.appended -> the narrow row and the payload row. The hottest projection: token streams are copied as bytes. */
import type { DataOf } from '../../../events/registry.ts';
import type { Block } from './block.ts';
import { jsonText } from './json-text.ts';
import { messageCells } from './message-cells.ts';
import { messageParts } from './message-parts.ts';
import { keysOf, positionOf, type StoredOf } from './stored-event.ts';

type Node = DataOf<'node.appended'>;
type Tokens = NonNullable<Node['tokens']>;

/** Bits of `node_payloads._streams`: which streams the event carried, be they empty or not. */
export const NODE_STREAMS = {
  ids: 1,
  is_content: 2,
  logprobs: 4,
  reference_logprobs: 8,
  advantages: 16,
  loss_weights: 32,
  policy_runs: 64,
} as const;

export function projectNode(stored: StoredOf<'node.appended'>, out: Block): void {
  const { event } = stored;
  const { data } = event;
  const tokens = data.tokens ?? null;
  const { project, run, rollout, trace } = keysOf(event);
  const { _partition, _offset } = positionOf(stored);
  const { index, parent, role, sampled, call } = data;
  const { time } = event;
  const versions = versionsOf(data, tokens);
  const ids = tokens === null ? null : tokens.ids.length;
  const sampledIds = tokens === null ? null : sampledCount(tokens);
  out.nodes.add({
    project, run, rollout, trace, index, parent, role, sampled, tokens: ids, sampled_tokens: sampledIds,
    policy_version_min: versions.min, policy_version_max: versions.max, call, time, _hash: stored.hash.data, _partition, _offset,
  }); // prettier-ignore
  const parts = messageParts(data.message);
  const cells = messageCells(stored.slice, data.message, parts.reasoningKey);
  const streams = tokens === null ? NO_STREAMS : streamsOf(tokens);
  out.nodePayloads.add({
    project, run, rollout, trace, index, parent, role, sampled, tokens: ids, sampled_tokens: sampledIds, policy_version: versions.last, call,
    fork_reason: data.forkReason, attribution: data.attribution, partial: data.partial, time,
    text: cells.text ?? parts.text, reasoning: cells.reasoning ?? parts.reasoning, tool_call_id: parts.toolCallId,
    tool_call_ids: parts.toolIds, tool_call_names: parts.toolNames, tool_call_arguments: parts.toolArguments,
    _message: cells.json, _text_at: cells.textAt, _reasoning_at: cells.reasoningAt,
    _streams: streams._streams, token_ids: streams.token_ids, mask: streams.mask, is_content: streams.is_content, logprobs: streams.logprobs,
    reference_logprobs: streams.reference_logprobs, advantages: streams.advantages,
    loss_weight_names: streams.loss_weight_names, loss_weights: streams.loss_weights,
    policy_run_lengths: streams.policy_run_lengths, policy_run_versions: streams.policy_run_versions,
    routed_experts: streams.routed_experts, top_logprobs: streams.top_logprobs,
    extra: jsonText(data.extra), rest: restOf(data), _partition, _offset,
  }); // prettier-ignore
}

function streamsOf(tokens: Tokens) {
  const { isContent, logprobs, referenceLogprobs, advantages, lossWeights, policyRuns } = tokens;
  const weights = lossWeights === null || lossWeights === undefined ? [] : Object.entries(lossWeights);
  return {
    _streams:
      NODE_STREAMS.ids |
      (isContent ? NODE_STREAMS.is_content : 0) |
      (logprobs ? NODE_STREAMS.logprobs : 0) |
      (referenceLogprobs ? NODE_STREAMS.reference_logprobs : 0) |
      (advantages ? NODE_STREAMS.advantages : 0) |
      (lossWeights ? NODE_STREAMS.loss_weights : 0) |
      (policyRuns ? NODE_STREAMS.policy_runs : 0),
    token_ids: tokens.ids,
    mask: tokens.mask,
    is_content: isContent,
    logprobs,
    reference_logprobs: referenceLogprobs,
    advantages,
    loss_weight_names: weights.map(([name]) => name),
    loss_weights: weights.map(([, values]) => values),
    policy_run_lengths: policyRuns?.map((run) => run.length),
    policy_run_versions: policyRuns?.map((run) => run.version),
    routed_experts: jsonText(tokens.routedExperts),
    top_logprobs: jsonText(tokens.topLogprobs),
  };
}

const NO_STREAMS = {
  _streams: 0,
  token_ids: null,
  mask: null,
  is_content: null,
  logprobs: null,
  reference_logprobs: null,
  advantages: null,
  loss_weight_names: null,
  loss_weights: null,
  policy_run_lengths: null,
  policy_run_versions: null,
  routed_experts: null,
  top_logprobs: null,
} as const;

/** The weights changed in mid-turn when there are runs; the node's one version is then the last. */
function versionsOf(data: Node, tokens: Tokens | null): { min: number | null; max: number | null; last: number | null } {
  const given = data.policyVersion ?? null;
  const runs = tokens?.policyRuns ?? null;
  if (runs === null || runs.length === 0) return { min: given, max: given, last: given };
  let min = Infinity;
  let max = -Infinity;
  for (const { version } of runs) {
    if (version < min) min = version;
    if (version > max) max = version;
  }
  return { min, max, last: given ?? (runs.at(-1) as { version: number }).version };
}

/** Log-probabilities are compact, one per sampled token (events/check-tokens.ts); without them the ones of the mask are counted. */
function sampledCount(tokens: Tokens): number {
  if (tokens.logprobs) return tokens.logprobs.length;
  const mask = tokens.mask.bytes;
  let ones = 0;
  for (let i = 0; i < mask.length; i++) ones += mask[i] as number;
  return ones;
}

const KNOWN_FIELDS = new Set(['index', 'parent', 'role', 'message', 'sampled', 'tokens', 'policyVersion', 'call', 'forkReason', 'attribution', 'partial', 'extra']); // prettier-ignore
const KNOWN_TOKEN_FIELDS = new Set(['ids', 'mask', 'isContent', 'logprobs', 'referenceLogprobs', 'advantages', 'lossWeights', 'policyRuns', 'routedExperts', 'topLogprobs']); // prettier-ignore

/** Fields we have no column for, as they came: `{…, "tokens": {…}}`, or null when there are none. */
function restOf(data: Node): string | null {
  const rest = unknownFields(data, KNOWN_FIELDS);
  const ofTokens = data.tokens ? unknownFields(data.tokens, KNOWN_TOKEN_FIELDS) : null;
  if (rest === null && ofTokens === null) return null;
  return jsonText(ofTokens === null ? rest : { ...rest, tokens: ofTokens });
}

function unknownFields(value: Readonly<Record<string, unknown>>, known: ReadonlySet<string>): Record<string, unknown> | null {
  let rest: [string, unknown][] | null = null;
  for (const key in value) if (!known.has(key)) (rest ??= []).push([key, value[key]]);
  return rest === null ? null : Object.fromEntries(rest);
}
