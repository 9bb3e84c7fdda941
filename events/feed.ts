/** Decisions of a trainer feed, on a topic of their own keyed by the feed id: one feed has one total order. Large lists are blobs. */
import { z } from 'zod';
import { anything, blobHandle, count, entityId, extra, float, micros, nodeIndex, object, policyVersion, record } from './fields.ts';

const feed = entityId.meta({ description: 'the feed: log key of the event' });
const timeline = z.int().nonnegative().meta({ description: 'counts the rewinds of the feed' });
const batch = {
  feed,
  timeline,
  n: z.int().positive().meta({ description: 'number of the batch; batch n trains step n' }),
  batchId: z.string().max(128).meta({ description: 'hash of what the batch is made of' }),
};

/** How much of the events log was read: one offset per partition, everything below it counts. */
const positions = z.array(count).max(32_768);
const group = {
  group: entityId.meta({ description: 'the group; a rollout without a group is one by itself, under its own id' }),
  solo: z.boolean().nullish().meta({ description: 'true = group is the id of a rollout that has no group' }),
};

export const feedCreated = object({
  feed,
  timeline,
  spec: anything,
  specHash: z.string().max(128),
  positions: positions.optional().meta({ description: 'where it starts to read the events log: an offset per partition' }),
  end: positions
    .optional()
    .meta({ description: 'where the events log ended then; with rewardsAsOf latest nothing is decided before it was read up to there' }),
  extra,
});
export const feedDeleted = object({ feed, timeline, reason: z.string().max(1024).nullish(), extra });
export const groupClosed = object({
  feed,
  timeline,
  ...group,
  outcome: z
    .enum(['sealed', 'failed'])
    .meta({ description: 'sealed = these rollouts are its members, scores may be missing; failed = nothing of it is trained' }),
  reason: z.string().max(256).meta({ description: 'complete, deadline, sealed, cancelled, too_small, unscored, run_ended …' }),
  rollouts: z
    .union([z.array(object({ rollout: entityId, length: count.nullish().meta({ description: 'tokens' }) })), blobHandle])
    .meta({ description: 'its rollouts in their fixed order, or a blob of them' }),
  positions: positions.optional().meta({ description: 'how much of the events log was known: an offset per partition' }),
  extra,
});
export const groupReady = object({
  feed,
  timeline,
  ...group,
  reason: z.string().max(256).nullish().meta({ description: 'why nobody else joins: complete, deadline, sealed …' }),
  members: z
    .union([z.array(object({ rollout: entityId, trace: entityId })), blobHandle])
    .meta({ description: 'traces in their fixed order, or a blob of them' }),
  rewardPositions: positions
    .optional()
    .meta({ description: 'how much of the events log was read: an offset per partition; what lies beyond never enters the group' }),
  baselines: z.array(float).optional().meta({ description: 'running baselines before the update, one per member (rae)' }),
  baselinesAfter: z
    .record(z.string(), float)
    .optional()
    .meta({ description: 'the running baselines that the group moved, after it: by JSON text of [env, agent]' }),
  extra,
});
export const batchCut = object({
  ...batch,
  algorithm: z.string(),
  policyVersion: policyVersion.nullish(),
  previous: z.string().max(128).nullish().meta({ description: 'id of the batch before; null for the first' }),
  groups: z
    .union([z.array(count), blobHandle])
    .nullish()
    .meta({ description: 'the groups it uses up, in order: offsets of their group.ready in the log of the feed, or a blob of them' }),
  positions: positions.optional().meta({ description: 'how much of the events log was known: an offset per partition' }),
  rows: blobHandle.nullish().meta({ description: 'blob of the rows in order' }),
  excluded: blobHandle.nullish().meta({ description: 'blob of the rows left out, with reasons' }),
  counts: anything
    .optional()
    .meta({ description: 'rows, rollouts, groups, tokens, N_rl, N_ce, N_ref_kl, and what was left out by reason' }),
  statistics: record.optional().meta({ description: 'numbers over the whole batch that the algorithm used' }),
  extra,
});
export const batchLeased = object({
  ...batch,
  holder: z.string().max(256).meta({ description: 'who holds the lease' }),
  planId: z.string().max(128).meta({ description: 'hash of the packing plan' }),
  plan: record.nullish().meta({ description: 'what the plan was made for: world, maxTokens, padToMultiple …' }),
  assignment: blobHandle.nullish().meta({ description: 'blob of where each row lies: rank, micro-batch, position' }),
  step: count.meta({ description: 'the step it trains' }),
  expires: micros,
  renews: count.nullish().meta({ description: 'the fencing token that it keeps alive; missing = a lease with a token of its own' }),
  extra,
});
const token = count.nullish().meta({ description: 'fencing token: offset of the batch.leased event' });
export const batchCommitted = object({
  ...batch,
  holder: z.string().max(256),
  step: count,
  token,
  resumed: z.boolean().nullish().meta({ description: 'true = a checkpoint proved that it was trained' }),
  extra,
});
export const batchReleased = object({ ...batch, holder: z.string().max(256), token, reason: z.string().max(1024).nullish(), extra });
export const sampleDropped = object({
  feed, timeline, n: z.int().positive().nullish(), run: entityId.nullish(), group: entityId.nullish(), rollout: entityId, trace: entityId.nullish(), leaf: nodeIndex.nullish(),
  reason: z.string().max(256), staleness: float.nullish().meta({ description: 'optimizer steps between sampling and training' }), length: count.nullish().meta({ description: 'tokens' }), extra,
}); // prettier-ignore
export const feedCheckpointed = object({ ...batch, uri: z.string().max(4096).nullish(), extra });
export const feedRewound = object({
  feed,
  timeline,
  from: count.meta({ description: 'last committed batch before' }),
  to: count.meta({ description: 'batch to go on after' }),
  mode: z.enum(['replay', 'recut']),
  positions: positions.optional().meta({ description: 'how much of the events log was known: an offset per partition' }),
  extra,
});
