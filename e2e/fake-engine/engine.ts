/**
 * A small real engine for tests and demos: vLLM's, SGLang's, OpenAI's or Anthropic's HTTP shapes over a real tokenizer, deterministic by seed, with faults on demand.
 * It is a server like any other to its clients; tests in the same process also read what it saw and gave.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { systemClock, type Clock } from '../../base/clock.ts';
import { adminRoute } from './admin-route.ts';
import type { Call } from './answer.ts';
import { defaultBehaviour, type Behaviour } from './behaviour.ts';
import type { ChatMessage } from './chat-template.ts';
import type { Engine, EngineKind, ModelSettings } from './engine-state.ts';
import { createFaultQueue, faultOf, type Fault, type QueuedFault } from './faults.ts';
import { dispatch, refuse } from './routes.ts';
import { createRequestLog, type OpenRequest, type SeenRequest } from './seen.ts';
import { o200kTokenizer, type Tokenizer } from './tokenizer.ts';

export type FakeEngineOptions = {
  /** 0 (the default) takes a free one. */
  readonly port?: number;
  readonly seed?: number;
  readonly kind?: EngineKind;
  readonly behaviour?: Behaviour;
  readonly tokenizer?: Tokenizer;
  readonly models?: readonly ModelSettings[];
  readonly clock?: Clock;
  /** Milliseconds before the first token and between tokens; ids per chunk. */
  readonly pace?: { readonly firstTokenMs?: number; readonly tokenMs?: number; readonly streamInterval?: number };
  readonly tellVersion?: Engine['tellVersion'];
  readonly reasoningField?: Engine['reasoningField'];
  readonly policyVersion?: number;
  /** With it, requests without this key get 401. */
  readonly apiKey?: string;
  readonly keepRequests?: number;
};

export type FakeEngine = {
  /** Without a slash at the end and without `/v1`. */
  readonly url: string;
  readonly port: number;
  readonly tokenizer: Tokenizer;
  /** In order of arrival, from number `from` on. */
  requests(from?: number): readonly SeenRequest[];
  clearRequests(): void;
  /** Waits until a request that matches has ended; throws after `ms`. */
  ended(matches: (request: SeenRequest) => boolean, ms?: number): Promise<SeenRequest>;
  openRequests(): number;
  queueFault(entry: QueuedFault): void;
  /** Faults for the next request, whatever it is. */
  failNext(...faults: QueuedFault['faults']): void;
  setPolicyVersion(version: number): void;
  setPace(pace: { readonly firstTokenMs?: number; readonly tokenMs?: number; readonly streamInterval?: number }): void;
  /** Destroys all connections and answers nothing for a while, on the same port. */
  restart(downMs?: number): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
};

export const DEFAULT_MODELS: readonly ModelSettings[] = [
  { id: 'toy', maxModelLen: 32_768, thinks: false, earlierReasoning: 'keep' },
  { id: 'toy-thinking', maxModelLen: 32_768, thinks: true, earlierReasoning: 'drop' },
  { id: 'toy-open-thinking', maxModelLen: 32_768, thinks: true, earlierReasoning: 'keep' },
  { id: 'toy-small', maxModelLen: 256, thinks: false, earlierReasoning: 'keep' },
];

const LARGEST_BODY = 64 * 1024 * 1024;

