/** OpenAPI of the admin routes, from their Zod schemas. */
import { z } from 'zod';
import { endRolloutSchema, newRolloutSchema, newTraceSchema, runKeySchema } from './requests.ts';

type Schema = Record<string, unknown>;

function jsonSchema(schema: z.ZodType, example: Schema): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema;
  return { ...rest, examples: [example] };
}

const ERROR: Schema = {
  type: 'object',
  properties: { error: { type: 'object', properties: { code: { type: 'string' }, message: { type: 'string' } } } },
};
const failure = (description: string): Schema => ({ description, ...ERROR });

const URLS: Schema = {
  type: 'object',
  description: 'what a program takes as its base URL; withKey for programs that take nothing else',
  additionalProperties: true,
};
const MADE: Schema = {
  rollout: { type: 'string' },
  trace: { type: 'string' },
  key: { type: 'string' },
  expires: { type: 'string', format: 'date-time' },
  baseUrls: URLS,
};

export const ADMIN_SCHEMAS = {
  rollouts: {
    summary: 'Start a rollout and get its key',
    description: 'Writes rollout.started and trace.started. Every model call made with the key is recorded in that trace.',
    tags: ['gateway'],
    body: jsonSchema(newRolloutSchema, {
      run: 'run-1',
      env: { id: 'gsm8k' },
      task: { key: '17' },
      group: { id: 'gsm8k/17', size: 8 },
      model: 'Qwen/Qwen3-4B',
      sampling: { temperature: 1 },
      limits: { turns: 20 },
    }),
    response: {
      201: { description: 'recorded', type: 'object', properties: MADE },
      400: failure('a field is wrong'),
      409: failure('the id is taken'),
    },
  },
  traces: {
    summary: 'Add an agent to a rollout: user simulator, judge, sub-agent',
    tags: ['gateway'],
    body: jsonSchema(newTraceSchema, { agent: { name: 'judge', trainable: false }, model: 'judge-large' }),
    response: {
      201: { description: 'recorded', type: 'object', properties: MADE },
      404: failure('the rollout is not known'),
      409: failure('the rollout was ended, or the id is taken'),
    },
  },
  end: {
    summary: 'End a rollout: later calls are refused with 409',
    description:
      'Calls under way are cancelled. Writes the rewards given, trace.ended for every trace that is not over, and rollout.ended, with counts.',
    tags: ['gateway'],
    body: jsonSchema(endRolloutSchema, { ok: true, stopCondition: 'done', rewards: [{ name: 'correct', score: 1 }] }),
    response: {
      200: { description: 'ended; sending it again gives the same answer', type: 'object', additionalProperties: true },
      404: failure('the rollout is not known'),
      409: failure('it was ended before, without these rewards'),
    },
  },
  keys: {
    summary: 'Get a key for all sessions of a run',
    description:
      'For programs that have one key for a whole run and name the trace by the header X-Session-ID. A session becomes a trace `wire:<session>` when it is first seen.',
    tags: ['gateway'],
    body: jsonSchema(runKeySchema, { model: 'Qwen/Qwen3-4B', expiresIn: 86_400 }),
    response: {
      201: { description: 'recorded', type: 'object', properties: { ...MADE, run: { type: 'string' } } },
      400: failure('a field is wrong'),
    },
  },
} as const satisfies Record<string, Schema>;
