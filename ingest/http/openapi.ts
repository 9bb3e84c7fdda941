/** OpenAPI 3.1 of the edge, from the Zod schemas of the events. Served at `/docs` (a page) and `/docs/json`. */
import { z } from 'zod';
import { envelope } from '../../events/envelope.ts';
import { EVENT_TYPES, type EventType } from '../../events/registry.ts';
import { MEDIA_TYPES } from '../accept-media.ts';

type Schema = Record<string, unknown>;

const EXAMPLES: readonly Schema[] = [
  {
    v: 1,
    id: '0198c0de-0000-7000-8000-000000000001',
    type: 'rollout.started',
    run: 'run-1',
    rollout: 'rollout-1',
    time: 1_760_000_000_000_000,
    data: { env: { id: 'gsm8k' }, task: { key: '17' }, policyVersion: 3 },
  },
  {
    v: 1,
    id: '0198c0de-0000-7000-8000-000000000002',
    type: 'node.appended',
    run: 'run-1',
    rollout: 'rollout-1',
    trace: 'trace-1',
    time: 1_760_000_000_500_000,
    data: {
      index: 0,
      parent: null,
      role: 'assistant',
      sampled: true,
      message: { role: 'assistant', content: '42' },
      tokens: { ids: [1, 2983], mask: [0, 1], logprobs: [-0.25] },
    },
  },
  {
    v: 1,
    id: '0198c0de-0000-7000-8000-000000000003',
    type: 'reward.assigned',
    run: 'run-1',
    rollout: 'rollout-1',
    time: 1_760_000_001_000_000,
    data: { scope: 'rollout', name: 'correct', score: 1, weight: 1 },
  },
];

function jsonSchema(schema: z.ZodType): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Schema;
  return rest;
}

function eventSchema(type: EventType): Schema {
  const base = jsonSchema(envelope) as { properties: Schema; required: string[] };
  const { schema, requires } = EVENT_TYPES[type];
  const required = [...new Set([...base.required, ...requires, 'data'])];
  return { ...base, title: type, properties: { ...base.properties, type: { const: type }, data: jsonSchema(schema) }, required };
}

const EVENT: Schema = {
  description: 'One event. The schema of `data` is chosen by `type`; unknown fields are kept.',
  oneOf: (Object.keys(EVENT_TYPES) as EventType[]).filter((type) => EVENT_TYPES[type].topic === 'events').map(eventSchema),
  examples: EXAMPLES,
};

const ITEM: Schema = {
  type: 'object',
  required: ['index', 'id', 'code', 'message'],
  properties: {
    index: { type: 'integer', description: 'place of the event in the request, from 0' },
    id: { type: ['string', 'null'], description: "the event's id, null when it could not be read" },
    code: { type: 'string', description: 'why; the list is in docs/http.md' },
    message: { type: 'string', description: 'names the field, the limit and the remedy' },
    field: { type: 'string', description: 'path of the field' },
  },
};

const RESULT: Schema = {
  type: 'object',
  required: ['accepted', 'duplicates', 'rejected'],
  properties: {
    accepted: { type: 'integer', description: 'events that are durable now' },
    duplicates: { type: 'integer', description: 'events recognised as sent before' },
    rejected: { type: 'array', items: ITEM },
    deadLettered: { type: 'array', items: ITEM, description: 'accepted, but of a type that this server does not know' },
  },
  examples: [
    {
      accepted: 99,
      duplicates: 0,
      rejected: [
        {
          index: 7,
          id: '0198c0de-0000-7000-8000-000000000007',
          code: 'mask_length',
          message: 'data.tokens.mask has 3 elements, ids has 4; they must be equal',
          field: 'data.tokens.mask',
        },
      ],
    },
  ],
};

export const ERROR: Schema = {
  title: 'Failure',
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: { code: { type: 'string' }, message: { type: 'string' }, details: { type: 'object', additionalProperties: true } },
    },
  },
  examples: [
    {
      error: {
        code: 'overloaded',
        message: '268435456 of 268435456 bytes are in flight; send the same request again after the time in Retry-After',
      },
    },
  ],
};

const failure = (description: string): Schema => ({ description, ...ERROR });

export const EVENTS_ROUTE_SCHEMA = {
  summary: 'Record events',
  description:
    'Answers when every accepted event is durable. One bad event never fails its batch: 200 carries one result per item. Any other status means that nothing, or not everything, ' +
    'was stored; sending the same request again is always safe.',
  tags: ['ingest'],
  consumes: Object.values(MEDIA_TYPES),
  headers: {
    type: 'object',
    properties: {
      'content-encoding': { type: 'string', enum: ['gzip', 'zstd', 'identity'] },
      'idempotency-key': { type: 'string', maxLength: 255, description: 'the same key with the same body gives the same answer' },
    },
  },
  body: {
    content: {
      [MEDIA_TYPES.json]: { schema: { oneOf: [EVENT, { type: 'array', items: EVENT }], examples: [EXAMPLES] } },
      [MEDIA_TYPES.ndjson]: {
        schema: { type: 'string', description: 'one event per line', examples: [EXAMPLES.map((e) => JSON.stringify(e)).join('\n')] },
      },
      [MEDIA_TYPES.cbor]: {
        schema: {
          type: 'string',
          format: 'binary',
          description: 'an array of event maps, one map, or a sequence of maps (RFC 8742); typed arrays as RFC 8746',
        },
      },
    },
  },
  response: {
    200: { description: 'every item has its final answer', ...RESULT },
    400: failure('the body cannot be read'),
    408: failure('the body came too slowly'),
    409: failure('every event was fenced by a newer epoch of its producer'),
    413: failure('the body, its inflated form or the number of events is over the limit'),
    415: failure('content type or encoding not supported'),
    422: failure('this Idempotency-Key was used with another body'),
    429: failure('too many bytes in flight; see Retry-After'),
    504: failure('earlier requests of the same producer took too long; see Retry-After'),
    503: failure(
      'the log or the blob store cannot store now, or the server is closing; see Retry-After; details holds the results per item',
    ),
  },
} as const satisfies Schema;

export const HEALTHZ_SCHEMA = {
  summary: 'The process answers',
  tags: ['operations'],
  response: { 200: { description: 'alive', type: 'object', properties: { status: { const: 'ok' } }, examples: [{ status: 'ok' }] } },
} as const satisfies Schema;

export const READYZ_SCHEMA = {
  summary: 'Everything needed is there',
  tags: ['operations'],
  response: {
    200: {
      description: 'ready',
      type: 'object',
      properties: {
        status: { const: 'ready' },
        checks: {
          type: 'array',
          items: { type: 'object', properties: { name: { type: 'string' }, waitsFor: { type: ['string', 'null'] } } },
        },
      },
      examples: [{ status: 'ready', checks: [{ name: 'log', waitsFor: null }] }],
    },
    503: failure('not ready: details.checks says what each check waits for'),
  },
} as const satisfies Schema;

export const METRICS_SCHEMA = {
  operationId: 'prometheus_metrics',
  summary: 'Metrics as Prometheus text',
  tags: ['operations'],
  response: { 200: { description: 'metrics', type: 'string' } },
} as const satisfies Schema;
