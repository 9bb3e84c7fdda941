/** `GET /v1/<resource>` and one row by its id, for every resource of the table in query/lists/resources.ts. */
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { listSchema, oneSchema } from '../lists/json-schemas.ts';
import { readListRequest } from '../lists/list-request.ts';
import { narrowed } from '../lists/narrow.ts';
import { readList, SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { readOne } from '../lists/read-one.ts';
import type { Resource } from '../lists/resource.ts';
import { RESOURCES } from '../lists/resources.ts';
import { readAsOf } from './as-of-parameter.ts';
import { answer } from './answer.ts';
import { badRequest } from './error-reply.ts';

export const MAX_PAGE = 1_000;
export const MAX_MARKERS = 5_000;

const list = { project: entityId.default(DEFAULT_PROJECT), asOf: z.string().max(40_000).optional() };
export const listSettings = z.object({
  ...list,
  sort: z.string().max(4_096).optional(),
  limit: z.coerce.number().int().min(1).max(MAX_PAGE).default(100),
  cursor: z.string().max(40_000).optional(),
  fields: z.string().max(16_384).optional(),
  filter: z.string().max(65_536).optional(),
  count: z.enum(['none', 'bounded', 'exact']).optional(),
  markers: z.coerce.number().int().min(0).max(MAX_MARKERS).optional(),
  histograms: z.string().max(4_096).optional(),
});
const oneSettings = z.object({ ...list, fields: z.string().max(16_384).optional() });

export type ListRoutesOptions = { readonly store: ColumnStore };

export const listRoutes: FastifyPluginAsync<ListRoutesOptions> = async (app, { store }) => {
  for (const resource of RESOURCES) {
    routeList(app, store, resource);
    if (resource.fetch !== null) routeOne(app, store, resource, resource.fetch);
  }
};

const RAW = { validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify } as const;

function routeList(app: FastifyInstance, store: ColumnStore, resource: Resource): void {
  app.get(`/v1/${resource.name}`, { schema: listSchema(resource), ...RAW }, (request, reply) =>
    answer(reply, async (signal) => {
      const { settings, rest } = split(listSettings, request);
      const asked = readListRequest(resource, settings, rest);
      const options = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
      const wanted = await readAsOf(store, settings.project, settings.asOf, options);
      const filter = await narrowed(store, asked, options);
      return readList(store, { ...asked, filter }, wanted, signal);
    }),
  );
} // prettier-ignore

function routeOne(app: FastifyInstance, store: ColumnStore, resource: Resource, path: string): void {
  app.get(`/v1${path}`, { schema: oneSchema(resource, path), ...RAW }, (request, reply) =>
    answer(reply, async (signal) => {
      const { settings, rest } = split(oneSettings, request);
      const wanted = await readAsOf(store, settings.project, settings.asOf, { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS });
      const also = (settings.fields ?? '').split(',').filter((name) => name !== '' && name !== '*');
      const ids = { ...rest, ...(request.params as Record<string, string>) };
      return readOne(store, { resource, project: settings.project, ids, also, wanted }, signal);
    }),
  );
}

/** Settings, and the parameters that are fields. */
function split<S extends z.ZodObject>(schema: S, request: FastifyRequest): { settings: z.output<S>; rest: Record<string, unknown> } {
  const query = request.query as Record<string, unknown>;
  const parsed = schema.safeParse(query);
  if (!parsed.success) throw badRequest(parsed.error);
  const rest = Object.fromEntries(Object.entries(query).filter(([name]) => !Object.hasOwn(schema.shape, name)));
  return { settings: parsed.data, rest };
}
