import { z } from 'zod';
import { eventId, extra, float, name, nodeIndex, object } from './fields.ts';

/** What a value is about; the ids are in the envelope, `node` only for scope node. */
export const scope = z.enum(['run', 'group', 'rollout', 'trace', 'node']).meta({ description: 'what it is about; the envelope names it' });

const scopeNode = nodeIndex.nullish().meta({ description: 'index of the node; needed with scope node' });

const source = object({ kind: z.enum(['code', 'model', 'human']), name: name.nullish(), version: name.nullish() });

/** A trace's reward is the sum of score times weight. A null score was not measured; it is never 0. */
export const rewardAssigned = object({
  scope: z.enum(['rollout', 'trace', 'node']).meta({ description: 'what the score is about; the envelope names it' }),
  node: scopeNode,
  name,
  score: float.nullable().meta({ description: 'any double; null = not measured, never 0' }),
  weight: float.nullish().meta({ description: '1 when missing' }),
  source: source.nullish().meta({ description: 'who gave it' }),
  supersedes: eventId.nullish().meta({ description: 'event that this one corrects' }),
  extra,
});

/** A named number that is logged, not trained on. */
export const metricRecorded = object({
  scope,
  node: scopeNode,
  name,
  value: float.nullable().meta({ description: 'any double; null = not measured' }),
  extra,
});

export const errorRecorded = object({
  scope,
  node: scopeNode,
  type: name,
  message: z.string(),
  statusCode: z.int().nullish(),
  traceback: z.string().nullish(),
  extra,
});

/** A human or program label or comment on any entity. */
export const noteAdded = object({
  scope,
  node: scopeNode,
  label: z.string().max(256).nullish(),
  text: z.string().nullish(),
  author: z.string().max(256).nullish(),
  extra,
});
