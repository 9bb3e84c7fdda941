/** `/v1/exports`: files made in the background, with progress, to be read whole or in parts. */
import { createReadStream } from 'node:fs';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import type { ExportFormat } from '../exports/export-format.ts';
import type { ExportFile, ExportJobs } from '../exports/export-jobs.ts';
import { readListRequest } from '../lists/list-request.ts';
import { SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import { RESOURCES } from '../lists/resources.ts';
import { parsed } from '../operations/parsed.ts';
import { answer } from './answer.ts';
import { answerForms, jsonAnswer } from './answers/answer-schema.ts';
import { exportFormats, exportList, exportStatus } from './answers/export-answers.ts';
import { readAsOf } from './as-of-parameter.ts';
import { replyError } from './error-reply.ts';

export const exportBody = z.strictObject({
  project: entityId.default(DEFAULT_PROJECT),
  format: z.string().min(1).max(64).meta({ description: 'A format of GET /v1/exports/formats.' }),
  of: z.enum(RESOURCES.map((resource) => resource.name)).optional().meta({ description: 'The resource; needed where the format takes any.' }),
  filter: z.record(z.string(), z.json()).optional().meta({ description: 'Conditions as in lists.' }),
  fields: z.array(z.string().max(1_100)).max(500).optional(),
  sort: z.array(z.string().max(1_100)).max(8).optional(),
  asOf: z.string().max(40_000).optional(),
}); // prettier-ignore
const ofProject = z.strictObject({ project: entityId.default(DEFAULT_PROJECT) });
const fileQuery = ofProject.extend({ beside: z.string().min(1).max(64).optional().meta({ description: 'The name of a file beside it, as the status lists them.' }) }); // prettier-ignore
const params = z.object({ id: z.string().min(1).max(64) });
const RAW = { validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify } as const;
const json = (schema: z.ZodType): object => z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });

export type ExportRoutesOptions = { readonly store: ColumnStore; readonly jobs: ExportJobs; readonly formats: readonly ExportFormat[] };

export const exportRoutes: FastifyPluginAsync<ExportRoutesOptions> = async (app, { store, jobs, formats }) => {
  const one = (operationId: string, summary: string, response: object): object => ({ operationId, summary, tags: ['query'], params: json(params), querystring: json(ofProject), response });
  app.get('/v1/exports/formats', { schema: { operationId: 'export_formats', summary: 'List export formats', tags: ['query'], response: jsonAnswer('Formats', exportFormats) }, ...RAW }, async () => ({
    formats: formats.map(({ name, about, extension, mediaType, of }) => ({ name, about, extension, mediaType, of })),
  }));
  app.post('/v1/exports', { bodyLimit: 1024 * 1024, schema: { operationId: 'create_export', summary: 'Begin an export', tags: ['query'], body: json(exportBody), response: jsonAnswer('The job', exportStatus, 202) }, ...RAW }, (request, reply) =>
    answer(reply, async (signal) => {
      const { project, format: name, of, filter, fields, sort, asOf } = parsed(exportBody, request.body);
      const format = formats.find((each) => each.name === name);
      if (format === undefined) throw new TapedeckError('bad_request', `format: there are ${formats.map((each) => each.name).join(', ')}`);
      const resourceName = of ?? format.of;
      if (resourceName === null || (format.of !== null && resourceName !== format.of)) throw new TapedeckError('bad_request', format.of === null ? 'of: name a resource' : `of: ${name} is made of ${format.of}`);
      const resource = RESOURCES.find((each) => each.name === resourceName) as (typeof RESOURCES)[number];
      const settings = { project, limit: 1, sort: sort?.join(','), fields: fields?.join(','), filter: filter === undefined ? undefined : JSON.stringify(filter) };
      const list = readListRequest(resource, settings, {});
      const wanted = await readAsOf(store, project, asOf, { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS });
      void reply.code(202);
      return jobs.add(format, { project, list, wanted });
    }),
  );
  app.get('/v1/exports', { schema: { operationId: 'list_exports', summary: 'List exports', tags: ['query'], querystring: json(ofProject), response: jsonAnswer('The jobs of the project', exportList) }, ...RAW }, (request, reply) =>
    answer(reply, async () => ({ exports: jobs.list(parsed(ofProject, request.query).project) })),
  );
  app.get('/v1/exports/:id', { schema: one('get_export', 'The state of an export', jsonAnswer('The job', exportStatus)), ...RAW }, (request, reply) =>
    answer(reply, async () => jobs.status(parsed(ofProject, request.query).project, parsed(params, request.params).id)),
  );
  app.delete('/v1/exports/:id', { schema: one('delete_export', 'Cancel an export, or remove its file', jsonAnswer('Nothing is left of it', z.object({}))), ...RAW }, (request, reply) =>
    answer(reply, async () => {
      await jobs.remove(parsed(ofProject, request.query).project, parsed(params, request.params).id);
      return {};
    }),
  );
  const types = [...formats.map(({ mediaType }) => mediaType), 'application/json'];
  const file = answerForms('The file, in the media type of its format; one beside it is JSON', Object.fromEntries(types.map((type) => [type, null])));
  const fileSchema = { ...one('get_export_file', 'The file of an export, or one beside it; Range resumes it', file), querystring: json(fileQuery) };
  app.get('/v1/exports/:id/file', { schema: fileSchema, ...RAW }, (request, reply) => {
    try {
      const { project, beside } = parsed(fileQuery, request.query);
      const found = jobs.file(project, parsed(params, request.params).id, beside);
      const { range, 'if-range': ifRange } = request.headers;
      const isSame = ifRange === undefined || ifRange === `"${found.sha256 ?? ''}"`;
      return sendFile(reply, found, isSame ? range : undefined);
    } catch (error) {
      return replyError(reply, error);
    }
  });
}; // prettier-ignore

function sendFile(reply: FastifyReply, { path, bytes, sha256, fileName, mediaType }: ExportFile, range: string | undefined): FastifyReply {
  void reply.header('accept-ranges', 'bytes').header('etag', `"${sha256 ?? ''}"`).header('content-disposition', `attachment; filename="${fileName}"`).type(mediaType);
  const part = range === undefined ? null : rangeOf(range, bytes);
  if (part === 'outside') {
    void reply.header('content-range', `bytes */${bytes}`);
    throw new TapedeckError('position_out_of_range', `the file has ${bytes} bytes`);
  }
  if (part === null) return reply.header('content-length', bytes).send(createReadStream(path));
  const { from, to } = part;
  void reply.code(206).header('content-range', `bytes ${from}-${to}/${bytes}`).header('content-length', to - from + 1);
  return reply.send(createReadStream(path, { start: from, end: to }));
} // prettier-ignore

/** One range; a header with several, or of another unit, is ignored, as RFC 9110 allows. */
function rangeOf(header: string, bytes: number): { readonly from: number; readonly to: number } | 'outside' | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header);
  if (match === null || (match[1] === '' && match[2] === '')) return null;
  const last = match[1] === '';
  const from = last ? Math.max(0, bytes - Number(match[2])) : Number(match[1]);
  const to = last || match[2] === '' ? bytes - 1 : Math.min(Number(match[2]), bytes - 1);
  return from >= bytes || from > to ? 'outside' : { from, to };
}
