/** Decisions of a trainer feed, on a topic of their own keyed by the feed id: one feed has one total order. Large lists are blobs. */
import { z } from 'zod';
import { anything, blobHandle, count, entityId, extra, float, micros, nodeIndex, object, policyVersion } from './fields.ts';

const feed = entityId.meta({ description: 'the feed: log key of the event' });
const timeline = z.int().nonnegative().meta({ description: 'counts the rewinds of the feed' });
const batch = {
  feed,
  timeline,
  n: z.int().positive().meta({ description: 'number of the batch; batch n trains step n' }),
  batchId: z.string().max(128).meta({ description: 'hash of what the batch is made of' }),
};

export const feedCreated = object({ feed, timeline, spec: anything, specHash: z.string().max(128), extra });
export const groupReady = object({
  feed,
  timeline,
  group: entityId,
  members: z.union([z.array(entityId), blobHandle]).meta({ description: 'traces in their fixed order, or a blob of them' }),
  rewardPositions: anything.optional().meta({ description: 'log positions at which rewards were read' }),
  extra,
});
export const batchCut = object({
  ...batch,
  algorithm: z.string(),
  policyVersion: policyVersion.nullish(),
  rows: blobHandle.nullish().meta({ description: 'blob of the rows in order' }),
  excluded: blobHandle.nullish().meta({ description: 'blob of the rows left out, with reasons' }),
  counts: anything.optional().meta({ description: 'rows, groups, N_rl, N_ce, N_ref_kl' }),
  extra,
});
export const batchLeased = object({
  ...batch,
  holder: z.string().max(256).meta({ description: 'who holds the lease' }),
  planId: z.string().max(128).meta({ description: 'hash of the packing plan' }),
  step: count.meta({ description: 'the step it trains' }),
  expires: micros,
  extra,
});
export const batchCommitted = object({ ...batch, holder: z.string().max(256), step: count, extra });
export const batchReleased = object({ ...batch, holder: z.string().max(256), reason: z.string().max(1024).nullish(), extra });
export const sampleDropped = object({
  feed, timeline, n: z.int().positive().nullish(), run: entityId.nullish(), rollout: entityId, trace: entityId.nullish(), leaf: nodeIndex.nullish(),
  reason: z.string().max(256), staleness: float.nullish().meta({ description: 'optimizer steps between sampling and training' }), length: count.nullish().meta({ description: 'tokens' }), extra,
}); // prettier-ignore
export const feedCheckpointed = object({ ...batch, uri: z.string().max(4096).nullish(), extra });
export const feedRewound = object({
  feed,
  timeline,
  from: count.meta({ description: 'last committed batch before' }),
  to: count.meta({ description: 'batch to go on after' }),
  mode: z.enum(['replay', 'recut']),
  extra,
});
