/** `POST /v1/events`: reads the body, accepts it, answers. The order of checks is: closing, headers, bytes in flight, body, frame, items. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { ALL_PROJECTS } from '../../store/keys/key-record.ts';
import { accessOf } from '../../store/keys/request-access.ts';
import type { WriterAccess } from '../accept-access.ts';
import { executePlan, planBody, type AcceptContext, type Accepted } from '../accept.ts';
import { errorAnswer, toTapedeckError } from './error-answer.ts';
import { MAX_KEY_LENGTH, type Answer, type IdempotencyWindow } from './idempotency.ts';
import { lingeringBody } from './linger.ts';
import type { IngestMetrics } from './metrics.ts';
import { EVENTS_ROUTE_SCHEMA } from './openapi.ts';
import { readBody, type BodyPorts, type ReceivedBody } from './read-body.ts';
import type { WriterPool } from './writer-pool.ts';

export type EventsRoutePorts = BodyPorts & {
  readonly accept: AcceptContext;
  readonly answers: IdempotencyWindow;
  readonly metrics: IngestMetrics;
  readonly writers: WriterPool;
  readonly random: Random;
};

/** What the content-type parser hands to the handler: it never fails itself, so that the handler decides what happens to the connection. */
type Received = ReceivedBody | TapedeckError;

/** Registers the route in a plugin scope of its own: its parser takes every content type. */
export function registerEventsRoute(app: FastifyInstance, ports: EventsRoutePorts): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']): Promise<Received> => {
    try {
      return await readBody(request.headers, payload, ports);
    } catch (error) {
      return toTapedeckError(error);
    }
  });
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));
  app.post('/v1/events', { schema: EVENTS_ROUTE_SCHEMA }, async (request, reply) => {
    const received = request.body as Received | undefined;
    if (received === undefined) throw new TapedeckError('bad_request', 'the body is empty; send an array of events, or one event');
    if (received instanceof TapedeckError) return refuse(reply, received, ports);
    return send(reply, await answerTo(request, received, { ...ports, accept: { ...ports.accept, access: writerOf(request) } }));
  });
}

function writerOf(request: FastifyRequest): WriterAccess | null {
  const access = accessOf(request.raw);
  if (access === null) return null;
  return { project: access.project === ALL_PROJECTS ? null : access.project, isAdmin: access.role === 'admin' };
}

async function answerTo(request: FastifyRequest, body: ReceivedBody, ports: EventsRoutePorts): Promise<Answer> {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return accept(body, ports);
  try {
    if (typeof key !== 'string' || key.length === 0 || key.length > MAX_KEY_LENGTH) {
      throw new TapedeckError('bad_request', `Idempotency-Key must have 1 to ${MAX_KEY_LENGTH} characters`, {
        details: { header: 'idempotency-key' },
      });
    }
    // a key of another project asks something else
    const scope = ports.accept.access?.project ?? null;
    const { answer, replayed } = await ports.answers.run(scope === null ? key : `${key}\n${scope}`, body.bytes, () => accept(body, ports));
    return replayed ? { ...answer, headers: { ...answer.headers, 'idempotency-replayed': 'true' } } : answer;
  } catch (error) {
    const known = toTapedeckError(error);
    ports.metrics.onRefused(known.code);
    return errorAnswer(known, ports.random);
  } finally {
    body.release(true);
  }
}

/** Accepts one body and gives its memory back: the buffers only if every write has settled well, as a driver may still hold on to them otherwise. */
async function accept(body: ReceivedBody, ports: EventsRoutePorts): Promise<Answer> {
  const writer = ports.writers.take();
  let isUnread = true;
  try {
    let claimed = 0;
    const claimTranscoded = (): void => {
      if (writer.length > claimed) body.claim.grow(writer.length - claimed);
      claimed = Math.max(claimed, writer.length);
    };
    const plan = await planBody(body.bytes, body.media, ports.accept, writer, claimTranscoded);
    if (!plan.ok) throw new TapedeckError(plan.error.code, plan.error.message);
    isUnread = false;
    const accepted = await executePlan(plan.value, ports.accept);
    isUnread = accepted.failure === null;
    ports.metrics.onAccepted(accepted, body.bytes.length);
    return answerOf(accepted, ports.random);
  } catch (error) {
    const known = toTapedeckError(error);
    if (known.code === 'internal') ports.accept.onFailure?.(error);
    ports.metrics.onRefused(known.code);
    return errorAnswer(known, ports.random);
  } finally {
    body.release(isUnread);
    if (isUnread) ports.writers.give(writer);
  }
}

/** 200 when every item has its final answer. Otherwise the status says that sending the whole body again is the remedy; that is always safe. */
function answerOf(result: Accepted, random: Random): Answer {
  const { accepted, duplicates, rejected, deadLettered, failure } = result;
  const results = { accepted, duplicates, rejected, ...(deadLettered.length > 0 ? { deadLettered } : {}) };
  if (failure !== null) {
    const message = `${failure.message}; send the whole request again: what is already stored is recognised by its event ids`;
    return errorAnswer(new TapedeckError(failure.code, message, { details: results }), random);
  }
  const isFenced = rejected.length > 0 && accepted + duplicates === 0 && rejected.every(({ code }) => code === 'producer_fenced');
  if (isFenced)
    return errorAnswer(
      new TapedeckError('producer_fenced', 'every event of this request was fenced by a newer epoch', { details: results }),
      random,
    );
  return { status: 200, body: JSON.stringify(results), headers: { 'content-type': 'application/json; charset=utf-8' } };
}

function send(reply: FastifyReply, { status, body, headers }: Answer): FastifyReply {
  return reply.code(status).headers(headers).send(body);
}

const LINGER_MS = 2_000;
const LINGER_BYTES = 16 * 1024 * 1024;

/** Answers while the body may still be coming. */
function refuse(reply: FastifyReply, error: TapedeckError, ports: EventsRoutePorts): FastifyReply {
  ports.metrics.onRefused(error.code);
  const { status, body, headers } = errorAnswer(error, ports.random);
  const request = reply.request.raw;
  if (request.complete) return send(reply, { status, body, headers });
  const bounds = { ms: error.code === 'slow_body' ? 1 : LINGER_MS, bytes: LINGER_BYTES };
  return reply
    .code(status)
    .headers({ ...headers, connection: 'close', 'content-length': String(Buffer.byteLength(body)) })
    .send(lingeringBody(body, request, ports.clock, bounds));
}
