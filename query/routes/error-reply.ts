import type { FastifyReply } from 'fastify';
import type { ZodError } from 'zod';
import { TapedeckError } from '../../base/errors.ts';

const RETRY_AFTER_SECONDS = 1;

/** Answers a failure in the one shape of all failures; `Retry-After` where sending the same again can help. */
export function replyError(reply: FastifyReply, error: unknown): FastifyReply {
  const known =
    error instanceof TapedeckError ? error : new TapedeckError('internal', 'something failed that nobody foresaw; the server log has it');
  if (known.code === 'internal') reply.log.error({ err: error }, 'a query route failed');
  const { code, message, details } = known;
  if (known.retriable && known.status >= 429) void reply.header('retry-after', retryAfter(details));
  return reply
    .code(known.status)
    .type('application/json; charset=utf-8')
    .send({ error: Object.keys(details).length > 0 ? { code, message, details } : { code, message } });
}

function retryAfter({ retryAfterSeconds }: TapedeckError['details']): number {
  return typeof retryAfterSeconds === 'number' ? retryAfterSeconds : RETRY_AFTER_SECONDS;
}

/** A request that does not fit its schema: every wrong field with its path. */
export function badRequest(error: ZodError): TapedeckError {
  const problems = error.issues.map((issue) => ({ field: issue.path.join('.'), problem: issue.message }));
  const text = problems.map(({ field, problem }) => (field === '' ? problem : `${field}: ${problem}`)).join('; ');
  return new TapedeckError('bad_request', text, { details: { problems } });
}