export async function startFakeEngine(options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const clock = options.clock ?? systemClock;
  const sockets = new Set<Socket>();
  const engine = engineState(options, clock, (downMs) => void restart(downMs));
  const server = createServer((request, response) => {
    void serve(engine, options.apiKey, request, response);
  });
  server.keepAliveTimeout = 30_000;
  server.requestTimeout = 0;
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const listen = (port: number): Promise<void> =>
    new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ port, host: '127.0.0.1', backlog: 4096 }, () => {
        server.off('error', reject);
        resolve();
      });
    });
  const shut = (): Promise<void> =>
    new Promise((resolve) => {
      if (!server.listening) return resolve();
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
  await listen(options.port ?? 0);
  const port = (server.address() as AddressInfo).port;
  let closed = false;
  const restart = async (downMs: number): Promise<void> => {
    await shut();
    await clock.sleep(downMs);
    if (!closed) await listen(port);
  };
  const close = (): Promise<void> => {
    closed = true;
    return shut();
  };
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    tokenizer: engine.tokenizer,
    requests: (from) => engine.log.list(from),
    clearRequests: () => engine.log.clear(),
    ended: (matches, ms = 30_000) => waitEnded(engine, clock, matches, ms),
    openRequests: () => engine.log.open(),
    queueFault: (entry) => engine.faults.add(entry),
    failNext: (...faults) => engine.faults.add({ faults }),
    setPolicyVersion: (version) => (engine.policyVersion = version),
    setPace: (pace) => void Object.assign(engine.pace, pace),
    restart: (downMs = 200) => restart(downMs),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function engineState(options: FakeEngineOptions, clock: Clock, restart: (downMs: number) => void): Engine {
  const samples = new Map<number, number>();
  return {
    kind: options.kind ?? 'vllm',
    seed: options.seed ?? 1,
    models: options.models ?? DEFAULT_MODELS,
    tokenizer: options.tokenizer ?? o200kTokenizer(),
    behaviour: options.behaviour ?? defaultBehaviour(),
    clock,
    faults: createFaultQueue(),
    log: createRequestLog(clock, { requests: options.keepRequests ?? 20_000, bytes: 256 * 1024 * 1024 }),
    pace: { firstTokenMs: 0, tokenMs: 0, streamInterval: 1, ...options.pace },
    tellVersion: options.tellVersion ?? 'none',
    reasoningField: options.reasoningField ?? 'reasoning_content',
    policyVersion: options.policyVersion ?? 0,
    conversations: newest(1000),
    nextSample: (prompt) => {
      const sample = samples.get(prompt) ?? 0;
      if (samples.size > 100_000) samples.clear();
      samples.set(prompt, sample + 1);
      return sample;
    },
    restart,
  };
}

function newest(limit: number): Engine['conversations'] {
  const kept = new Map<string, readonly ChatMessage[]>();
  return {
    get: (id) => kept.get(id),
    set: (id, messages) => {
      if (kept.size >= limit) kept.delete(kept.keys().next().value as string);
      kept.set(id, messages);
    },
  };
}

async function waitEnded(engine: Engine, clock: Clock, matches: (request: SeenRequest) => boolean, ms: number): Promise<SeenRequest> {
  const end = clock.monotonicMs() + ms;
  for (;;) {
    const found = engine.log.list().find((r) => r.outcome !== 'open' && matches(r));
    if (found !== undefined) return found;
    if (clock.monotonicMs() > end) throw new Error(`no request ended that matches within ${ms} ms; seen: ${engine.log.list().length}`);
    await clock.sleep(10);
  }
}

async function serve(engine: Engine, apiKey: string | undefined, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '/').split('?')[0] as string;
  const gone = new AbortController();
  let seen: OpenRequest | undefined;
  response.once('close', () => {
    if (!response.writableFinished) {
      if (seen !== undefined) engine.log.end(seen, 'client_closed');
      gone.abort();
    }
  });
  try {
    const bytes = await readBody(request);
    const text = bytes.toString('utf8');
    if (path.startsWith('/fake/')) return adminRoute(engine, request, response, text);
    if (path === '/health' && request.method === 'GET' && (engine.kind === 'vllm' || engine.kind === 'sglang'))
      return void response.writeHead(200).end(); // asked for all the time: not kept
    const body = parseJson(text);
    const model = (body as { model?: unknown } | undefined)?.model;
    const header = request.headers['x-fake-fault'];
    let faults: Fault[] = [];
    let faultProblem: string | undefined;
    try {
      faults = engine.faults.take({
        method: request.method ?? 'GET',
        header: header as string | undefined,
        path,
        model: typeof model === 'string' ? model : undefined,
        body: text,
      });
    } catch (error) {
      faultProblem = error instanceof Error ? error.message : 'not readable';
    }
    seen = engine.log.add({ method: request.method ?? 'GET', path, headers: request.headers, bodyBytes: bytes.length, body, faults });
    const call: Call = { engine, request, response, seen, faults, gone: gone.signal };
    if (faultProblem !== undefined) return await refuse(call, path, { status: 400, message: `x-fake-fault: ${faultProblem}` });
    if (apiKey !== undefined && !hasKey(request, apiKey))
      return await refuse(call, path, { status: 401, message: 'Incorrect API key provided.' });
    const status = faultOf(faults, 'status');
    if (status !== undefined) return await playStatus(call, path, status);
    if (faultOf(faults, 'empty_body') !== undefined) {
      seen.status = 200;
      response
        .writeHead(200, {
          'content-type': (body as { stream?: boolean } | undefined)?.stream === true ? 'text/event-stream' : 'application/json',
        })
        .end();
      return engine.log.end(seen, 'cut');
    }
    await dispatch(call, path, body);
  } catch (error) {
    if (gone.signal.aborted) return;
    if (!response.headersSent) response.writeHead(500, { 'content-type': 'text/plain' });
    response.end(String(error));
    if (seen !== undefined) engine.log.end(seen, 'refused');
  }
}

async function playStatus(call: Call, path: string, fault: Extract<Fault, { kind: 'status' }>): Promise<void> {
  const headers: Record<string, string> = fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter };
  if (!fault.html) return refuse(call, path, { status: fault.status, message: fault.message }, headers);
  call.seen.status = fault.status;
  call.response
    .writeHead(fault.status, { 'content-type': 'text/html', ...headers })
    .end(`<html><body><h1>${fault.status} ${fault.message}</h1></body></html>\n`);
  call.engine.log.end(call.seen, 'refused');
}

function hasKey(request: IncomingMessage, key: string): boolean {
  return request.headers.authorization === `Bearer ${key}` || request.headers['x-api-key'] === key;
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > LARGEST_BODY) throw new Error(`a body of more than ${LARGEST_BODY} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
