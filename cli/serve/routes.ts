/** What a server answers beside ingest: each route comes with the role that can carry it out. */
import type { FastifyInstance } from 'fastify';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { Registry } from 'prom-client';
import { registerHealth, type ReadyCheck } from '../../ingest/http/health.ts';
import { clickHouseRoutes } from '../../query/clickhouse/endpoint.ts';
import { auditRoutes } from '../../query/operations/audit.ts';
import { deadLetterRetryRoutes, deadLetterRoutes } from '../../query/operations/dead-letters.ts';
import { rolloutEventRoutes } from '../../query/operations/rollout-events.ts';
import { compactRoutes } from '../../query/operations/compact.ts';
import { rebuildRoutes } from '../../query/operations/rebuild.ts';
import { analyticsRoutes } from '../../query/routes/analytics.ts';
import { curveRoutes } from '../../query/routes/curves.ts';
import { graphRoutes } from '../../query/routes/graphs.ts';
import { LiveHub } from '../../query/live/live-hub.ts';
import { lineageRoutes } from '../../query/routes/lineage.ts';
import { listRoutes } from '../../query/routes/lists.ts';
import { liveRoutes } from '../../query/routes/live.ts';
import { searchRoutes } from '../../query/routes/search.ts';
import { replayRoutes } from '../../query/replay/routes.ts';
import { exportRoutes } from '../../query/routes/exports.ts';
import { tokenizerRoutes } from '../../query/routes/tokenizers.ts';
import { traceRoutes } from '../../query/routes/traces.ts';
import { sqlRoutes } from '../../query/routes/sql.ts';
import { createQuerySlots } from '../../query/sql/query-slots.ts';
import { createSqlRunner } from '../../query/sql/run-sql.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { ensureProject } from '../../store/columns/views/ensure-project.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { FeedService } from '../../trainer-feed/server/feed-service.ts';
import { feedRoutes } from '../../trainer-feed/server/routes.ts';
import { paths, type Config, type Role } from '../config.ts';
import type { Rebuild } from '../../query/operations/rebuild.ts';
import { projectOptions, type Columns } from './columns.ts';
import { openExports } from './open-exports.ts';
import type { ProjectorChild } from './projector-child.ts';
import { sqlLimits } from './sql-limits.ts';

type Parts = {
  readonly config: Config;
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly columns: Columns;
  readonly projector: ProjectorChild | null;
  readonly clock: Clock;
  readonly random: Random;
  readonly rebuild: Rebuild;
  readonly registry: Registry;
  readonly checks: readonly ReadyCheck[];
  readonly feeds: FeedService | null;
};

export async function registerRoutes(app: FastifyInstance, parts: Parts): Promise<void> {
  const { config, log, columns, projector } = parts;
  const { store } = columns;
  const has = (role: Role): boolean => config.roles.includes(role);
  if (has('query')) {
    const limits = sqlLimits(config);
    const slots = createQuerySlots(limits.concurrent);
    const ensure = async (project: string): Promise<void> => void (await ensureProject(store, project, projectOptions(config)));
    const asked = columns.asked;
    await app.register(sqlRoutes, { run: createSqlRunner({ store: asked, limits, slots, ensureProject: ensure }) });
    await app.register(clickHouseRoutes, { store: asked, limits, slots, ensureProject: ensure, clock: parts.clock, random: parts.random });
    await app.register(traceRoutes, { store });
    await app.register(analyticsRoutes, { store });
    await app.register(listRoutes, { store });
    await app.register(searchRoutes, { store });
    await app.register(graphRoutes, { store });
    await app.register(curveRoutes, { store });
    await app.register(lineageRoutes, { store });
    const hub = new LiveHub({ logs: { events: log, feeds: parts.feeds?.feeds ?? null }, clock: parts.clock });
    app.addHook('preClose', () => hub.close());
    await app.register(liveRoutes, { hub });
    await app.register(tokenizerRoutes, { blobs: parts.blobs });
    const exports = openExports({ store, log, blobs: parts.blobs, directory: paths(config).exports, clock: parts.clock });
    app.addHook('preClose', () => exports.jobs.close());
    await app.register(exportRoutes, { store, ...exports });
    await app.register(rolloutEventRoutes, { store, log, blobs: parts.blobs });
    await app.register(replayRoutes, { store, log, blobs: parts.blobs, clock: parts.clock });
    await app.register(compactRoutes, { store });
    await app.register(auditRoutes, { log, feeds: parts.feeds?.feeds ?? null, store, projector: () => projector?.state() ?? null });
    await app.register(deadLetterRoutes, { store });
  }
  if (parts.feeds !== null) await app.register(feedRoutes, { service: parts.feeds });
  if (has('projector')) await app.register(rebuildRoutes, { rebuild: parts.rebuild });
  if (has('ingest')) await app.register(deadLetterRetryRoutes, { store, log });
  // the ingest plugin brings health routes of its own
  else await app.register(async (scope) => registerHealth(scope, { clock: parts.clock, registry: parts.registry, checks: parts.checks }));
}
