/** The HTTP server and the ingest routes. `openServer` makes the one Fastify instance of a process; `createIngest` is a plugin for it. */
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance, type FastifyPluginAsync, type FastifyReply } from 'fastify';
import type { Registry } from 'prom-client';
import { ByteBudget } from '../../base/byte-budget.ts';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Random } from '../../base/random.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { AcceptContext } from '../accept.ts';
import type { Producers } from '../accept-producers.ts';
import type { Tombstones } from '../accept-tombstones.ts';
import { createBufferPool } from './buffer-pool.ts';
import { createClientErrorHandler } from './client-error.ts';
import { describeRoute } from './describe-route.ts';
import { errorAnswer, toTapedeckError } from './error-answer.ts';
import { registerEventsRoute } from './events-route.ts';
import { registerHealth, type ReadyCheck } from './health.ts';
import { createIdempotencyWindow } from './idempotency.ts';
import { checkLimits, INGEST_LIMITS, type IngestLimits } from './limits.ts';
import { createIngestMetrics, type IngestMetrics } from './metrics.ts';
import type { BodyPorts } from './read-body.ts';
import { createWriterPool, type WriterPool } from './writer-pool.ts';

export type ServerOptions = {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger?: FastifyBaseLogger;
  /** A client must send all headers within this time. */
  readonly headersMs?: number;
  /** A connection without a request is closed after this time. */
  readonly idleSocketMs?: number;
  readonly headerBytes?: number;
  /** How long `close` waits for requests in flight before it cuts their connections. */
  readonly closeMs?: number;
  /** Called before any route is registered: hooks that hold for all routes. */
  readonly guard?: (app: FastifyInstance) => Promise<void>;
  /** PEM texts; with them the server speaks HTTPS only. */
  readonly tls?: { readonly cert: string; readonly key: string };
  /** Safety net above the deadlines of the routes: a request must have come whole within this time. */
  readonly requestMs?: number;
};

export type IngestOptions = {
  readonly log: EventLog;
  /** The topic of trainer feeds. Only given where the feed itself writes through this edge; otherwise its events are refused. */
  readonly feeds?: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly random: Random;
  readonly limits?: Partial<IngestLimits>;
  readonly producers: Producers;
  readonly tombstones: Tombstones;
  readonly registry: Registry;
  readonly checks?: readonly ReadyCheck[];
  /** Further routes that write events: each gets a plugin scope of its own and shares limits, memory budget and metrics with `POST /v1/events`. */
  readonly routes?: readonly IngestRoutes[];
};

/** What routes that write events share. */
export type IngestPorts = BodyPorts & {
  readonly accept: AcceptContext;
  readonly metrics: IngestMetrics;
  readonly writers: WriterPool;
  readonly random: Random;
};
export type IngestRoutes = (scope: FastifyInstance, ports: IngestPorts) => void | Promise<void>;

/** A Fastify instance with the server's deadlines, one shape for all errors, a graceful `close`, and `/docs`. Register routes, then `listen`. */
export async function openServer(options: ServerOptions): Promise<FastifyInstance> {
  const { clock, closeMs = 15_000 } = options;
  const clientErrors = createClientErrorHandler();
  const bounds = {
    headersTimeout: options.headersMs ?? 10_000,
    maxHeaderSize: options.headerBytes ?? 16 * 1024,
    connectionsCheckingInterval: 1_000,
  };
  const app = fastify({
    ...(options.logger === undefined ? { logger: false } : { loggerInstance: options.logger }),
    logController: new LogController({ disableRequestLogging: true }),
    return503OnClosing: false,
    keepAliveTimeout: options.idleSocketMs ?? 75_000,
    requestTimeout: options.requestMs ?? 300_000,
    ...(options.tls === undefined ? { http: bounds } : { https: { ...bounds, ...options.tls } }),
    clientErrorHandler: (error, socket) => clientErrors.handle(error, socket),
    frameworkErrors: (error, _request, reply) => void sendError(reply as unknown as FastifyReply, error, options.random),
    routerOptions: { maxParamLength: 4096 }, // ids may be escaped, and keys of the gateway hold several
  }) as unknown as FastifyInstance;
  clientErrors.follow(app.server);
  answerErrors(app, options.random);
  closeGracefully(app, clock, closeMs);
  await options.guard?.(app);
  await app.register(swagger, {
    transform: describeRoute,
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tapedeck',
        version: '1',
        description: 'Event-sourced trace platform for RL post-training and evals of language-model agents.',
      },
    },
  });
  await app.register(swaggerUi, { routePrefix: '/docs' });
  return app;
}

