import { z } from 'zod';
import { anything, extra, micros, name, object, record } from './fields.ts';

export const runStarted = object({
  kind: z.enum(['train', 'eval']).nullish(),
  name: name.nullish(),
  model: name.nullish(),
  config: anything.optional().meta({ description: 'the configuration, verbatim' }),
  envs: z.array(record).max(10_000).optional().meta({ description: 'environments of the run' }),
  tags: z.array(z.string().max(256)).max(256).optional(),
  extra,
});

export const runEnded = object({
  status: z.enum(['completed', 'failed', 'cancelled']),
  ended: micros.nullish(),
  metrics: record.optional().meta({ description: 'final numbers' }),
  extra,
});

/** A permanent tombstone on (project, run): independent of log position, for ever. */
export const runDeleted = object({ reason: z.string().max(4096).nullish() });

/** Runs older than this many days are deleted; null switches retention off. */
export const retentionSet = object({
  days: z.int().positive().nullable().meta({ description: 'age in days; null switches retention off' }),
});
