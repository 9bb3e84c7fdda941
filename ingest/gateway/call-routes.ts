/** The routes that harnesses call: key, body, trace, call. A request is refused in the shape of its own dialect, and before its body is read where the key is no good. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import { toTapedeckError } from '../http/error-answer.ts';
import { openClaim } from '../http/claim.ts';
import { readBody, type BodyPorts, type ReceivedBody } from '../http/read-body.ts';
import type { Sessions } from './admin/sessions.ts';
import { ENDPOINTS, type Endpoint } from './calls/endpoints.ts';
import { continued } from './calls/continued.ts';
import { readInbound } from './calls/inbound.ts';
import { createOut, type HarnessOut, type OpenStreams } from './calls/out.ts';
import { refuse } from './calls/refuse.ts';
import { serveCall, type ServePorts } from './calls/serve-call.ts';
import { keyOfRequest, readKey, type KeyClaims } from './keys.ts';
import type { GatewayLimits } from './limits.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { FoldPorts } from './traces/fold.ts';
import type { Rollouts } from './traces/rollouts.ts';
import type { TraceState } from './traces/state.ts';

export type CallRoutesPorts = {
  readonly serve: ServePorts;
  readonly sessions: Sessions;
  readonly rollouts: Rollouts;
  /** Where earlier messages of a trace are read from. */
  readonly fold: FoldPorts;
  readonly secret: Uint8Array;
  readonly streams: OpenStreams;
  readonly metrics: GatewayMetrics;
  readonly limits: GatewayLimits;
  readonly body: BodyPorts;
};

/** A key in the path serves programs that only take a base URL; an upstream in the path pins it. */
export const PREFIXES = ['', '/k/:key', '/u/:upstream', '/u/:upstream/k/:key', '/k/:key/u/:upstream'] as const;

type Params = { readonly key?: string; readonly upstream?: string };
/** What the content-type parser hands on: it never fails itself. */
type Received = ReceivedBody | TapedeckError;

export function registerCallRoutes(app: FastifyInstance, ports: CallRoutesPorts): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', async (request: FastifyRequest, payload: FastifyRequest['raw']): Promise<Received> => {
    try {
      return await readBody(request.headers, payload, ports.body);
    } catch (error) {
      return toTapedeckError(error);
    }
  });
  app.setValidatorCompiler(() => () => true);
  app.decorateRequest('gatewayClaims', null);
  for (const endpoint of Object.values(ENDPOINTS)) {
    for (const prefix of PREFIXES) {
      app.route({
        method: 'POST',
        url: prefix + (endpoint.base === 'v1' ? '/v1' : '') + endpoint.path,
        schema: { summary: endpoint.summary, tags: ['gateway'], hide: prefix !== '' },
        onRequest: async (request, reply) => authenticate(request, reply, endpoint, ports),
        handler: async (request, reply) => answer(request, reply, endpoint, ports),
      });
    }
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    gatewayClaims: KeyClaims | null;
  }
}

/** Leaves the claims at the request, or answers 401 without reading the body. */
async function authenticate(request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint, ports: CallRoutesPorts): Promise<void> {
  const key = keyOfRequest(request.headers, (request.params as Params).key);
  const claims = key.ok ? readKey(ports.secret, key.value, ports.serve.clock.nowMicros()) : key;
  if (claims.ok) {
    request.gatewayClaims = claims.value;
    return;
  }
  void reply.hijack();
  ports.metrics.onRefused(claims.error.code);
  refuse(outOf(reply, ports), ports.serve.dialectOf(endpoint.dialect), claims.error, {});
}

function outOf(reply: FastifyReply, { serve, streams, limits }: CallRoutesPorts): HarnessOut {
  return createOut(reply.raw, { clock: serve.clock, streams, keepAliveMs: limits.keepAliveMs, stallMs: limits.stallMs });
}

async function answer(request: FastifyRequest, reply: FastifyReply, endpoint: Endpoint, ports: CallRoutesPorts): Promise<void> {
  const { serve, metrics } = ports;
  void reply.hijack();
  const out = outOf(reply, ports);
  const dialect = serve.dialectOf(endpoint.dialect);
  const began = serve.clock.monotonicMs();
  const no = (error: unknown): void => {
    const known = toTapedeckError(error);
    if (known.code === 'internal') serve.onFault(error);
    metrics.onRefused(known.code);
    if (!reply.raw.headersSent) refuse(out, dialect, { code: known.code, message: known.message }, {});
    else out.destroy();
  };
  const received = request.body as Received | undefined;
  if (received === undefined) return no(new TapedeckError('bad_request', 'the body is empty; send a JSON object'));
  if (isTapedeckError(received)) return no(received);
  const claim = openClaim(ports.body.budget);
  let trace: TraceState | null = null;
  try {
    if (received.media !== 'json') throw new TapedeckError('unsupported_media_type', 'send the body as application/json');
    const inbound = readInbound(received.bytes, endpoint, dialect);
    const { length } = received.bytes;
    received.release(true);
    if (!inbound.ok) throw new TapedeckError(inbound.error.code, inbound.error.message);
    claim.grow(COPIES * length);
    trace = await ports.sessions.traceOf(request.gatewayClaims as KeyClaims, request.headers);
    const upstream = (request.params as Params).upstream ?? null;
    const whole = await continued(inbound.value, trace, ports.fold);
    await serveCall({ trace, inbound: whole, messages: whole.ask.messages, headers: request.headers, upstream }, out, serve);
    metrics.onCall(endpoint.dialect, reply.raw.statusCode, (serve.clock.monotonicMs() - began) / 1000);
  } catch (error) {
    no(error);
  } finally {
    received.release(true);
    claim.release();
    if (trace !== null) ports.rollouts.release(trace.rollout);
  }
}

/** A request stands in memory as its record and as values, until its call is recorded. */
const COPIES = 3;
