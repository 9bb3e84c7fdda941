import type { FastifyReply } from 'fastify';
import { TapedeckError } from '../../base/errors.ts';

/** A signal that aborts when the client goes away before the answer is complete. */
export function abortedWith(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new TapedeckError('aborted', 'the client went away'));
  });
  return gone.signal;
}
