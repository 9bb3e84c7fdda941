/** The bodies of node.appended from a plan: the caller adds ids, producer and scope, and takes `time` as the event's. Pure. */
import type { DataOf } from '../../../events/registry.ts';
import { PackedArray } from '../../../events/packed-array.ts';
import type { ExchangePlan, NodePlan, NodeTokens } from './exchange.ts';

/** What the nodes of a call have from the call: its index, and the weights that sampled its answers (null = not known). */
export type CallFacts = { readonly call: number; readonly policyVersion: number | null };

export type NodeEvent = { readonly time: number; readonly data: DataOf<'node.appended'> };

/** One event per node, in append order; fields that say nothing are left out. */
export function nodeEvents(plan: ExchangePlan, facts: CallFacts): NodeEvent[] {
  return plan.nodes.map((node) => ({ time: node.time, data: nodeData(node, facts) }));
}

function nodeData(node: NodePlan, { call, policyVersion }: CallFacts): DataOf<'node.appended'> {
  return {
    index: node.index,
    ...(node.parent !== null && { parent: node.parent }),
    role: node.role,
    ...(node.message !== null && { message: node.message }),
    sampled: node.sampled,
    ...(node.tokens !== null && { tokens: packedTokens(node.tokens, node.sampled) }),
    ...(node.tokenError !== null && { tokenError: node.tokenError }),
    ...(node.sampled && policyVersion !== null && { policyVersion }),
    call,
    ...(node.forkReason !== null && { forkReason: node.forkReason }),
    ...(node.attribution !== null && { attribution: node.attribution }),
    ...(node.partial && { partial: true }),
    ...(node.toolsHash !== null && { toolsHash: node.toolsHash }),
  };
}

function packedTokens({ ids, mask, logprobs, policyRuns }: NodeTokens, sampled: boolean): NonNullable<DataOf<'node.appended'>['tokens']> {
  return {
    ids: PackedArray.of(ids),
    mask: PackedArray.of(mask),
    ...(sampled && logprobs !== null && { logprobs: PackedArray.of(logprobs) }),
    ...(policyRuns !== null && policyRuns.length > 0 && { policyRuns: policyRuns.map(({ length, version }) => ({ length, version })) }),
  };
}
