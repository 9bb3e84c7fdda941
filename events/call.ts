import { z } from 'zod';
import { anything, count, errorInfo, extra, float, micros, name, nodeIndex, object, policyVersion, record, span } from './fields.ts';

export const usage = object({
  promptTokens: count.nullish(),
  completionTokens: count.nullish(),
  cachedTokens: count.nullish(),
  reasoningTokens: count.nullish(),
  cost: float.nullish(),
});

/** One exchange with a model server, successful or not. */
export const callRecorded = object({
  index: nodeIndex,
  node: nodeIndex.nullish(),
  model: name.nullish(),
  endpoint: z.string().max(4096).nullish(),
  dialect: name.nullish(),
  sampling: record.nullish(),
  requestDigest: z.string().max(128).nullish(),
  request: anything.optional(),
  response: anything.optional(),
  finishReason: z.string().max(256).nullish(),
  usage: usage.nullish(),
  time: span.nullish(),
  firstToken: micros.nullish(),
  policyVersion: policyVersion.nullish(),
  policyVersionEnd: policyVersion.nullish(),
  logprobsMode: z.enum(['raw', 'processed', 'unknown']).nullish(),
  tokenizerHash: z.string().max(256).nullish(),
  templateHash: z.string().max(256).nullish(),
  stream: z.boolean().nullish(),
  retryOf: nodeIndex.nullish(),
  error: errorInfo.nullish(),
  extra,
});

export const toolRecorded = object({
  toolCallId: z.string().min(1).max(1024),
  node: nodeIndex.nullish(),
  name: z.string().max(1024),
  time: span.nullish(),
  resultNode: nodeIndex.nullish(),
  error: errorInfo.nullish(),
  extra,
});
