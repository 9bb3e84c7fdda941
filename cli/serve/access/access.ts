/**
 * The check at the edge: one hook over every route, before its body is read. Without a file of keys the server is open, which is safe on loopback only, and pages of
 * browsers are kept out. With keys, every route asks for the role in `route-rules.ts` and for the project of the key.
 */
import cors from '@fastify/cors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import type { Problem, Result } from '../../../base/result.ts';
import { roleIncludes, type KeyRecord } from '../../../store/keys/key-record.ts';
import type { KeyRing } from '../../../store/keys/key-ring.ts';
import { accessOf, grantAccess, type Access } from '../../../store/keys/request-access.ts';
import { TOKEN_PREFIX } from '../../../store/keys/token.ts';
import { verifyToken } from '../../../store/keys/verify.ts';
import type { AuditTrail } from './audit-trail.ts';
import { checkHost, checkOrigin } from './browser-guard.ts';
import { checkProject, checkReach } from './check-project.ts';
import { presentedKey, withoutKeys } from './credentials.ts';
import { createRateLimit } from './rate-limit.ts';
import { ruleOf, type RouteRule } from './route-rules.ts';

export type AccessOptions = {
  readonly ring: KeyRing;
  readonly clock: Clock;
  readonly audit: AuditTrail;
  /** Requests a second for each key that has no rate of its own; 0: no limit. */
  readonly keyRate: number;
  readonly openMetrics: boolean;
  readonly allowedHosts: readonly string[];
  readonly corsOrigins: readonly string[];
  /** Told of a route that is not in the table. */
  readonly onUndecided: (route: string) => void;
};

/** Keys of the gateway begin so. */
const GATEWAY_KEY = /^sk-td-/;
const CHALLENGE = 'Bearer realm="tapedeck", Basic realm="tapedeck", charset="UTF-8"';
const UNKNOWN: RouteRule = { who: 'read', project: 'none' };

/** Adds the hooks. Call it on the root instance before any route is registered. */
export async function guardAccess(app: FastifyInstance, options: AccessOptions): Promise<void> {
  const { corsOrigins, audit } = options;
  // a closed door is no plugin at all: no header says anything, and a browser keeps answers from pages of other sites
  if (corsOrigins.length > 0) {
    const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
    await app.register(cors, { origin: [...corsOrigins], methods, credentials: false, maxAge: 600 });
  }
  const check = createCheck(options);
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) if (each !== 'OPTIONS' && ruleOf(each, url) === null) options.onUndecided(`${each} ${url}`);
  });
  app.addHook('onRequest', async (request, reply) => {
    const rule = ruleFor(request, options);
    const access = check(request, reply, rule);
    if (access === null) return;
    grantAccess(request.raw, access);
    if (rule?.who !== 'admin') return;
    await audit.admin({ key: access.key, project: access.project, ...whereOf(request) });
  });
  app.addHook('preValidation', async (request) => {
    const access = accessOf(request.raw);
    const rule = ruleFor(request, options);
    if (access !== null && rule !== null) checkProject(request, rule, access);
  });
  app.addHook('onResponse', async (request, reply) => {
    if (options.ring.keys() === null || ruleFor(request, options)?.who === 'anyone') return;
    audit.used({ key: accessOf(request.raw)?.key ?? null, ...whereOf(request), status: reply.statusCode });
  });
}

/** Null for an address that is no route: what is not there is told to those who have a key. */
function ruleFor(request: FastifyRequest, { openMetrics }: AccessOptions): RouteRule | null {
  const { url, method } = request.routeOptions;
  if (url === undefined) return UNKNOWN;
  const rule = ruleOf(Array.isArray(method) ? request.method : (method ?? request.method), url);
  return openMetrics && url === '/metrics' ? { who: 'anyone', project: 'none' } : rule;
}

/** The access that a request has; null when it needs none. Throws `unauthorized`, `forbidden`, `rate_limited`, `body_too_large`. */
function createCheck({ ring, clock, keyRate, allowedHosts, corsOrigins }: AccessOptions) {
  const rates = createRateLimit(clock);
  return (request: FastifyRequest, reply: FastifyReply, rule: RouteRule | null): Access | null => {
    const { headers } = request.raw;
    const presented = presentedKey(headers);
    const keys = ring.keys();
    if (keys === null) {
      must(checkHost(headers.host, allowedHosts));
      must(checkOrigin(headers, corsOrigins));
      // a client that is configured with a key works with an open server too
      if (presented?.token.startsWith(TOKEN_PREFIX) === true) withoutKeys(headers);
      return null;
    }
    if (rule === null) throw new TapedeckError('forbidden', 'nobody has decided who may call this route, so nobody may');
    if (rule.who === 'anyone' || rule.who === 'gateway') return null;
    if (rule.orGatewayKey === true && presented !== null && GATEWAY_KEY.test(presented.token)) return null;
    if (presented === null) throw unauthorized(reply, { code: 'unauthorized', message: NO_KEY });
    const verified = verifyToken(keys, presented.token, clock.nowMicros());
    if (!verified.ok) throw unauthorized(reply, verified.error);
    if (presented.how === 'basic') must(checkOrigin(headers, corsOrigins));
    withoutKeys(headers);
    const access = accessFor(verified.value);
    const wait = rateOf(verified.value, keyRate) === 0 ? 0 : rates.take(access.key, rateOf(verified.value, keyRate));
    if (wait > 0) throw tooMany(reply, access, wait);
    checkBodySize(headers, access);
    if (!roleIncludes(access.role, rule.who)) {
      throw new TapedeckError('forbidden', `this needs a key with the role ${rule.who}, and the key ${access.key} has ${access.role}`);
    }
    checkReach(rule, access);
    return access;
  };
}

const NO_KEY = 'this needs an API key: send it as Authorization: Bearer, as x-api-key, or as the password (tapedeck keys create makes one)';

function accessFor({ id, project, role, limits }: KeyRecord): Access {
  return { key: id, project, role, limits };
}

function rateOf({ limits }: KeyRecord, keyRate: number): number {
  if (limits.rate === undefined) return keyRate;
  return keyRate === 0 ? limits.rate : Math.min(limits.rate, keyRate);
}

/** A key with a limit on bodies must say their length, so that a body is refused before it is read. */
function checkBodySize(headers: FastifyRequest['raw']['headers'], { limits }: Access): void {
  if (limits.bodyBytes === undefined) return;
  if (headers['transfer-encoding'] !== undefined)
    throw new TapedeckError('bad_request', 'the bodies of this key are limited: send Content-Length instead of a chunked body');
  if (Number(headers['content-length'] ?? 0) <= limits.bodyBytes) return;
  throw new TapedeckError('body_too_large', `the body has more than the ${limits.bodyBytes} bytes that this key may send at once`, {
    details: { limit: limits.bodyBytes },
  });
}

function unauthorized(reply: FastifyReply, { code, message }: Problem): TapedeckError {
  void reply.header('www-authenticate', CHALLENGE);
  return new TapedeckError(code, message);
}

function tooMany(reply: FastifyReply, { key }: Access, seconds: number): TapedeckError {
  void reply.header('retry-after', String(seconds));
  return new TapedeckError('rate_limited', `the key ${key} asks more often than it may: try again in ${seconds} s`, {
    details: { retryAfterSeconds: seconds },
  });
}

function must(result: Result<null>): void {
  if (!result.ok) throw new TapedeckError(result.error.code, result.error.message);
}

function whereOf(request: FastifyRequest): { method: string; route: string; address: string } {
  return { method: request.method, route: request.routeOptions.url ?? 'none', address: request.ip };
}
