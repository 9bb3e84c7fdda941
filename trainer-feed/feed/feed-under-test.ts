/** Feeds over a real embedded log in a temporary folder, for tests. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock, type Clock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { partitionKey } from '../../events/partition-key.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import { openEmbeddedLog } from '../../store/log/embedded-log.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import { PRESET_REGISTRY, type Registry } from '../algorithms/registry.ts';
import { FEED_LIMITS, type FeedEngine, type FeedLimits } from './engine.ts';
import { ScoringUpstreams, type ScoringUpstream } from '../scoring/upstream.ts';
import { FeedDirectory } from './feed-directory.ts';
import type { Requester } from './lease.ts';

export type FeedsUnderTest = {
  readonly folder: string;
  readonly events: EventLog;
  readonly feeds: EventLog;
  readonly blobs: BlobStore;
  readonly directory: FeedDirectory;
  readonly troubles: unknown[];
  readonly engine: (feed: string) => FeedEngine;
  readonly requester: (feed: string) => Requester;
  /** Appends events, each partition in the given order. */
  readonly append: (events: readonly TapedeckEvent[]) => Promise<void>;
  /** Waits until `look` gives something; fails after ten seconds with what the feed waits for. */
  readonly until: <T>(feed: string, look: (engine: FeedEngine) => T | null | undefined | false) => Promise<T>;
  readonly close: () => Promise<void>;
};

export type TestOptions = {
  readonly folder?: string;
  readonly partitions?: number;
  readonly limits?: Partial<FeedLimits>;
  readonly clock?: Clock;
  readonly upstreams?: readonly ScoringUpstream[];
  readonly registry?: Registry;
};

export function temporaryFolder(): { readonly path: string; readonly remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'tapedeck-feeds-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }) };
}

const PATIENCE_MS = 20_000;

export async function feedsUnderTest(folder: string, options: TestOptions = {}): Promise<FeedsUnderTest> {
  const { partitions = 3, clock = systemClock } = options;
  const log = (topic: string): Promise<EventLog> =>
    openEmbeddedLog({
      directory: join(folder, 'log'),
      topic,
      partitions,
      mode: 'write',
      maxRecordBytes: 1_000_000,
      compression: 'fast',
      clock,
    });
  const [events, feeds] = await Promise.all([log('events'), log('feeds')]);
  const blobs = await openDirectoryBlobs({ directory: join(folder, 'blobs'), clock, random: systemRandom });
  const troubles: unknown[] = [];
  const directory = new FeedDirectory({
    events,
    feeds,
    blobs,
    clock,
    random: systemRandom,
    reached: () => {},
    onTrouble: (error) => troubles.push(error),
    upstreams: new ScoringUpstreams(options.upstreams ?? [], { clock, random: systemRandom, concurrency: 8, onRetry: () => {} }),
    cancel: async () => {},
    registry: options.registry ?? PRESET_REGISTRY,
    directory: join(folder, 'feeds'),
    limits: { ...FEED_LIMITS, ...options.limits },
  });
  const engine = (feed: string): FeedEngine => directory.engine({ project: 'default', feed });
  return {
    folder,
    events,
    feeds,
    blobs,
    directory,
    troubles,
    engine,
    requester: (feed) => ({ engine: engine(feed), clock, random: systemRandom }),
    append: async (list) => {
      const byPartition = new Map<number, TapedeckEvent[]>();
      for (const event of list) {
        const partition = partitionOf(partitionKey(event), partitions);
        byPartition.set(partition, [...(byPartition.get(partition) ?? []), event]);
      }
      await Promise.all(
        [...byPartition].map(([partition, part]) =>
          events.append(partition, part.map((event) => ({ key: Buffer.from(partitionKey(event)), value: encodeEvent(event) }))),
        ),
      ); // prettier-ignore
    },
    until: async (feed, look) => {
      const end = performance.now() + PATIENCE_MS;
      for (;;) {
        const found = directory.loaded ? look(engine(feed)) : null;
        if (found !== null && found !== undefined && found !== false) return found;
        if (performance.now() > end) {
          const { view, trouble } = engine(feed);
          throw new Error(`feed ${feed} did not get there: ${JSON.stringify({ view, trouble, troubles: troubles.map(String) })}`);
        }
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    close: async () => {
      await directory.close();
      await Promise.all([events.close(), feeds.close(), blobs.close()]);
    },
  };
}
