/**
 * Puts a server together from its settings: log, blobs, column store, projector child, HTTP. The edge does not wait for the schema, and goes on accepting while
 * the column store is away: /readyz says what is waited for.
 */
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import { Lifecycle } from '../../base/lifecycle.ts';
import type { Random } from '../../base/random.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { FeedService } from '../../trainer-feed/server/feed-service.ts';
import { createIngest } from '../../ingest/http/server.ts';
import { createProducers } from '../../ingest/accept-producers.ts';
import { createTombstones } from '../../ingest/accept-tombstones.ts';
import { registerRemarks } from '../../ingest/http/remark-routes.ts';
import { primeRoutes } from '../../ingest/prime/routes.ts';
import type { ReadyCheck } from '../../ingest/http/health.ts';
import { hostInUrl, type Config } from '../config.ts';
import { openColumns, type Columns } from './columns.ts';
import { crashAfterAppend, crashAt } from './crash-points.ts';
import { createRegistry, logMetrics, projectorMetrics } from './metrics.ts';
import { openBlobs } from './open-blobs.ts';
import { openEdge, openKeys } from './open-edge.ts';
import { openFeeds } from './open-feeds.ts';
import { openGateway } from './open-gateway.ts';
import { openLog } from './open-log.ts';
import { loadProducers } from './producers.ts';
import { startProjector, type ProjectorChild } from './projector-child.ts';
import { registerRoutes } from './routes.ts';
import { rebuildWith } from './rebuild-child.ts';
import { keepRetention } from './retention.ts';
import { keepTombstones } from './tombstones.ts';

export type Server = {
  readonly url: string;
  /** Nothing had ever been recorded when it started. */
  readonly isEmpty: boolean;
  close(): Promise<void>;
};
type Deps = { readonly clock: Clock; readonly random: Random; readonly logger: Logger; readonly fatal: (error: unknown) => void };

export async function startServer(config: Config, deps: Deps): Promise<Server> {
  const life = new Lifecycle();
  try {
    const opened = await open(config, deps, life);
    return { ...opened, close: () => life.close() };
  } catch (error) {
    await life.close();
    throw error;
  }
}

async function open(config: Config, deps: Deps, life: Lifecycle): Promise<Pick<Server, 'url' | 'isEmpty'>> {
  const { clock, random, logger, fatal } = deps;
  const has = (role: Config['roles'][number]): boolean => config.roles.includes(role);
  const keys = await openKeys(config, deps, life);
  const writes = has('ingest') || has('gateway');
  const mode = writes ? 'write' : 'read';
  const log = await life.open('log', () => openLog(config, 'events', mode, clock), (l) => l.close()); // prettier-ignore
  const blobs = await life.open('blobs', () => openBlobs(config, clock, random), (b) => b.close()); // prettier-ignore
  const feeds = has('feed') ? await openFeeds(config, { log, blobs }, deps, life) : null;
  const columns = await life.open('columns', () => openColumns(config, deps), (c) => c.close()); // prettier-ignore
  const projector = has('projector') ? await openProjector(config, columns, deps, life) : null;
  columns.opened.catch(fatal);

  const registry = createRegistry();
  logMetrics(registry, log);
  if (projector !== null) projectorMetrics(registry, () => projector.state());
  const edge = crashAfterAppend(log, crashAt(config.crashPoint));
  const tombstones = createTombstones();
  const gateway = has('gateway') ? await life.open('gateway', () => openGateway(config, { log: edge, blobs, columns, tombstones, registry }, deps), (g) => g.close()) : null; // prettier-ignore
  const app = await openEdge(config, keys, deps, life);
  const checks = readyChecks(log, columns, projector, feeds);
  if (writes) {
    const producers = createProducers({ loadProducers: (signal) => loadProducers(columns.store, log, signal) });
    if (has('ingest')) {
      const routes = [primeRoutes({ store: columns.store }), registerRemarks];
      await app.register(
        createIngest({ log: edge, blobs, clock, random, limits: ingestLimits(config), producers, tombstones, registry, checks, routes }),
      );
      await life.open('retention', () => keepRetention({ columns, log, clock, random, logger }), (k) => k.close()); // prettier-ignore
    }
    if (gateway !== null) await app.register(gateway.plugin);
    await life.open('tombstones and producers', () => keepTombstones({ columns, tombstones, producers, clock, random, logger }), (k) => k.close()); // prettier-ignore
  }
  const rebuild = rebuildWith({ config, columns, projector, partitions: log.partitions });
  const isEmpty = config.log === 'embedded' && (await log.positions()).every(({ end }) => end === 0);
  await registerRoutes(app, { config, log, blobs, columns, projector, clock, random, registry, checks, rebuild, feeds });
  await app.listen({ host: config.host, port: config.port });
  const address = app.addresses()[0];
  const port = address === undefined || typeof address === 'string' ? config.port : address.port;
  return { url: `${config.tlsCert === undefined ? 'http' : 'https'}://${hostInUrl(config.host)}:${port}`, isEmpty };
}

async function openProjector(config: Config, columns: Columns, deps: Deps, life: Lifecycle): Promise<ProjectorChild> {
  return life.open('projector', () => startProjector({ config, address: columns.address }, { ...deps, after: columns.opened }), (p) => p.close()); // prettier-ignore
}

function readyChecks(log: EventLog, columns: Columns, projector: ProjectorChild | null, feeds: FeedService | null): ReadyCheck[] {
  return [
    {
      name: 'log',
      waitsFor: async (signal) => {
        await log.positions(signal);
        return null;
      },
    },
    { name: 'columns', waitsFor: (signal) => columns.waitingFor(signal) },
    ...(projector === null ? [] : [{ name: 'projector', waitsFor: () => projector.waitingFor() }]),
    ...(feeds === null ? [] : [{ name: 'feeds', waitsFor: () => (feeds.directory.loaded ? null : 'the feeds topic to be read') }]),
  ];
}

function ingestLimits(config: Config) {
  return {
    bodyBytes: config.maxBodyBytes,
    inflatedBytes: config.maxInflatedBytes,
    eventBytes: config.maxEventBytes,
    items: config.maxItems,
    valueBytes: config.inlineBytes,
    inFlightBytes: config.inFlightBytes,
    bodyMs: config.bodyTimeoutMs,
  };
}
