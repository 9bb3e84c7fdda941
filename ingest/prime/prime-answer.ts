/** Failures as the Prime clients read them: `{error: {code, message}}`; 400 stops them, 429 and 503 with Retry-After make them send the same bytes again. */
import type { FastifyReply } from 'fastify';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { errorAnswer, toTapedeckError } from '../http/error-answer.ts';
import type { Answer } from '../http/idempotency.ts';
import { lingeringBody } from '../http/linger.ts';

/** Statuses that mean something of their own to these clients; every other refusal is a 400. */
const KEPT: ReadonlySet<number> = new Set([401, 403, 404, 405, 409, 410]);

/** The answer to a failure. */
export function primeAnswer(error: unknown, random: Random): Answer {
  const known = toTapedeckError(error);
  const answer = errorAnswer(known, random);
  if (known.retriable) {
    const status = known.status === 429 ? 429 : 503;
    return { ...answer, status, headers: { 'retry-after': '1', ...answer.headers } };
  }
  return known.status < 500 && !KEPT.has(known.status) ? { ...answer, status: 400 } : answer;
}

const LINGER = { ms: 2_000, bytes: 16 * 1024 * 1024 };

/** Sends the answer; when the body is not read to its end, what still comes is thrown away for a while, so that the client sees the answer. */
export function sendFailure(reply: FastifyReply, error: unknown, ports: { readonly random: Random; readonly clock: Clock }): FastifyReply {
  const { status, body, headers } = primeAnswer(error, ports.random);
  const request = reply.request.raw;
  void reply.code(status).headers(headers);
  if (request.complete) return reply.send(body);
  const bounds = error instanceof TapedeckError && error.code === 'slow_body' ? { ...LINGER, ms: 1 } : LINGER;
  return reply
    .headers({ connection: 'close', 'content-length': String(Buffer.byteLength(body)) })
    .send(lingeringBody(body, request, ports.clock, bounds));
}
