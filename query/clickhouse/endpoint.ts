/**
 * `/clickhouse/`: ClickHouse's HTTP interface, read-only, for clients that know nothing of Tapedeck: `@clickhouse/client`, clickhouse-connect, the JDBC driver, Grafana, DBeaver.
 * The key is the password (any user name), or the user with no password, or `X-ClickHouse-Key`. Sessions are taken and mean nothing, since nothing can be set.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import { uuidV7 } from '../../base/uuid.ts';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { boundaryOf, readForm } from '../../store/columns/engine/multipart.ts';
import { createReply, type EngineFacts, type Reply, type Summary } from '../../store/columns/engine/reply.ts';
import { plainBody } from '../../store/columns/engine/request-body.ts';
import { readRequest, type EngineRequest } from '../../store/columns/engine/request.ts';
import { httpStatusOf, refusal, wireText } from '../../store/columns/engine/wire-error.ts';
import { ALL_PROJECTS } from '../../store/keys/key-record.ts';
import { accessOf } from '../../store/keys/request-access.ts';
import { accountOf } from '../routes/sql.ts';
import { MAX_QUERY_BYTES, type SqlLimits } from '../sql/limits.ts';
import type { EnsureProject } from '../sql/project-views.ts';
import type { QuerySlots } from '../sql/query-slots.ts';
import { createClickHouseRunner, type ClickHouseRunner } from './clickhouse-query.ts';
import { progressInterval, sendProgress } from './progress-headers.ts';
import { helloAnswer } from './hello.ts';
import { clientErrorOf } from './wire-errors.ts';

export type ClickHouseOptions = {
  readonly store: ColumnStore;
  readonly limits: SqlLimits;
  readonly slots: QuerySlots;
  readonly ensureProject: EnsureProject;
  readonly clock: Clock;
  readonly random: Random;
};

const PREFIX = '/clickhouse';
/** A client that reads nothing for so long has gone away. */
const STALL_MS = 300_000;

export const clickHouseRoutes: FastifyPluginAsync<ClickHouseOptions> = async (app, options) => {
  const running = new Map<string, AbortController>();
  const kill = (project: string, queryId: string): boolean => {
    const query = running.get(nameOf(project, queryId));
    query?.abort(new TapedeckError('aborted', 'Query was cancelled'));
    return query !== undefined;
  };
  const run = createClickHouseRunner({ ...options, kill });
  const facts = lazyFacts(options.store);
  // The handler reads the body itself, since it may be compressed in ways that only ClickHouse's clients know.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));
  app.setErrorHandler((error, _request, reply) => refuse(reply, error, ''));
  alive(app);
  for (const url of [PREFIX, `${PREFIX}/`, '/']) {
    app.route({
      // the JDBC driver takes no path: it posts to the root
      method: url === '/' ? 'POST' : ['GET', 'POST'],
      url,
      schema: { summary: "ClickHouse's HTTP interface, read-only", tags: ['query'], hide: url !== `${PREFIX}/` },
      handler: async (request, reply) => {
        reply.hijack();
        await answer(request, reply.raw, { ...options, run, facts, running });
      },
    });
  }
};

/** They say that the server is there, to anyone. */
function alive(app: FastifyInstance): void {
  for (const path of [`${PREFIX}/ping`, `${PREFIX}/replicas_status`, '/ping']) {
    app.get(path, { schema: { hide: true } }, (_request, reply) => reply.type('text/html; charset=UTF-8').send('Ok.\n'));
  }
}

type Ports = ClickHouseOptions & {
  readonly run: ClickHouseRunner;
  readonly facts: () => Promise<EngineFacts>;
  readonly running: Map<string, AbortController>;
};

