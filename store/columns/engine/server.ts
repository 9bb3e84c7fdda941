import { createServer } from 'node:http';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { uuidV7 } from '../../../base/uuid.ts';
import type { Credentials } from './authenticate.ts';
import { checkCredentials } from './authenticate.ts';
import type { EngineContext } from './execute.ts';
import { execute } from './execute.ts';
import { externalTables } from './external-tables.ts';
import type { Part } from './multipart.ts';
import { boundaryOf, readForm } from './multipart.ts';
import { createReply, failWhole } from './reply.ts';
import { plainBody } from './request-body.ts';
import { readQuery } from './request-query.ts';
import type { EngineRequest } from './request.ts';
import { readRequest } from './request.ts';
import { checkSettings } from './settings.ts';
import { refusal, wireErrorOf } from './wire-error.ts';

const MAX_CONNECTIONS = 512;
const KEEP_ALIVE_MS = 60_000;
const REQUEST_TIMEOUT_MS = 3_600_000;
const READ_AHEAD_BYTES = 1024 * 1024;
const FORMAT_NAME = /^[A-Za-z][A-Za-z0-9_]*$/;

/** ClickHouse's HTTP interface over the engine: one user, one password, loopback. */
export function createEngineServer(context: EngineContext, credentials: Credentials): Server {
  const server = createServer(
    { highWaterMark: READ_AHEAD_BYTES, requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_MS },
    (message, response) => {
      void answer(context, credentials, message, response);
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  return server;
}

async function answer(context: EngineContext, credentials: Credentials, message: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => {
    if (!response.writableFinished) gone.abort(refusal(394, 'QUERY_WAS_CANCELLED', 'The client went away'));
  });
  response.on('error', () => gone.abort(refusal(394, 'QUERY_WAS_CANCELLED', 'The client went away')));
  let queryId = '';
  try {
    const request = readRequest(message.method ?? 'GET', message.url ?? '/', message.headers);
    queryId = request.queryId ?? uuidV7(context.clock, context.random);
    if (answersPlainly(request, message, response)) return;
    const denied = checkCredentials(request, credentials);
    if (denied) throw denied;
    if (request.path === '/inbox') return void response.end(context.spoolDirectory);
    await answerQuery(context, request, queryId, message, response, gone.signal);
  } catch (error) {
    failWhole(response, wireErrorOf(error), { facts: context.facts, queryId });
    // What nobody reads would otherwise hold the connection.
    message.resume();
    // An answer that has begun and cannot be finished must not look whole.
    if (response.headersSent && !response.writableEnded) response.destroy();
  }
}

/** `/ping` and a bare `/` tell that the engine lives, to anyone. */
function answersPlainly(request: EngineRequest, message: IncomingMessage, response: ServerResponse): boolean {
  const isRoot = request.path === '/' && request.isGet && request.query === '' && message.headers['content-length'] === undefined;
  if (request.path === '/ping' || request.path === '/replicas_status' || isRoot) {
    response.setHeader('Content-Type', 'text/html; charset=UTF-8');
    response.end('Ok.\n');
    return true;
  }
  if (request.path === '/' || request.path === '/inbox') return false;
  response.writeHead(404, { 'Content-Type': 'text/plain; charset=UTF-8' });
  response.end('There is no handle here: the interface is at /\n');
  return true;
}

async function answerQuery(
  context: EngineContext,
  addressed: EngineRequest,
  queryId: string,
  message: IncomingMessage,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const { request, body, files } = await readBody(addressed, message);
  const settings = checkSettings(request.settings, context.knownSettings);
  if (settings instanceof Error) throw settings;
  const { statement, data } = await readQuery(request, body);
  const format = statement.kind === 'rows' && statement.format !== null ? statement.format : (request.format ?? 'TabSeparated');
  if (!FORMAT_NAME.test(format)) throw refusal(73, 'UNKNOWN_FORMAT', `Unknown format ${JSON.stringify(format)}`);
  const reply = createReply(response, {
    request,
    facts: context.facts,
    queryId,
    format,
    exceptionTag: exceptionTag(context),
    clock: context.clock,
    stallMs: context.stallMs,
    gone,
  });
  const prepare = externalTables(context, request, files);
  await execute(context, { request, settings, queryId, statement, format, reply, gone, data, ...(prepare ? { prepare } : {}) });
}

type Content = { readonly request: EngineRequest; readonly body: AsyncIterable<Uint8Array>; readonly files: readonly Part[] };

/** A form adds its fields to the URL's parameters; its files become external tables. Any other body is the query, or the data behind it. */
async function readBody(request: EngineRequest, message: IncomingMessage): Promise<Content> {
  const body = plainBody(message, request);
  const boundary = boundaryOf(request.contentType);
  if (boundary === null) return { request, body, files: [] };
  const parts = await readForm(body, boundary);
  const files = parts.filter((part) => part.isFile);
  const fields = new Map(parts.filter((part) => !part.isFile).map((part) => [part.name, part.bytes.toString('utf8')]));
  const form = { fields, files: files.map((file) => file.name) };
  return { request: readRequest(message.method ?? 'POST', message.url ?? '/', message.headers, form), body: nothing(), files };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

function exceptionTag(context: EngineContext): string {
  return Buffer.from(context.random.bytes(new Uint8Array(8))).toString('hex');
}
