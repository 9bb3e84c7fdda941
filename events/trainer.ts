import { z } from 'zod';
import { count, entityId, extra, name, nodeIndex, object, policyVersion, record, stream } from './fields.ts';

/** Feeds rewind by starting a new timeline; it is part of the entity key. */
export const timeline = z.int().nonnegative().nullish().meta({ description: 'timeline of the feed' });

export const policyPublished = object({
  version: policyVersion,
  step: count.nullish(),
  uri: z.string().max(4096).nullish().meta({ description: 'where the weights lie' }),
  trainer: name.nullish(),
  timeline,
  extra,
});

export const trainerStepped = object({
  step: count,
  feed: entityId.nullish(),
  batch: z.string().max(256).nullish().meta({ description: 'batch id' }),
  metrics: record.meta({ description: 'loss, kl, entropy, grad norm, lr …: named numbers' }),
  timeline,
  extra,
});

/** Late teacher scores of a node, so that a replay needs no teacher. Compact: one per masked token. */
export const referenceScored = object({
  node: nodeIndex,
  source: name.meta({ description: 'the teacher' }),
  version: name.nullish(),
  logprobs: stream('f32').meta({ description: 'one per sampled token of the node' }),
  extra,
});

/** What the trainer computed per token of a trained branch (named by its leaf). */
export const trainerAnnotated = object({
  leaf: nodeIndex.meta({ description: 'last node of the branch' }),
  step: count.nullish(),
  feed: entityId.nullish(),
  timeline,
  streams: object({
    trainerLogprobs: stream('f32').nullish(),
    entropies: stream('f32').nullish(),
    isMasked: stream('u8').nullish().meta({ description: '1 = left out of the loss' }),
  }),
  extra,
});
