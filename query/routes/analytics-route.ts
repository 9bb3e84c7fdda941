/** How every analytics route is served. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { answerJson } from '../analytics/answer-json.ts';
import type { AsOf } from '../analytics/as-of.ts';
import { createPositionReader } from '../analytics/log-position.ts';
import { openReader, type Reader } from '../analytics/reader.ts';
import { jsonAnswer } from './answers/answer-schema.ts';
import { badRequest, replyError } from './error-reply.ts';

export function contextOf(reader: Reader): { project: string; asOf: Reader['asOf'] } {
  return { project: reader.project, asOf: reader.asOf };
}

type Asked = { readonly project: string; readonly asOf: AsOf };
export type Ask = <T extends z.ZodType<Asked>>(
  path: string,
  summary: string,
  query: T,
  answer: (reader: Reader, query: z.infer<T>) => Promise<object>,
  found: z.ZodType,
) => void;

/** Adds routes that read at one position: the query checked, the reader opened, the answer as JSON, the work stopped when the client goes away. */
export function answering(app: FastifyInstance, store: ColumnStore): Ask {
  const positions = createPositionReader(store);
  return (path, summary, query, answer, found) => {
    const querystring = z.toJSONSchema(query, { io: 'input', unrepresentable: 'any' });
    const operationId = `analytics_${path.slice(path.lastIndexOf('/') + 1).replaceAll('-', '_')}`;
    const schema = { operationId, summary, tags: ['analytics'], querystring, response: jsonAnswer(summary, found) };
    const options = { schema, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify };
    app.get(path, options, async (request: FastifyRequest, reply: FastifyReply) => {
      const parsed = query.safeParse(request.query);
      if (!parsed.success) return replyError(reply, badRequest(parsed.error));
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort(new TapedeckError('aborted', 'the client went away')));
      const { project, asOf } = parsed.data;
      try {
        const reader = await openReader(store, positions, { project, asOf, signal: gone.signal });
        const body = answerJson(await answer(reader, parsed.data));
        return await reply.type('application/json; charset=utf-8').send(body);
      } catch (error) {
        return replyError(reply, error);
      }
    });
  };
}
