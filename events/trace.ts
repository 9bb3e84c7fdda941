import { z } from 'zod';
import { anything, count, extra, micros, name, object, record } from './fields.ts';

export const traceStarted = object({
  agent: object({
    name: name.nullish(),
    model: name.nullish(),
    trainable: z.boolean().nullish(),
    config: anything.optional(),
  }),
  runtime: anything.optional(),
  tools: z.array(record).max(100_000).nullish(),
  started: micros.nullish(),
  extra,
});

export const traceEnded = object({
  ok: z.boolean().nullable(),
  stopCondition: name.nullish(),
  truncated: z.boolean().nullish(),
  counts: object({ nodes: count, calls: count }).nullish(),
  timing: z.record(z.string(), anything).optional(),
  started: micros.nullish(),
  ended: micros.nullish(),
  extra,
});