async function answer(request: FastifyRequest, response: ServerResponse, ports: Ports): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort(new TapedeckError('aborted', 'the client went away'));
  });
  response.on('error', () => gone.abort(new TapedeckError('aborted', 'the client went away')));
  let queryId = '';
  try {
    const asked = await readAsked(request.raw);
    queryId = asked.request.queryId ?? uuidV7(ports.clock, ports.random);
    await answerQuery(asked, queryId, { request, response, gone }, ports);
  } catch (error) {
    if (isTapedeckError(error, 'internal')) request.log.error({ err: error }, 'a query of a ClickHouse client failed');
    sendError(response, error, queryId);
    request.raw.resume();
  }
}

type Asked = { readonly request: EngineRequest; readonly text: string };

/** What the client wants: URL, headers, form fields, and the text of the query from URL and body. */
async function readAsked(message: IncomingMessage): Promise<Asked> {
  const method = message.method ?? 'GET';
  const url = message.url ?? '/';
  const target = `/${(url.startsWith(PREFIX) ? url.slice(PREFIX.length) : url).replace(/^\/+/, '')}`;
  const addressed = readRequest(method, target, message.headers);
  const boundary = boundaryOf(addressed.contentType);
  const body = plainBody(message, addressed);
  if (boundary === null) {
    const text = addressed.isGet ? '' : await textOf(body);
    return { request: addressed, text: [addressed.query, text].filter((part) => part !== '').join('\n') };
  }
  const parts = await readForm(upTo(body), boundary);
  if (parts.some(({ isFile }) => isFile))
    throw refusal(344, 'SUPPORT_IS_DISABLED', 'External tables are not taken: pass lists as parameters');
  const fields = new Map(parts.map((part) => [part.name, part.bytes.toString('utf8')]));
  const request = readRequest(method, target, message.headers, { fields, files: [] });
  return { request, text: request.query };
}

async function* upTo(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > 8 * MAX_QUERY_BYTES)
      throw refusal(191, 'QUERY_IS_TOO_LARGE', `The body is longer than ${8 * MAX_QUERY_BYTES} bytes: pass long lists as parameters`);
    yield chunk;
  }
}

const INSERT = /^\s*insert\s/i;

/** The body as text. Of an INSERT only the beginning is looked at: the rest may be anything, and nothing of it is wanted. */
async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of upTo(body)) {
    if (parts.length === 0 && INSERT.test(Buffer.from(chunk.subarray(0, 64)).toString('latin1'))) return 'INSERT';
    parts.push(chunk);
  }
  const bytes = Buffer.concat(parts);
  const text = bytes.toString('utf8');
  if (!Buffer.from(text).equals(bytes)) throw refusal(36, 'BAD_ARGUMENTS', "The query is not UTF-8: write such bytes as unhex('ff')");
  return text;
}

type Exchange = { readonly request: FastifyRequest; readonly response: ServerResponse; readonly gone: AbortController };

async function answerQuery(asked: Asked, queryId: string, { request, response, gone }: Exchange, ports: Ports): Promise<void> {
  const { request: wanted, text } = asked;
  if (text.trim() === '') {
    if (wanted.isGet) return void response.setHeader('Content-Type', 'text/html; charset=UTF-8').end('Ok.\n');
    throw refusal(62, 'SYNTAX_ERROR', 'Empty query');
  }
  const account = accountOf(request.raw);
  const access = accessOf(request.raw);
  const project = access === null || access.project === ALL_PROJECTS ? projectAsked(wanted) : access.project;
  const name = nameOf(project, queryId);
  if (ports.running.has(name)) throw refusal(216, 'QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING', `Query with id = ${queryId} is already running`);
  ports.running.set(name, gone);
  const over = new AbortController();
  try {
    const facts = await ports.facts();
    const replyIn = (format: string): Reply =>
      createReply(response, {
        request: wanted, facts, queryId, format, clock: ports.clock, stallMs: STALL_MS, gone: gone.signal,
        exceptionTag: Buffer.from(ports.random.bytes(new Uint8Array(8))).toString('hex'),
      }); // prettier-ignore
    const { searchParams } = new URL(request.raw.url ?? '/', 'http://x');
    const hello = helloAnswer(text, searchParams, facts);
    if (hello !== null) {
      const reply = replyIn('Native');
      await reply.write(hello);
      await reply.end(summaryOf(null));
      return;
    }
    const runId = uuidV7(ports.clock, ports.random);
    const intervalMs = progressInterval(searchParams);
    if (intervalMs !== null) void sendProgress(response, { queryId: runId, intervalMs }, ports, over.signal);
    const answered = await ports.run({
      text,
      params: wanted.parameters,
      settings: wanted.settings,
      format: wanted.format,
      database: access === null || access.project === ALL_PROJECTS ? null : wanted.database,
      project,
      account,
      waitsForEnd: wanted.waitsForEnd,
      runId,
      signal: gone.signal,
    });
    const reply = replyIn(answered.format);
    try {
      for await (const chunk of answered.body) await reply.write(chunk);
    } catch (error) {
      if (!response.headersSent) throw error;
      await reply.fail(clientErrorOf(error));
      return;
    }
    over.abort();
    await reply.end(summaryOf(answered.summary));
  } finally {
    over.abort();
    ports.running.delete(name);
  }
}

