/** `GET /v1/search`: full-text search over messages. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { search } from '../search/read-search.ts';
import { parsed } from '../operations/parsed.ts';
import { answer } from './answer.ts';
import { jsonAnswer } from './answers/answer-schema.ts';
import { searchAnswer } from './answers/query-answers.ts';
import { AS_OF_FORMS, readAsOf } from './as-of-parameter.ts';

const role = z.string().max(64);
export const searchQuery = z.strictObject({
  q: z.string().min(1).meta({ description: 'Words that must all be there; "a phrase" in quotes; -word must not. A word matches whole.' }),
  project: entityId.default(DEFAULT_PROJECT),
  run: entityId.optional(),
  rollout: entityId.optional(),
  trace: entityId.optional(),
  role: z.union([role, z.array(role).max(16)]).default([]).meta({ description: 'One role, or several by repeating it.' }),
  case: z.enum(['any', 'exact']).default('any').meta({ description: 'any: as written, in lower case, in upper case, capitalised.' }),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  chars: z.coerce.number().int().min(20).max(10_000).default(240).meta({ description: 'Length of a fragment.' }),
  count: z.enum(['page', 'bounded']).default('page').meta({ description: 'Of a first page. page: what it holds, and whether that is all; bounded: further hits are counted too, up to 1,000.' }),
  asOf: z.string().max(40_000).optional().meta({ description: `${AS_OF_FORMS}Absent, and \`latest\`: everything indexed.` }),
  cursor: z.string().max(40_000).optional().meta({ description: '`next` of the page before.' }),
}); // prettier-ignore

const SCHEMA = {
  operationId: 'search',
  summary: 'Search messages',
  tags: ['query'],
  querystring: z.toJSONSchema(searchQuery, { io: 'input', unrepresentable: 'any' }),
  response: jsonAnswer('Messages that fit, with fragments', searchAnswer),
};

export const searchRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  app.get('/v1/search', { schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify }, (request, reply) =>
    answer(reply, async (signal) => {
      const { role: roles, case: letters, asOf, ...asked } = parsed(searchQuery, request.query);
      const wanted = await readAsOf(store, asked.project, asOf, { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS });
      return search(store, { ...asked, wanted, roles: Array.isArray(roles) ? roles : [roles], isExact: letters === 'exact' }, signal);
    }),
  );
}; // prettier-ignore
