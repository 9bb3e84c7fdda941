/**
 * `POST /v1/notes` and `POST /v1/rewards`: what people say about entities, as events. They are routes of the edge, not of the query lane: so they pass the checks, limits and
 * tombstones that all events pass, and the log keeps one kind of writer.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { DEFAULT_PROJECT, EVENTS_VERSION } from '../../events/envelope.ts';
import { entityId, eventId, micros, name, nodeIndex } from '../../events/fields.ts';
import { appendOne } from '../append-one.ts';
import { toTapedeckError, errorAnswer } from './error-answer.ts';
import type { IngestPorts } from './server.ts';

const BODY_LIMIT = 1024 * 1024;
const FLOATS = { NaN, Infinity, '-Infinity': -Infinity } as const;

const shared = {
  project: entityId.default(DEFAULT_PROJECT),
  run: entityId,
  id: eventId.optional().meta({ description: 'Sending the same id again changes nothing.' }),
  time: micros.optional().meta({ description: 'Microseconds since 1970 UTC; now when absent.' }),
};
const score = z
  .union([z.number(), z.null(), z.strictObject({ $float: z.enum(['NaN', 'Infinity', '-Infinity']) })])
  .meta({ description: 'Any double; those that JSON lacks as {"$float": "NaN"}; null = not measured.' });

/** What it is about is the narrowest of the ids that are given. */
export const noteBody = z
  .strictObject({
    ...shared,
    group: entityId.optional(),
    rollout: entityId.optional(),
    trace: entityId.optional(),
    node: nodeIndex.optional(),
    label: z.string().max(256).optional(),
    text: z.string().optional(),
    author: z.string().max(256).optional(),
  })
  .refine(({ trace, rollout }) => trace === undefined || rollout !== undefined, { path: ['rollout'], message: 'is needed with trace' })
  .refine(({ node, trace }) => node === undefined || trace !== undefined, { path: ['trace'], message: 'is needed with node' })
  .refine(({ label, text }) => label !== undefined || text !== undefined, { path: ['text'], message: 'label or text is needed' });

export const rewardBody = z
  .strictObject({
    ...shared,
    rollout: entityId,
    trace: entityId.optional(),
    node: nodeIndex.optional(),
    name,
    score,
    weight: z.number().optional().meta({ description: '1 when absent.' }),
    source: z
      .strictObject({ kind: z.enum(['code', 'model', 'human']), name: name.optional(), version: name.optional() })
      .default({ kind: 'human' }),
    supersedes: eventId.optional(),
  })
  .refine(({ node, trace }) => node === undefined || trace !== undefined, { path: ['trace'], message: 'is needed with node' });

type Envelope = {
  readonly project: string;
  readonly run: string;
  readonly group?: string | undefined;
  readonly rollout?: string | undefined;
  readonly trace?: string | undefined;
};
type Event = {
  readonly type: 'note.added' | 'reward.assigned';
  readonly ids: Envelope;
  readonly id: string | undefined;
  readonly time: number | undefined;
  readonly data: Record<string, unknown>;
};

function noteOf({ project, run, group, rollout, trace, node, id, time, ...said }: z.output<typeof noteBody>): Event {
  const scope =
    node !== undefined ? 'node' : trace !== undefined ? 'trace' : rollout !== undefined ? 'rollout' : group !== undefined ? 'group' : 'run';
  return { type: 'note.added', ids: { project, run, group, rollout, trace }, id, time, data: { scope, node, ...said } };
}

function rewardOf({ project, run, rollout, trace, node, id, time, score: given, ...said }: z.output<typeof rewardBody>): Event {
  const scope = node !== undefined ? 'node' : trace !== undefined ? 'trace' : 'rollout';
  const value = typeof given === 'object' && given !== null ? FLOATS[given.$float] : given;
  return { type: 'reward.assigned', ids: { project, run, rollout, trace }, id, time, data: { scope, node, ...said, score: value } };
}

/** Routes for `createIngest`. Each answers 201 with the event's id once it is durable. */
export function registerRemarks(app: FastifyInstance, ports: IngestPorts): void {
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  app.setErrorHandler((error, _request, reply) => {
    const known = toTapedeckError(error);
    if (known.code === 'internal') ports.accept.onFailure?.(error);
    ports.metrics.onRefused(known.code);
    const { status, headers, body } = errorAnswer(known, ports.random);
    return reply.code(status).headers(headers).send(body);
  });
  const route = <S extends z.ZodType>(path: string, summary: string, schema: S, eventOf: (body: z.output<S>) => Event): void => {
    const body = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
    app.post(
      path,
      { bodyLimit: BODY_LIMIT, schema: { summary, tags: ['ingest'], consumes: ['application/json'], body, response: { 201: ADDED } } },
      (request, reply) => take(request, reply, { schema, eventOf, ports }),
    );
  };
  route('/v1/notes', 'Add a note to anything', noteBody, noteOf);
  route('/v1/rewards', 'Give a reward', rewardBody, rewardOf);
}

const ADDED = {
  description: 'The event is durable',
  type: 'object',
  properties: { id: { type: 'string' }, type: { type: 'string' } },
  required: ['id', 'type'],
};

type Taking<S extends z.ZodType> = { readonly schema: S; readonly eventOf: (body: z.output<S>) => Event; readonly ports: IngestPorts };

async function take<S extends z.ZodType>(
  request: FastifyRequest,
  reply: FastifyReply,
  { schema, eventOf, ports }: Taking<S>,
): Promise<FastifyReply> {
  const { clock, random, accept, metrics } = ports;
  const parsed = schema.safeParse(request.body);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => ({ field: issue.path.join('.'), problem: issue.message }));
    throw new TapedeckError('bad_request', problems.map(({ field, problem }) => `${field || 'body'}: ${problem}`).join('; '), {
      details: { problems },
    });
  }
  const { type, ids, data, ...given } = eventOf(parsed.data);
  const id = given.id ?? uuidV7(clock, random);
  const event = present({ v: EVENTS_VERSION, id, type, ...ids, time: given.time ?? clock.nowMicros(), data: present(data) });
  await appendOne(encodeEvent(event), { accept, clock, random, onAccepted: (accepted, bytes) => metrics.onAccepted(accepted, bytes) });
  return reply.code(201).send({ id, type });
}

/** Without the fields that were not given: those are absent in the event, not null. */
function present(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