/** Every failure has the body `{error: {code, message, details?}}` and the status of its code. */
function answerErrors(app: FastifyInstance, random: Random): void {
  app.setErrorHandler((error, request, reply) => {
    const known = toTapedeckError(error);
    if (known.status >= 500 && known.code !== 'not_ready' && known.code !== 'closed')
      request.log.error({ err: error, code: known.code }, 'request failed');
    return sendError(reply, known, random);
  });
  app.setNotFoundHandler((request) => {
    throw new TapedeckError('not_found', `there is no ${request.method} ${request.url.slice(0, 200)}; the endpoints are listed at /docs`);
  });
}

function sendError(reply: FastifyReply, error: unknown, random: Random): FastifyReply {
  const { status, headers, body } = errorAnswer(toTapedeckError(error), random);
  return reply.code(status).headers(headers).send(body);
}

/** While closing: requests in flight finish, new ones get `closed`; after `closeMs` the connections that are left are cut. */
function closeGracefully(app: FastifyInstance, clock: Clock, closeMs: number): void {
  let isClosing = false;
  const closed = new AbortController();
  app.addHook('onRequest', async (_request, reply) => {
    if (!isClosing) return;
    void reply.header('connection', 'close');
    throw new TapedeckError('closed', 'this server is closing; send the same request to another one or again later');
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isClosing) void reply.header('connection', 'close');
    done();
  });
  app.addHook('preClose', async () => {
    isClosing = true;
    void clock.sleep(closeMs, closed.signal).then(
      () => app.server.closeAllConnections(),
      () => {},
    );
  });
  app.addHook('onClose', async () => closed.abort());
}

/**
 * `POST /v1/events`, `/healthz`, `/readyz`, `/metrics`. Requests to routes that are registered later on the same instance are counted too. Loading the states of producers is the caller's task (`producers.load`);
 * until then numbered events are refused.
 */
export function createIngest(options: IngestOptions): FastifyPluginAsync {
  const { log, feeds, blobs, clock, random, producers, tombstones, registry } = options;
  const limits = checkLimits({ ...INGEST_LIMITS, ...options.limits });
  const budget = new ByteBudget(limits.inFlightBytes);
  const metrics = createIngestMetrics(registry, () => budget.used);
  const answers = createIdempotencyWindow({ maxBytes: limits.idempotencyBytes, keepMs: limits.idempotencyMs, clock });
  const producersCheck: ReadyCheck = {
    name: 'producers',
    waitsFor: () => (producers.loaded ? null : 'the states of producers to be loaded'),
  };

  const plugin: FastifyPluginAsync = async (app) => {
    app.addHook('onResponse', async (request, reply) => metrics.onRequest(request.routeOptions.url ?? 'none', reply.statusCode));
    const onFailure = (error: unknown): void => app.log.error({ err: error }, 'a write failed');
    const onAppend = (seconds: number, ok: boolean): void => metrics.onAppend(seconds, ok);
    const accept = { log, feeds, blobs, clock, limits, producers, tombstones, onFailure, onAppend };
    const pool = createBufferPool(limits.pooledBytes);
    const writers = createWriterPool(limits.pooledBytes);
    const ports: IngestPorts = { accept, metrics, pool, writers, budget, clock, random, limits };
    await app.register(async (scope) => {
      registerEventsRoute(scope, { ...ports, answers });
    });
    for (const routes of options.routes ?? []) await app.register(async (scope) => routes(scope, ports));
    await app.register(async (scope) => {
      scope.setSerializerCompiler(() => (value) => (typeof value === 'string' ? value : JSON.stringify(value)));
      registerHealth(scope, { clock, registry, checks: [...(options.checks ?? []), producersCheck] });
    });
    refuseOtherMethods(app);
  };
  // not a scope of its own, so that the hook counts all requests
  return Object.assign(plugin, { [Symbol.for('skip-override')]: true });
}

function refuseOtherMethods(app: FastifyInstance): void {
  app.route({
    method: ['GET', 'PUT', 'PATCH', 'DELETE'],
    url: '/v1/events',
    exposeHeadRoute: false,
    schema: { hide: true },
    onRequest: async (_request, reply) => {
      void reply.header('allow', 'POST');
      throw new TapedeckError('method_not_allowed', 'only POST is served here');
    },
    handler: () => null,
  });
}
