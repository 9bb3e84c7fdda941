/** The trainer feeds that the settings name: their topic, their folder, and the algorithms this server knows. */
import { join, resolve } from 'node:path';
import type { Lifecycle } from '../../base/lifecycle.ts';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import type { Logger } from 'pino';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { loadRegistry } from '../../trainer-feed/algorithms/custom-modules.ts';
import { PRESET_REGISTRY } from '../../trainer-feed/algorithms/registry.ts';
import { FeedService } from '../../trainer-feed/server/feed-service.ts';
import { paths, type Config } from '../config.ts';
import { crashAt } from './crash-points.ts';
import { configuredUpstreams } from './open-gateway.ts';
import { openLog } from './open-log.ts';

type Parts = { readonly log: EventLog; readonly blobs: BlobStore };
type Deps = { readonly clock: Clock; readonly random: Random; readonly logger: Logger };

/** Opens the feeds topic for writing, and everything that is in it. */
export async function openFeeds(
  config: Config,
  { log, blobs }: Parts,
  { clock, random, logger }: Deps,
  life: Lifecycle,
): Promise<FeedService> {
  const registry = await loadRegistry(PRESET_REGISTRY, config.feedAlgorithms.map((path) => resolve(path))); // prettier-ignore
  const feeds = await life.open('feeds log', () => openLog(config, 'feeds', 'write', clock), (l) => l.close()); // prettier-ignore
  return life.open(
    'feeds',
    () =>
      new FeedService({
        events: log,
        feeds,
        blobs,
        clock,
        random,
        registry,
        directory: join(paths(config).feeds),
        sliceBytes: config.feedSliceBytes,
        upstreams: configuredUpstreams(config),
        scoringRequests: config.feedScoringRequests,
        reached: crashAt(config.crashPoint),
        onTrouble: (error, feed) => logger.error({ err: error, feed }, 'a trainer feed had trouble and tries again'),
      }),
    (service) => service.close(),
  );
}
