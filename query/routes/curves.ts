/** `GET /v1/curves`: envelopes of any numbers of a resource over any axis. */
import type { FastifyPluginAsync } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { readCurves } from '../curves/read-curves.ts';
import { findField, readFilter } from '../lists/filter.ts';
import { readValue } from '../lists/filter-value.ts';
import { narrowed } from '../lists/narrow.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { RESOURCES } from '../lists/resources.ts';
import { answer } from './answer.ts';
import { jsonAnswer } from './answers/answer-schema.ts';
import { curvesAnswer } from './answers/query-answers.ts';
import { AS_OF, readAsOf } from './as-of-parameter.ts';
import { badRequest } from './error-reply.ts';

const MAX_Y = 16;
export const curvesQuery = z.object({
  of: z.enum(RESOURCES.map((resource) => resource.name)).meta({ description: 'The resource whose rows are drawn.' }),
  x: z.string().min(1).max(1_100).meta({ description: 'Field of the axis: a number or a time.' }),
  y: z.string().min(1).max(16_384).meta({ description: 'Fields to draw, separated by commas; named rewards and metrics too.' }),
  by: z.string().max(1_100).optional().meta({ description: 'Field with one curve per value.' }),
  points: z.coerce.number().int().min(1).max(4_096).default(800).meta({ description: 'Pixel columns.' }),
  from: z.string().optional().meta({ description: 'Where the axis begins, included.' }),
  to: z.string().optional().meta({ description: 'Where it ends, included.' }),
  series: z.coerce.number().int().min(1).max(200).default(40).meta({ description: 'Curves of `by` at most, those with most rows first.' }),
  project: entityId.default(DEFAULT_PROJECT),
  asOf: z.string().max(40_000).optional().meta({ description: AS_OF }),
  filter: z
    .string()
    .max(65_536)
    .optional()
    .meta({ description: 'Conditions as JSON; see docs/rest.md. Fields may be given as parameters, too.' }),
});

const SCHEMA = {
  operationId: 'curves',
  summary: 'Curves as envelopes',
  tags: ['query'],
  querystring: { ...z.toJSONSchema(curvesQuery, { io: 'input', unrepresentable: 'any' }), additionalProperties: true },
  response: jsonAnswer('An envelope per curve', curvesAnswer),
};

export const curveRoutes: FastifyPluginAsync<{ readonly store: ColumnStore }> = async (app, { store }) => {
  app.get('/v1/curves', { schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify }, (request, reply) =>
    answer(reply, async (signal) => {
      const query = request.query as Record<string, unknown>;
      const parsed = curvesQuery.safeParse(query);
      if (!parsed.success) throw badRequest(parsed.error);
      const { of, x, y, by, points, series, project, asOf, filter } = parsed.data;
      const resource = RESOURCES.find((each) => each.name === of) as (typeof RESOURCES)[number];
      const rest = Object.fromEntries(Object.entries(query).filter(([name]) => !Object.hasOwn(curvesQuery.shape, name)));
      const options = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
      const axis = findField(resource, x);
      const ys = y.split(',').map((name) => findField(resource, name));
      if (ys.length > MAX_Y) throw new TapedeckError('bad_request', `y: at most ${MAX_Y} fields`);
      const edge = (name: 'from' | 'to'): number | null => {
        const text = parsed.data[name];
        if (text === undefined) return null;
        const value = readValue(axis.type, text);
        if (!value.ok || !Number.isFinite(Number(value.value))) throw new TapedeckError('bad_request', `${name}: must be a value of ${axis.name}`);
        return Number(value.value);
      };
      const conditions = await narrowed(store, { resource, project, filter: readFilter(resource, rest, filter) }, options);
      const wanted = await readAsOf(store, project, asOf, options);
      return readCurves(store, { resource, project, filter: conditions, x: axis, y: ys, by: by === undefined ? null : findField(resource, by), points, from: edge('from'), to: edge('to'), series, wanted }, signal);
    }),
  );
}; // prettier-ignore
