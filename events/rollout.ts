import { z } from 'zod';
import { anything, count, entityId, extra, micros, name, nodeIndex, object, policyVersion, record } from './fields.ts';

export const env = object({
  id: z.string().max(1024),
  name: name.nullish(),
  args: record.optional().meta({ description: 'arguments it was made with' }),
});

/** One problem instance; `hash` is the sha256 of the canonical JSON of `data`. */
export const task = object({
  type: z.string().max(1024).nullish(),
  key: z.string().max(4096).nullish(),
  hash: z.string().max(128).nullish().meta({ description: 'sha256 of the canonical JSON of data' }),
  data: anything.optional().meta({ description: 'the problem instance, verbatim' }),
});

/** What the rollout was made for inside its run. */
export const work = object({
  type: z.enum(['train', 'eval']),
  step: z.int().nonnegative().nullish().meta({ description: 'training step it was made for' }),
});

export const rolloutStarted = object({
  env: env.nullish(),
  task: task.nullish(),
  group: object({ id: entityId, size: z.int().positive().nullish().meta({ description: 'rollouts planned' }) }).nullish(),
  work: work.nullish(),
  policyVersion: policyVersion.nullish().meta({ description: 'weights at the first call' }),
  policyVersionEnd: policyVersion.nullish().meta({ description: 'weights at the last call, when known' }),
  attempt: count.nullish().meta({ description: 'counts re-tries of one place in a group, from 0' }),
  parentRollout: entityId.nullish().meta({ description: 'the rollout it was forked from' }),
  forkNode: object({ trace: entityId, index: nodeIndex }).nullish().meta({ description: 'the node it was forked at' }),
  mirrorOf: entityId
    .nullish()
    .meta({ description: 'the rollout that another producer records of the same work: once that one is there, this one only proves it' }),
  started: micros.nullish(),
  extra,
});

export const rolloutEnded = object({
  ok: z.boolean().nullable().meta({ description: 'false = it failed; null = not known' }),
  stopCondition: name.nullish().meta({ description: 'why it stopped' }),
  counts: object({ traces: count.meta({ description: 'traces of the rollout, for audits' }) }).nullish(),
  timing: z.record(z.string(), anything).optional().meta({ description: 'named spans' }),
  started: micros.nullish(),
  ended: micros.nullish(),
  extra,
});

export const rolloutCancelled = object({
  reason: z.enum(['stale', 'overload', 'user', 'superseded']),
  message: z.string().nullish(),
});

export const groupSealed = object({
  size: count.meta({ description: 'rollouts that count' }),
  reason: z.enum(['complete', 'deadline', 'cancelled']),
  extra,
});
