/** What the routes of feeds share: names, waiting, OpenAPI, and a signal that ends with the client. */
import type { FastifyReply, FastifyRequest, FastifyInstance } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import { awaitFeed } from '../feed/await-feed.ts';
import type { FeedEngine } from '../feed/engine.ts';
import type { Requester } from '../feed/lease.ts';
import type { Pending } from '../feed/status.ts';
import { pendingAnswer } from './answers.ts';
import type { FeedService } from './feed-service.ts';

/** A request waits at most so long, seconds. */
export const MAX_WAIT_SECONDS = 60;

export const projectQuery = { project: entityId.default(DEFAULT_PROJECT).meta({ description: 'tenant' }) };
export const wait = z.coerce
  .number()
  .min(0)
  .max(MAX_WAIT_SECONDS)
  .default(0)
  .meta({ description: `seconds to wait, at most ${MAX_WAIT_SECONDS}` });
export const feedParams = z.object({ feed: entityId });
export const batchParams = z.object({ feed: entityId, n: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER) });
export const token = z.int().nonnegative().meta({ description: 'fencing token of the lease' });
export const batchId = z.string().min(1).max(128);
export const holder = z.string().min(1).max(256).meta({ description: 'who trains; the same name again takes over from itself' });

/** One answer: in words, and its forms by media type; JSON where only a schema is given, bytes where a form is null. */
export type Said = { readonly says: string; readonly schema?: z.ZodType; readonly forms?: Readonly<Record<string, z.ZodType | null>> };

type Parts = {
  readonly summary: string;
  readonly params?: z.ZodType;
  readonly querystring?: z.ZodType;
  readonly body?: z.ZodType;
  /** What is answered, by status; no other success is. */
  readonly answers: Readonly<Record<number, Said>>;
};

/** Options of a route: its place in OpenAPI. Requests are checked in the handler, by the same schemas. */
export function described({ summary, params, querystring, body, answers }: Parts) {
  const json = (schema: z.ZodType): unknown => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const response = Object.fromEntries(Object.entries(answers).map(([status, said]) => [status, responseOf(said)]));
  return {
    schema: {
      summary,
      tags: ['feeds'],
      ...(params === undefined ? {} : { params: json(params) }),
      ...(querystring === undefined ? {} : { querystring: json(querystring) }),
      ...(body === undefined ? {} : { body: json(body) }),
      response,
    },
    validatorCompiler: () => () => true,
    serializerCompiler: () => (value: unknown) => JSON.stringify(value),
  };
}

function responseOf({ says, schema, forms = {} }: Said): object {
  const all = { ...(schema === undefined ? {} : { 'application/json': schema }), ...forms };
  const content = Object.entries(all).map(([type, form]) => [
    type,
    { schema: form === null ? { type: 'string', format: 'binary' } : answerSchema(form) },
  ]);
  return { description: says, ...(content.length === 0 ? {} : { content: Object.fromEntries(content) as object }) };
}

function answerSchema(schema: z.ZodType): object {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'output' });
  return rest;
}

/** "Not yet", as routes that wait say it. */
export const NOT_YET: Said = { says: 'Not yet: what is missing, and since when', schema: pendingAnswer };

/** A part of a request as its schema says, or `bad_request` naming every wrong field. */
export function parsed<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value ?? {});
  if (result.success) return result.data;
  const problems = result.error.issues.map((issue) => ({ field: issue.path.join('.') || 'body', message: issue.message }));
  throw new TapedeckError('bad_request', problems.map(({ field, message }) => `${field}: ${message}`).join('; '), {
    details: { problems },
  });
}

/** Aborts when the client goes away before the answer is complete, or when the server closes: nobody waits any longer then. */
export function requestSignal(reply: FastifyReply, closing: AbortSignal): AbortSignal {
  const over = new AbortController();
  const onClosing = (): void => over.abort(closing.reason);
  closing.addEventListener('abort', onClosing, { once: true });
  reply.raw.once('close', () => {
    closing.removeEventListener('abort', onClosing);
    if (!reply.raw.writableFinished) over.abort(new TapedeckError('aborted', 'the client went away'));
  });
  if (closing.aborted) onClosing();
  return over.signal;
}

export type FeedRequest = {
  readonly engine: FeedEngine;
  readonly requester: Requester;
  readonly signal: AbortSignal;
  readonly project: string;
};

/** A feed that is being opened is waited for so long, milliseconds. */
const OPEN_MS = 10_000;

/** The feed a request names, once it is open. Errors: `not_found`, `not_ready`, `config_invalid`, `feed_deleted`. */
export async function feedOf(service: FeedService, request: FastifyRequest, reply: FastifyReply): Promise<FeedRequest> {
  const { feed } = parsed(feedParams, request.params);
  const { project } = parsed(z.looseObject(projectQuery), request.query);
  const engine = service.engine({ project, feed });
  const signal = requestSignal(reply, service.closing);
  await awaitFeed(engine, service.clock, OPEN_MS, () => true, signal);
  return { engine, project, signal, requester: { engine, clock: service.clock, random: service.random, signal } };
}

const RETRY_AFTER_SECONDS = 1;

/** "Not yet": what is missing, since when, and when to ask again. */
export function answerPending(reply: FastifyReply, pending: Pending | null, waitsFor: string): FastifyReply {
  return reply
    .code(202)
    .header('retry-after', String(RETRY_AFTER_SECONDS))
    .send({ pending: pending ?? { waitsFor } });
}

/** The end of the stream, in band: no further batch will come as long as its runs stay ended. */
export function answerEnd(reply: FastifyReply, n: number, committed: number): FastifyReply {
  return reply.code(200).header('x-feed-end', 'true').send({ end: true, n, committed });
}

export type FeedRoutes = (app: FastifyInstance, service: FeedService) => void;
