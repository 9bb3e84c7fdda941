/** `GET /v1/traces/{id}`: the graph of one trace, or the token streams of one of its branches. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { readBranchTokens, readTrace } from '../traces/read-trace.ts';
import { jsonAnswer } from './answers/answer-schema.ts';
import { branchTokens, traceAnswer } from './answers/trace-answers.ts';
import { factsAsOf, placed } from './as-of-parameter.ts';
import { badRequest, replyError } from './error-reply.ts';

const MAX_WINDOW = 10_000;
const index = z.coerce.number().int().min(0).max(0xffff_fffe);

export const traceQuery = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  run: entityId.optional().meta({ description: 'Needed only when several runs use the same trace id.' }),
  from: index.default(0).meta({ description: 'First node of the window, by index.' }),
  limit: z.coerce.number().int().min(1).max(MAX_WINDOW).default(1_000).meta({ description: 'Nodes of the window.' }),
  chars: z.coerce.number().int().min(1).max(1_000_000).optional().meta({ description: 'Characters of each text; all when absent.' }),
  tokens: index.optional().meta({ description: 'Leaf of a branch: answers its token streams instead of the graph.' }),
  asOf: factsAsOf,
  encoding: z.enum(['base64', 'arrays']).default('base64').meta({ description: 'How token streams are written.' }),
});
const traceParams = z.object({ id: entityId });

const SCHEMA = {
  operationId: 'read_trace',
  summary: 'Read one trace',
  tags: ['query'],
  params: z.toJSONSchema(traceParams, { io: 'input', unrepresentable: 'any' }),
  querystring: z.toJSONSchema(traceQuery, { io: 'input', unrepresentable: 'any' }),
  response: jsonAnswer('A window of the graph, or with `tokens` the streams of a branch', z.union([traceAnswer, branchTokens])),
};

export type TraceRoutesOptions = { readonly store: ColumnStore };

export const traceRoutes: FastifyPluginAsync<TraceRoutesOptions> = async (app, { store }) => {
  app.get(
    '/v1/traces/:id',
    { schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify },
    async (request, reply) => {
      const params = traceParams.safeParse(request.params);
      if (!params.success) return replyError(reply, badRequest(params.error));
      const query = traceQuery.safeParse(request.query);
      if (!query.success) return replyError(reply, badRequest(query.error));
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort(new TapedeckError('aborted', 'the client went away')));
      const { tokens, encoding, from, limit, chars, project, run, asOf } = query.data;
      try {
        const asked = { ...(await placed(store, { project, run, asOf }, gone.signal)), trace: params.data.id };
        if (tokens !== undefined) return await reply.send(await readBranchTokens(store, { ...asked, leaf: tokens, encoding }));
        return await reply.send(await readTrace(store, { ...asked, from, limit, chars }));
      } catch (error) {
        return replyError(reply, error);
      }
    },
  );
};
