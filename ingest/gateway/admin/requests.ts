/** Bodies of the routes that make and end rollouts. */
import { z } from 'zod';
import { count, entityId, float, name, nodeIndex, policyVersion, record } from '../../../events/fields.ts';
import { env, task, work } from '../../../events/rollout.ts';
import { traceSettingsSchema } from '../traces/settings.ts';

const DAY = 86_400;
const expiresIn = z
  .int()
  .min(1)
  .max(90 * DAY)
  .default(DAY)
  .meta({ description: 'seconds until the key is refused' });
const project = entityId.optional().meta({ description: 'tenant; default when missing' });

export const newRolloutSchema = traceSettingsSchema.extend({
  project,
  run: entityId,
  rollout: entityId.optional().meta({ description: 'default: a new id' }),
  trace: entityId.optional().meta({ description: 'default: a new id' }),
  env: env.optional(),
  task: task.optional(),
  group: z
    .strictObject({ id: entityId, size: z.int().positive().optional() })
    .optional()
    .meta({ description: 'the rollouts that are scored against each other' }),
  work: work.optional(),
  policyVersion: policyVersion.optional(),
  attempt: count.optional(),
  parentRollout: entityId.optional(),
  forkNode: z.strictObject({ trace: entityId, index: nodeIndex }).optional(),
  expiresIn,
  extra: record.optional(),
});

export const newTraceSchema = traceSettingsSchema.extend({ project, trace: entityId.optional(), expiresIn });

export const runKeySchema = traceSettingsSchema.extend({ project, env: env.optional(), work: work.optional(), expiresIn });

const reward = z.strictObject({
  scope: z.enum(['rollout', 'trace', 'node']).default('rollout'),
  trace: entityId.optional().meta({ description: 'of the rollout; needed with scope trace or node when it has several' }),
  node: nodeIndex.optional(),
  name,
  score: float.nullable(),
  weight: float.optional(),
  source: z.strictObject({ kind: z.enum(['code', 'model', 'human']), name: name.optional(), version: name.optional() }).optional(),
});

export const endRolloutSchema = z.strictObject({
  project,
  ok: z.boolean().nullable().default(null).meta({ description: 'false = it failed; null = not known' }),
  stopCondition: name.optional().meta({ description: 'default: the limit that was reached, if one was' }),
  rewards: z.array(reward).max(1_000).default([]),
});

export type NewRollout = z.output<typeof newRolloutSchema>;
export type NewTrace = z.output<typeof newTraceSchema>;
export type RunKeyRequest = z.output<typeof runKeySchema>;
export type EndRollout = z.output<typeof endRolloutSchema>;