/** Without a key of one project, the database of the request names the project. */
function projectAsked({ database }: EngineRequest): string {
  return database === null || database === '' ? DEFAULT_PROJECT : database;
}

function nameOf(project: string, queryId: string): string {
  return JSON.stringify([project, queryId]);
}

/** The engine's own account. One driver drops the rows of an answer that claims none, so what is not known is one row. */
function summaryOf(summary: string | null): Summary {
  let said: Record<string, unknown> = {};
  try {
    said = JSON.parse(summary ?? '{}') as Record<string, unknown>;
  } catch {
    // not known
  }
  const number = (name: string): number => Number(said[name] ?? 0) || 0;
  const rows = Math.max(number('result_rows'), number('read_rows'), 1);
  return {
    readRows: rows,
    readBytes: Math.max(number('result_bytes'), number('read_bytes')),
    writtenRows: 0,
    elapsedMs: number('elapsed_ns') / 1e6,
  };
}

function lazyFacts(store: ColumnStore): () => Promise<EngineFacts> {
  let facts: Promise<EngineFacts> | null = null;
  const ask = async (): Promise<EngineFacts> => {
    const [row] = await store.rows<EngineFacts>('SELECT version() AS version, timezone() AS timezone');
    if (row === undefined) throw new TapedeckError('store_unavailable', 'the column store does not say what it is');
    return row;
  };
  return () => {
    facts ??= ask().catch((error: unknown) => {
      facts = null;
      throw error;
    });
    return facts;
  };
}

/** An error before the first byte: its code in a header, its text as the body. */
function sendError(response: ServerResponse, error: unknown, queryId: string): void {
  if (response.headersSent || response.destroyed) {
    if (!response.writableEnded) response.destroy();
    return;
  }
  const known = clientErrorOf(error);
  response.setHeader('X-ClickHouse-Exception-Code', String(known.code));
  response.setHeader('X-ClickHouse-Server-Display-Name', 'tapedeck');
  response.setHeader('Content-Type', 'text/plain; charset=UTF-8');
  if (queryId !== '') response.setHeader('X-ClickHouse-Query-Id', queryId.replaceAll(/[^\x20-\x7e]/g, '?'));
  if (known.retryAfter !== null) response.setHeader('Retry-After', known.retryAfter);
  response.writeHead(known.status ?? httpStatusOf(known));
  response.end(wireText(known, 'tapedeck'));
}

/** Refusals of the check at the edge, in the form of this interface. */
function refuse(reply: FastifyReply, error: unknown, queryId: string): FastifyReply {
  const known = clientErrorOf(error);
  void reply.header('x-clickhouse-exception-code', String(known.code));
  if (known.retryAfter !== null) void reply.header('retry-after', known.retryAfter);
  if (queryId !== '') void reply.header('x-clickhouse-query-id', queryId);
  return reply
    .code(known.status ?? httpStatusOf(known))
    .type('text/plain; charset=UTF-8')
    .send(wireText(known, 'tapedeck'));
}
