/** Decisions of a trainer feed, on a topic of their own keyed by the feed id: one feed has one total order. Large lists are blobs. */
import { z } from 'zod';
import { anything, blobHandle, count, entityId, extra, float, micros, nodeIndex, object, policyVersion } from './fields.ts';

const feed = entityId;
const timeline = z.int().nonnegative();
const batch = { feed, timeline, n: z.int().positive(), batchId: z.string().max(128) };

export const feedCreated = object({ feed, timeline, spec: anything, specHash: z.string().max(128), extra });
export const groupReady = object({
  feed,
  timeline,
  group: entityId,
  members: z.union([z.array(entityId), blobHandle]),
  rewardPositions: anything.optional(),
  extra,
});
export const batchCut = object({
  ...batch,
  algorithm: z.string(),
  policyVersion: policyVersion.nullish(),
  rows: blobHandle.nullish(),
  excluded: blobHandle.nullish(),
  counts: anything.optional(),
  extra,
});
export const batchLeased = object({
  ...batch,
  holder: z.string().max(256),
  planId: z.string().max(128),
  step: count,
  expires: micros,
  extra,
});
export const batchCommitted = object({ ...batch, holder: z.string().max(256), step: count, extra });
export const batchReleased = object({ ...batch, holder: z.string().max(256), reason: z.string().max(1024).nullish(), extra });
export const sampleDropped = object({
  feed, timeline, n: z.int().positive().nullish(), run: entityId.nullish(), rollout: entityId, trace: entityId.nullish(), leaf: nodeIndex.nullish(),
  reason: z.string().max(256), staleness: float.nullish(), length: count.nullish(), extra,
}); // prettier-ignore
export const feedCheckpointed = object({ ...batch, uri: z.string().max(4096).nullish(), extra });
export const feedRewound = object({ feed, timeline, from: count, to: count, mode: z.enum(['replay', 'recut']), extra });
