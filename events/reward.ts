import { z } from 'zod';
import { eventId, extra, float, name, nodeIndex, object } from './fields.ts';

/** What a value is about; the ids are in the envelope, `node` only for scope node. */
export const scope = z.enum(['run', 'group', 'rollout', 'trace', 'node']);

const source = object({ kind: z.enum(['code', 'model', 'human']), name: name.nullish(), version: name.nullish() });

/** A trace's reward is the sum of score times weight. A null score was not measured; it is never 0. */
export const rewardAssigned = object({
  scope: z.enum(['rollout', 'trace', 'node']),
  node: nodeIndex.nullish(),
  name,
  score: float.nullable(),
  weight: float.nullish(),
  source: source.nullish(),
  supersedes: eventId.nullish(),
  extra,
});

/** A named number that is logged, not trained on. */
export const metricRecorded = object({ scope, node: nodeIndex.nullish(), name, value: float.nullable(), extra });

export const errorRecorded = object({
  scope,
  node: nodeIndex.nullish(),
  type: name,
  message: z.string(),
  statusCode: z.int().nullish(),
  traceback: z.string().nullish(),
  extra,
});

/** A human or program label or comment on any entity. */
export const noteAdded = object({
  scope,
  node: nodeIndex.nullish(),
  label: z.string().max(256).nullish(),
  text: z.string().nullish(),
  author: z.string().max(256).nullish(),
  extra,
});
