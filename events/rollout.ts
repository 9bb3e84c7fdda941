import { z } from 'zod';
import { anything, count, entityId, extra, micros, name, nodeIndex, object, policyVersion, record } from './fields.ts';

export const env = object({ id: z.string().max(1024), name: name.nullish(), args: record.optional() });

/** One problem instance; `hash` is the sha256 of the canonical JSON of `data`. */
export const task = object({
  type: z.string().max(1024).nullish(),
  key: z.string().max(4096).nullish(),
  hash: z.string().max(128).nullish(),
  data: anything.optional(),
});

/** What the rollout was made for inside its run. */
export const work = object({ type: z.enum(['train', 'eval']), step: z.int().nonnegative().nullish() });

export const rolloutStarted = object({
  env: env.nullish(),
  task: task.nullish(),
  group: object({ id: entityId, size: z.int().positive().nullish() }).nullish(),
  work: work.nullish(),
  policyVersion: policyVersion.nullish(),
  policyVersionEnd: policyVersion.nullish(),
  attempt: count.nullish(),
  parentRollout: entityId.nullish(),
  forkNode: object({ trace: entityId, index: nodeIndex }).nullish(),
  started: micros.nullish(),
  extra,
});

export const rolloutEnded = object({
  ok: z.boolean().nullable(),
  stopCondition: name.nullish(),
  counts: object({ traces: count }).nullish(),
  timing: z.record(z.string(), anything).optional(),
  started: micros.nullish(),
  ended: micros.nullish(),
  extra,
});

export const rolloutCancelled = object({
  reason: z.enum(['stale', 'overload', 'user', 'superseded']),
  message: z.string().nullish(),
});

export const groupSealed = object({
  size: count,
  reason: z.enum(['complete', 'deadline', 'cancelled']),
  extra,
});
