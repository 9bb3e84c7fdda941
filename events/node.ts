import { z } from 'zod';
import { blobHandle, extra, nodeIndex, object, policyVersion, record, stream } from './fields.ts';

export const FORK_REASONS = [
  'retry', 'resample', 'parallel', 'compaction', 'edited_history', 'reasoning_dropped', 'template_changed', 'retokenised', 'subagent', 'unknown',
] as const; // prettier-ignore

/**
 * Tokens of one node, a delta: concatenated along a path they are exactly the prompt and completion ids the engine saw.
 * mask 1 = sampled by the model; logprobs are compact, one per masked token, under the policy that sampled it.
 */
export const tokens = object({
  ids: stream('u32'),
  mask: stream('u8'),
  isContent: stream('u8').nullish(),
  logprobs: stream('f32').nullish(),
  referenceLogprobs: stream('f32').nullish(),
  advantages: stream('f32').nullish(),
  lossWeights: z.record(z.string(), stream('f32')).nullish(),
  policyRuns: z
    .array(object({ length: z.int().positive(), version: policyVersion }))
    .max(65_536)
    .nullish(),
  routedExperts: blobHandle.nullish(),
  topLogprobs: blobHandle.nullish(),
});

/** One message of a trace's graph. `message` is what the harness saw, `tokens` what the engine saw; both are kept. */
export const nodeAppended = object({
  index: nodeIndex,
  parent: nodeIndex.nullish(),
  role: z.string().min(1).max(64),
  message: record.nullish(),
  sampled: z.boolean(),
  tokens: tokens.nullish(),
  policyVersion: policyVersion.nullish(),
  call: nodeIndex.nullish(),
  forkReason: z.enum(FORK_REASONS).nullish(),
  attribution: z.enum(['renderer', 'ladder', 'none']).nullish(),
  partial: z.boolean().nullish(),
  extra,
});
