/** The endpoint that answers from the record: what OpenAI and Anthropic clients speak, over one session. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../../../base/clock.ts';
import { ERROR_CODES, isTapedeckError, TapedeckError, type ErrorCode } from '../../../base/errors.ts';
import { canonicalRequest, readRequest } from '../request/canonical-request.ts';
import type { Session } from '../session/session.ts';
import { errorBody, routeOf } from './endpoints.ts';
import { sendLive, type LiveTarget } from './live.ts';
import { playAnswer, type Timing } from './play.ts';

export type ReplayServerOptions = {
  readonly session: Session;
  readonly clock: Clock;
  readonly timing: Timing;
  /** Where requests go that the record does not answer, where the policy lets them; made when the first one does. */
  readonly live: (() => Promise<LiveTarget>) | null;
  readonly host?: string;
  /** 0 = any free one. */
  readonly port?: number;
  /** What failed for a reason nobody foresaw. */
  readonly onFault: (error: unknown) => void;
};

export type ReplayServer = {
  /** `http://127.0.0.1:…`, without a path. */
  readonly url: string;
  /** Ends all connections. */
  close(): Promise<void>;
};

const MAX_BODY_BYTES = 64 * 1024 * 1024;

/** Throws `address_refused` when it cannot listen. */
export async function startReplayServer(options: ReplayServerOptions): Promise<ReplayServer> {
  let live: Promise<LiveTarget> | null = null;
  const target = async (): Promise<LiveTarget> => {
    if (options.live === null) throw new TapedeckError('usage', 'no live model is named for this replay');
    live ??= options.live();
    return live;
  };
  const server = createServer((request, response) => {
    response.on('error', () => {});
    void serve(request, response, options, target).catch((error: unknown) => {
      if (!isTapedeckError(error)) options.onFault(error);
      response.destroy();
    });
  });
  const host = options.host ?? '127.0.0.1';
  await listening(server, host, options.port ?? 0);
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', (cause) =>
    reject(new TapedeckError('address_refused', `cannot listen on ${host}:${port}: ${cause.message}`, { cause })),
  );
  server.listen(port, host, resolve);
  await promise;
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  options: ReplayServerOptions,
  target: () => Promise<LiveTarget>,
): Promise<void> {
  const { session, clock, timing } = options;
  const path = (request.url ?? '/').split('?', 1)[0] as string;
  const route = routeOf(request.method ?? '', path);
  if (route.kind === 'models') return sendModels(response, session);
  if (route.kind === 'unrecorded') return refuse(response, 'anthropic.messages', 'not_found', route.what);
  if (route.kind === 'unknown') return refuse(response, 'openai.chat', 'not_found', `a replay has no ${request.method ?? ''} ${path}`);
  const { dialect, trace } = route;
  if (trace !== null && !session.tape.traces.some((known) => known.trace === trace)) {
    const known = session.tape.traces.map((each) => each.trace).join(', ');
    return refuse(response, dialect, 'not_found', `rollout ${session.tape.rollout} has no trace ${trace}; it has ${known}`);
  }
  const body = await bodyOf(request);
  if (body === null) return refuse(response, dialect, 'body_too_large', `a request may have ${MAX_BODY_BYTES} bytes`);
  const read = readRequest(body);
  if (!read.ok) return refuse(response, dialect, read.error.code, read.error.message);
  const isRetry = Number(request.headers['x-stainless-retry-count'] ?? 0) > 0;
  const plan = session.plan({ dialect, request: canonicalRequest(read.value), trace, isRetry });
  if (plan.kind === 'refuse') return refuse(response, dialect, plan.code, plan.message);
  if (plan.kind === 'live') {
    try {
      return await sendLive(await target(), { path: path.replace(/^\/t\/[^/]+/, ''), headers: request.headers, body }, response, {
        'x-tapedeck-replay': 'live',
      });
    } catch (error) {
      if (!isTapedeckError(error) || response.headersSent) throw error;
      return refuse(response, dialect, error.code, error.message);
    }
  }
  const { call, answer, how } = plan;
  const played = await playAnswer(response, answer, { 'x-tapedeck-replay': how, 'x-tapedeck-call': String(call.index) }, timing, clock);
  const name = `call ${call.index} of trace ${call.trace}`;
  if (played === 'client_stayed')
    session.note(
      `${name}: the harness left this answer before its end when it was recorded; now it stayed for ${timing.holdMs} ms, and the connection was cut`,
    );
  if (played === 'client_left' && answer.ending !== 'left') session.note(`${name}: the harness left before the end of its answer`);
}

/** Null when it is too large. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  return bytes > MAX_BODY_BYTES ? null : Buffer.concat(chunks);
}

function refuse(response: ServerResponse, dialect: string, code: ErrorCode, message: string): void {
  const { status } = ERROR_CODES[code];
  const body = errorBody(dialect, status, code, message);
  // client libraries would ask again, which a record cannot help
  const headers = { 'content-type': 'application/json; charset=utf-8', 'content-length': String(body.length), 'x-should-retry': 'false' };
  response.writeHead(status, { ...headers, 'x-tapedeck-replay': 'refused' }).end(body);
}

/** The models that answered, in both dialects' shape. */
function sendModels(response: ServerResponse, { tape }: Session): void {
  const names = [
    ...new Set(tape.calls.flatMap(({ request, model }) => [request?.['model'], model]).filter((name) => typeof name === 'string')),
  ];
  const data = names.map((id) => ({
    id,
    object: 'model',
    type: 'model',
    display_name: id,
    created: 0,
    created_at: '1970-01-01T00:00:00Z',
    owned_by: 'replay',
  }));
  const body = JSON.stringify({ object: 'list', data, has_more: false, first_id: names[0] ?? null, last_id: names.at(-1) ?? null });
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8' }).end(body);
}
