/** The HTTP server with its check: keys, audit trail, TLS. Refuses to start where anybody could reach it without a key. */
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import type { Lifecycle } from '../../base/lifecycle.ts';
import type { Random } from '../../base/random.ts';
import { openServer } from '../../ingest/http/server.ts';
import { openKeyRing, type KeyRing } from '../../store/keys/key-ring.ts';
import { isLoopback, paths, type Config } from '../config.ts';
import { guardAccess } from './access/access.ts';
import { openAuditTrail } from './access/audit-trail.ts';
import { openTls } from './tls.ts';

type Deps = { readonly clock: Clock; readonly random: Random; readonly logger: Logger };

/** First of all: nothing is opened where the door would stand open. */
export async function openKeys(config: Config, { clock, logger }: Deps, life: Lifecycle): Promise<KeyRing> {
  const { keys: file } = paths(config);
  const onProblem = (error: unknown): void => logger.error({ err: error }, 'the file of keys cannot be used');
  const ring = await life.open('keys', () => openKeyRing({ file, clock, onProblem }), (r) => r.close()); // prettier-ignore
  refuseOpenDoor(config, ring, file, clock);
  return ring;
}

export async function openEdge(config: Config, ring: KeyRing, deps: Deps, life: Lifecycle): Promise<FastifyInstance> {
  const { clock, random, logger } = deps;
  const { audit: auditFile } = paths(config);
  const onProblem = (error: unknown): void => logger.error({ err: error }, 'the audit trail or the certificate');
  const audit = await life.open('audit trail', () => openAuditTrail({ file: auditFile, clock, onProblem }), (a) => a.close()); // prettier-ignore
  const tls = await life.open('certificate', () => openTls(config, clock, onProblem), (t) => t?.close()); // prettier-ignore
  if (!isLoopback(config.host) && tls === null) {
    logger.warn(
      'keys and data cross the network in clear text: set TAPEDECK_TLS_CERT and TAPEDECK_TLS_KEY, or put a proxy that speaks TLS in front',
    );
  }
  const { keyRate, openMetrics, allowedHosts, corsOrigins } = config;
  const onUndecided = (route: string): void => logger.warn(`${route} has no line in route-rules.ts: with keys nobody may call it`);
  const guard = (app: FastifyInstance): Promise<void> =>
    guardAccess(app, { ring, clock, audit, keyRate, openMetrics, allowedHosts, corsOrigins, onUndecided });
  const app = await life.open(
    'http server',
    () => openServer({ clock, random, logger, guard, ...(tls === null ? {} : { tls: tls.pem }) }),
    (a) => a.close(),
  );
  tls?.follow(app.server);
  return app;
}

function refuseOpenDoor(config: Config, ring: KeyRing, file: string, clock: Clock): void {
  if (isLoopback(config.host) && !config.requireKeys) return;
  const now = clock.nowMicros() / 1e6;
  const usable = [...(ring.keys()?.values() ?? [])].filter(({ revoked, expires }) => revoked === null && (expires ?? Infinity) > now);
  if (usable.length > 0) return;
  const where = isLoopback(config.host) ? 'TAPEDECK_REQUIRE_KEYS=true' : `TAPEDECK_HOST=${config.host} can be reached from other machines`;
  throw new TapedeckError(
    'address_refused',
    `${where}, and ${file} holds no usable key: make one with "tapedeck keys create", then start again`,
  );
}
