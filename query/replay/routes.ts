/** `GET /v1/replay/events`: what was recorded, delivered again. */
import { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { z } from 'zod';
import { ByteWriter } from '../../base/byte-writer.ts';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { cborToJson } from '../../events/codec/cbor-to-json.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId, MAX_MICROS } from '../../events/fields.ts';
import { answerForms } from '../routes/answers/answer-schema.ts';
import { abortedWith } from '../operations/client-gone.ts';
import { parsed } from '../operations/parsed.ts';
import { createSchedule } from './deliver/schedule.ts';
import { placeText, readPlace, selectedEvents, type Delivered, type DeliveryPorts } from './deliver/select-events.ts';

export type ReplayRoutesOptions = DeliveryPorts & { readonly clock: Clock };

const micros = z.coerce.number().int().min(0).max(MAX_MICROS);
const query = z
  .strictObject({
    project: entityId.default(DEFAULT_PROJECT),
    run: entityId.optional(),
    rollout: entityId.optional(),
    from: micros.optional(),
    to: micros.optional(),
    format: z.enum(['cbor', 'ndjson', 'sse']).default('ndjson'),
    speed: z.coerce.number().positive().finite().optional(),
    maxPauseMs: z.coerce.number().positive().max(86_400_000).default(60_000),
    after: z.string().max(100_000).default(''),
  })
  .refine((q) => q.run !== undefined || q.rollout !== undefined || q.from !== undefined || q.to !== undefined, {
    message: 'name a run, a rollout, or a time range with from and to (microseconds)',
  });
type Query = z.output<typeof query>;

const MEDIA = {
  cbor: 'application/cbor-seq',
  ndjson: 'application/x-ndjson; charset=utf-8',
  sse: 'text/event-stream; charset=utf-8',
} as const;
const event = z.looseObject({ v: z.literal(1), id: z.string(), type: z.string(), project: z.string().optional(), time: z.int(), data: z.looseObject({}) }).meta({ description: 'One event as it was recorded, one a line; docs/events.md.' }); // prettier-ignore
const SCHEMA = {
  summary: 'Deliver recorded events again, with their timing',
  tags: ['replay'],
  querystring: z.toJSONSchema(query, { io: 'input', unrepresentable: 'any' }),
  response: answerForms('The events in order; in server-sent events the schema is that of the data of each', { 'application/x-ndjson': event, 'text/event-stream': event, 'application/cbor-seq': null }),
}; // prettier-ignore
/** Without pauses, events leave in pieces of about this size. */
const PIECE_BYTES = 64 * 1024;

/**
 * Events of a run, a rollout or a time range in order, as NDJSON, a CBOR sequence or server-sent events, at once or (`speed`) with their original pauses, scaled. Each
 * event of a stream has the place behind it as its id: a client that comes back with `Last-Event-ID` (or `after`) goes on there.
 */
export const replayRoutes: FastifyPluginAsync<ReplayRoutesOptions> = async (app, { clock, ...ports }) => {
  app.get(
    '/v1/replay/events',
    { schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify },
    async (request, reply) => {
      const wanted = parsed(query, request.query);
      const last = request.headers['last-event-id'];
      const after = readPlace(typeof last === 'string' && last !== '' ? last : wanted.after);
      const signal = abortedWith(reply);
      const events = selectedEvents(wanted, after, ports, signal);
      const first = await events.next();
      if (first.done === true && after.size === 0) throw new TapedeckError('not_found', `no stored event fits ${described(wanted)}`);
      const all = withFirst(first, events);
      return send(reply, wanted, pieces(paced(all, wanted, clock, signal), wanted));
    },
  );
};

async function* withFirst(first: IteratorResult<Delivered>, rest: AsyncGenerator<Delivered>): AsyncGenerator<Delivered> {
  if (first.done === true) return;
  yield first.value;
  yield* rest;
}

function described({ project, run, rollout, from, to }: Query): string {
  const parts = { run, rollout, from, to };
  const named = Object.entries(parts).filter(([, value]) => value !== undefined);
  return `${named.map(([name, value]) => `${name} ${value}`).join(', ')} in project ${project}`;
}

async function* paced(
  events: AsyncGenerator<Delivered>,
  { speed, maxPauseMs }: Query,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<Delivered> {
  if (speed === undefined) return yield* events;
  const schedule = createSchedule({ speed, maxPauseMs });
  const began = clock.monotonicMs();
  for await (const event of events) {
    const wait = began + schedule.dueMs(event.time) - clock.monotonicMs();
    if (wait > 0) await clock.sleep(wait, signal);
    yield event;
  }
}

/** Bytes to send: each event alone where it comes in its own time, else many at once. */
async function* pieces(events: AsyncGenerator<Delivered>, { format, speed }: Query): AsyncGenerator<Uint8Array> {
  const out = new ByteWriter(PIECE_BYTES + 4096);
  for await (const { slice, place } of events) {
    if (format === 'cbor') out.bytes(slice);
    else {
      if (format === 'sse') out.utf8(`id: ${placeText(place)}\nevent: event\ndata: `);
      cborToJson(slice, 0, slice.length, out);
      out.utf8(format === 'sse' ? '\n\n' : '\n');
    }
    if (speed !== undefined || out.length >= PIECE_BYTES) yield out.take();
  }
  if (format === 'sse') out.utf8('event: end\ndata: {}\n\n');
  if (out.length > 0) yield out.take();
}

function send(reply: FastifyReply, { format }: Query, bytes: AsyncGenerator<Uint8Array>): FastifyReply {
  const body = Readable.from(bytes, { objectMode: false });
  body.on('error', (error) => {
    if (!isTapedeckError(error, 'aborted')) reply.log.error({ err: error }, 'a delivery broke off');
  });
  void reply.header('cache-control', 'no-store').header('x-accel-buffering', 'no');
  return reply.type(MEDIA[format]).send(body);
}
