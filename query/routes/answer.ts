import type { FastifyReply } from 'fastify';
import { abortedWith } from '../operations/client-gone.ts';
import { replyError } from './error-reply.ts';

/** Runs a question and answers it, or its failure, in the one shape of all failures. */
export async function answer(reply: FastifyReply, work: (signal: AbortSignal) => Promise<unknown>): Promise<FastifyReply> {
  try {
    return await reply.header('cache-control', 'no-store').send(await work(abortedWith(reply)));
  } catch (error) {
    return replyError(reply, error);
  }
}
