/** `POST /v1/sql`: a question in SQL, answered as a stream in the asked format. */
import { Readable } from 'node:stream';
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import { accessOf } from '../../store/keys/request-access.ts';
import { SQL_FORMAT_NAMES, SQL_FORMATS } from '../sql/formats.ts';
import { MAX_QUERY_BYTES, type SqlAccount } from '../sql/limits.ts';
import type { SqlAnswer, SqlRunner } from '../sql/run-sql.ts';
import { answerForms } from './answers/answer-schema.ts';
import { badRequest, replyError } from './error-reply.ts';

export const sqlRequest = z.strictObject({
  query: z
    .string()
    .min(1)
    .meta({ description: 'One SELECT, SHOW TABLES or DESCRIBE <view>, in ClickHouse SQL over the views of the project.' }),
  params: z.record(z.string(), z.json()).default({}).meta({ description: 'Values of {name:Type} in the query.' }),
  format: z.enum(SQL_FORMAT_NAMES).default('json').meta({
    description: 'json, ndjson, ndjson-progress (lines of progress between those of rows), csv, tsv, arrow (IPC stream) or parquet.',
  }),
  project: entityId.default(DEFAULT_PROJECT),
});

/** Bytes of the answer that are awaited before the status is sent: up to here a failing query still gets a status and an error of its own. */
const HELD_BYTES = 64 * 1024;
const BODY_LIMIT = 8 * MAX_QUERY_BYTES;

export type SqlRoutesOptions = { readonly run: SqlRunner };

/**
 * The answer is streamed with back-pressure and cancelled when the client goes away. A query that fails after its first bytes were sent ends the
 * connection without the closing chunk, so that no client takes a part for the whole.
 */
export const sqlRoutes: FastifyPluginAsync<SqlRoutesOptions> = async (app, { run }) => {
  app.setErrorHandler((error, _request, reply) => replyError(reply, asBadRequest(error)));
  app.post(
    '/v1/sql',
    { bodyLimit: BODY_LIMIT, schema: SCHEMA, validatorCompiler: () => () => true, serializerCompiler: () => JSON.stringify },
    async (request, reply) => {
      const parsed = sqlRequest.safeParse(request.body);
      if (!parsed.success) return replyError(reply, badRequest(parsed.error));
      const gone = new AbortController();
      reply.raw.once('close', () => gone.abort(new TapedeckError('aborted', 'the client went away')));
      try {
        return await send(reply, await run({ ...parsed.data, account: accountOf(request.raw), signal: gone.signal }));
      } catch (error) {
        gone.abort();
        return replyError(reply, error);
      }
    },
  );
};

/** The key that asks; null on a server without keys. */
export function accountOf(request: object): SqlAccount | null {
  const access = accessOf(request);
  return access === null ? null : { key: access.key, limits: access.limits };
}

/** What the engine says of the format `json`; 64-bit integers of the cells are strings. */
const jsonRows = z.looseObject({
  meta: z.array(z.object({ name: z.string(), type: z.string() })),
  data: z.array(z.record(z.string(), z.unknown())),
  rows: z.int(),
});
const BYTES = Object.values(SQL_FORMATS).filter(({ engine }) => engine !== 'JSON').map(({ mediaType }) => [mediaType.split(';')[0] as string, null] as const); // prettier-ignore

const SCHEMA = {
  operationId: 'sql',
  summary: 'Ask a question in SQL',
  tags: ['query'],
  consumes: ['application/json'],
  body: z.toJSONSchema(sqlRequest, { io: 'input', unrepresentable: 'any' }),
  response: answerForms('The rows, as a stream in the asked format', { 'application/json': jsonRows, ...Object.fromEntries(BYTES) }),
};

async function send(reply: FastifyReply, answer: SqlAnswer): Promise<FastifyReply> {
  const source = answer.body[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  let isEnded = false;
  for (let bytes = 0; bytes < HELD_BYTES && !isEnded;) {
    const next = await source.next();
    if (next.done === true) isEnded = true;
    else {
      held.push(next.value);
      bytes += next.value.length;
    }
  }
  void reply.header('content-type', answer.mediaType).header('cache-control', 'no-store');
  if (isEnded) return reply.send(Buffer.concat(held));
  return reply.send(Readable.from(rest(held, source), { objectMode: false, highWaterMark: HELD_BYTES }));
}

async function* rest(held: readonly Uint8Array[], source: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* held;
    for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value;
  } finally {
    await source.return?.();
  }
}

/** Errors of the HTTP framework (body too large, not JSON, wrong type) as ours. */
function asBadRequest(error: unknown): unknown {
  const { statusCode, message } = (error ?? {}) as { statusCode?: unknown; message?: unknown };
  if (error instanceof TapedeckError || typeof statusCode !== 'number' || statusCode >= 500) return error;
  const code = statusCode === 413 ? 'body_too_large' : statusCode === 415 ? 'unsupported_media_type' : 'bad_request';
  if (code === 'body_too_large')
    return new TapedeckError(code, `the body is longer than ${BODY_LIMIT} bytes: pass long lists as params, in parts`, {
      cause: error,
      details: { limit: BODY_LIMIT },
    });
  return new TapedeckError(code, typeof message === 'string' ? message : 'bad request', { cause: error });
}
