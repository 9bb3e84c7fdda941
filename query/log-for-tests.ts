/** A real embedded log, the real projector and the real engine in one process: what is appended is stored when `project` resolves. */
import { join } from 'node:path';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { uuidV7 } from '../base/uuid.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { partitionKey } from '../events/partition-key.ts';
import type { Topic } from '../events/registry.ts';
import { migrate } from '../migrations/migrate.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { AfterBlock } from '../store/columns/projector/after-block.ts';
import { Projector } from '../store/columns/projector/projector.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import type { EventLog } from '../store/log/event-log.ts';
import { partitionOf } from '../store/log/partitioner.ts';
import { startTestEngine } from './engine-for-tests.ts';
import { DATABASE, type Draft } from './events-for-tests.ts';

export type TestWorld = {
  readonly store: ColumnStore;
  readonly log: EventLog;
  readonly feeds: EventLog;
  /** Appends to the log only; answers the events with their ids. */
  append(drafts: readonly Draft[], topic?: Topic): Promise<readonly (Draft & { id: string })[]>;
  /** Stores what was appended. Without summaries they stay behind, as they do for a second in a server. */
  project(options?: { readonly summaries?: boolean }): Promise<void>;
  /** Both. */
  write(drafts: readonly Draft[], topic?: Topic): Promise<readonly (Draft & { id: string })[]>;
  close(): Promise<void>;
};

const PROJECTS = { database: DATABASE, cluster: null };
const STARTED = 1_700_000_000_000_000;

export async function openTestWorld(partitions = 3): Promise<TestWorld> {
  const engine = await startTestEngine(DATABASE);
  const { store } = engine;
  await migrate(store, { ...PROJECTS, clock: systemClock });
  const open = (topic: Topic): Promise<EventLog> =>
    openEmbeddedLog({
      directory: join(engine.directory, `log-${topic}`),
      topic,
      partitions,
      mode: 'write',
      maxRecordBytes: 1 << 20,
      compression: 'none',
      clock: systemClock,
    });
  const logs = { events: await open('events'), feeds: await open('feeds') };
  const behind = (topic: Topic): AfterBlock => new AfterBlock({ store, topic, clock: systemClock, projects: PROJECTS });
  let time = STARTED;

  const append: TestWorld['append'] = async (drafts, topic = 'events') => {
    const events = drafts.map((draft) => ({ v: 1, id: uuidV7(systemClock, systemRandom), time: time++, ...draft }));
    for (const event of events) {
      const key = partitionKey(event, topic);
      const log = logs[topic];
      await log.append(partitionOf(key, log.partitions), [{ key: Buffer.from(key), value: encodeEvent(event) }]);
    }
    return events;
  };
  const project: TestWorld['project'] = async ({ summaries = true } = {}) => {
    for (const topic of ['events', 'feeds'] as const) {
      const after = behind(topic);
      const ends = (await logs[topic].positions()).map(({ end }) => end);
      const lazy = {
        prepare: (events: Parameters<AfterBlock['prepare']>[0]) => after.prepare(events),
        run: async () => {},
        idle: async () => false,
      };
      await new Projector({
        log: logs[topic], topic, store, fetchBlob: async () => new Uint8Array(), clock: systemClock, random: systemRandom, blockBytes: 8 << 20, blockEvents: 10_000,
        blockWaitMs: 0, after: summaries ? after : lazy,
      }).run(AbortSignal.timeout(120_000), ends); // prettier-ignore
      while (summaries && (await after.idle(AbortSignal.timeout(60_000)))); // prettier-ignore
    }
  };
  return {
    store,
    log: logs.events,
    feeds: logs.feeds,
    append,
    project,
    write: async (drafts, topic) => {
      const events = await append(drafts, topic);
      await project();
      return events;
    },
    close: async () => {
      await logs.events.close();
      await logs.feeds.close();
      await engine.close();
    },
  };
}
