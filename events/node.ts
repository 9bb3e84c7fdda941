import { z } from 'zod';
import { blobHandle, callIndex, extra, name, nodeIndex, object, policyVersion, record, stream } from './fields.ts';

export const FORK_REASONS = [
  'retry', 'resample', 'parallel', 'compaction', 'edited_history', 'reasoning_dropped', 'template_changed', 'retokenised', 'subagent', 'unknown',
] as const; // prettier-ignore

/**
 * Tokens of one node, a delta: concatenated along a path they are exactly the prompt and completion ids the engine saw.
 * mask 1 = sampled by the model; logprobs are compact, one per masked token, under the policy that sampled it.
 */
export const tokens = object({
  ids: stream('u32').meta({ description: 'token ids, below 2^31' }),
  mask: stream('u8').meta({ description: 'one 0 or 1 per id: 1 = sampled by the model; JSON also true and false' }),
  isContent: stream('u8').nullish().meta({ description: 'one 0 or 1 per id: 1 = message body, 0 = chat-template scaffold' }),
  logprobs: stream('f32').nullish().meta({ description: 'one per sampled token, under the policy that sampled it' }),
  referenceLogprobs: stream('f32').nullish().meta({ description: 'one per sampled token, under a reference model' }),
  advantages: stream('f32').nullish().meta({ description: 'one per sampled token; null = never scored' }),
  lossWeights: z.record(z.string(), stream('f32')).nullish().meta({ description: 'by component (rl, ce, ref_kl …): one per id' }),
  policyRuns: z
    .array(object({ length: z.int().positive(), version: policyVersion }))
    .max(65_536)
    .nullish()
    .meta({ description: 'when weights changed mid-turn: lengths sum to the sampled tokens' }),
  routedExperts: blobHandle.nullish().meta({ description: 'blob of the routed experts per token' }),
  topLogprobs: blobHandle.nullish().meta({ description: 'blob of the top-k log-probabilities per token' }),
});

/** One message of a trace's graph. `message` is what the harness saw, `tokens` what the engine saw; both are kept. */
export const nodeAppended = object({
  index: nodeIndex.meta({ description: 'index of the node in its trace, from 0, in append order' }),
  parent: nodeIndex.nullish().meta({ description: 'a smaller index; null or missing = a root' }),
  role: z.string().min(1).max(64).meta({ description: 'system, user, assistant, tool, input …' }),
  message: record.nullish().meta({ description: 'what the harness saw, verbatim' }),
  sampled: z.boolean().meta({ description: 'whether the model produced it in this trace' }),
  tokens: tokens.nullish().meta({ description: 'what the engine saw; ids [] = none of its own, missing = the engine gave none' }),
  tokenError: name.nullish().meta({ description: 'why a sampled node has no tokens' }),
  policyVersion: policyVersion.nullish(),
  call: callIndex.nullish().meta({ description: 'index of the call that produced it' }),
  forkReason: z.enum(FORK_REASONS).nullish().meta({ description: 'why the chain left its siblings here' }),
  attribution: z.enum(['renderer', 'ladder', 'none']).nullish().meta({ description: 'how token spans were assigned to messages' }),
  partial: z.boolean().nullish().meta({ description: 'the stream broke: it holds what had arrived' }),
  toolsHash: z
    .string()
    .max(128)
    .nullish()
    .meta({ description: 'on roots: hash of the tool list that was offered; another list, another root' }),
  extra,
});
