import { z } from 'zod';
import { anything, count, entityId, extra, micros, name, object, record } from './fields.ts';

export const traceStarted = object({
  agent: object({
    name: name.nullish(),
    model: name.nullish(),
    trainable: z.boolean().nullish().meta({ description: 'whether its sampled tokens may be trained on' }),
    config: anything.optional(),
  }),
  runtime: anything.optional().meta({ description: 'harness, versions, host' }),
  mirrorOf: entityId
    .nullish()
    .meta({ description: 'the trace that another producer records of the same work: once that one is there, this one only proves it' }),
  tools: z.array(record).max(100_000).nullish().meta({ description: 'tool schemas offered to the model' }),
  started: micros.nullish(),
  extra,
});

export const traceEnded = object({
  ok: z.boolean().nullable().meta({ description: 'false = it failed; null = not known' }),
  stopCondition: name.nullish().meta({ description: 'why it stopped' }),
  truncated: z.boolean().nullish().meta({ description: 'cut by a length limit' }),
  counts: object({ nodes: count, calls: count }).nullish().meta({ description: 'what the trace should hold, for audits' }),
  timing: z.record(z.string(), anything).optional().meta({ description: 'named spans' }),
  started: micros.nullish(),
  ended: micros.nullish(),
  extra,
});
