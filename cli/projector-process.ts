/**
 * Entry point of the projector's own process: told by its parent what to do, tells its state, ends when the parent is gone. The topic of trainer feeds is projected beside
 * the events, as soon as somebody has opened it.
 */
import { setPriority } from 'node:os';
import { systemClock, type Clock } from '../base/clock.ts';
import { isTapedeckError } from '../base/errors.ts';
import { accountExternalMemory } from '../base/external-memory.ts';
import { systemRandom } from '../base/random.ts';
import type { Topic } from '../events/registry.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import { AfterBlock } from '../store/columns/projector/after-block.ts';
import { Projector } from '../store/columns/projector/projector.ts';
import type { ProjectorState } from '../store/columns/projector/state.ts';
import type { EventLog } from '../store/log/event-log.ts';
import type { Config } from './config.ts';
import { crashAt } from './serve/crash-points.ts';
import { projectOptions } from './serve/columns.ts';
import { openBlobs } from './serve/open-blobs.ts';
import { openLog } from './serve/open-log.ts';
import type { ProjectorMessage, ProjectorOrder } from './serve/projector-child.ts';

/** Below the edge: an acknowledgement never waits for a block (p99 506 ms beside it, 59 ms with this). */
const NICE = 10;
/** How long a block that is being stored has to be whole, and then what lags behind the blocks to be done. Nobody waits for a process to end as patiently as for it to rest. */
const FINISH_MS = { end: 15_000, rest: 120_000 };
const FLUSH_MS = { end: 20_000, rest: 120_000 };
const STATE_EVERY_MS = 100;
const FEEDS_EVERY_MS = 2_000;

accountExternalMemory();
const stop = new AbortController();
/** Ends a block half stored. */
const cut = new AbortController();
/** At rest what lags behind the blocks is done to its end too. */
let manner: 'end' | 'rest' = 'end';
process.once('SIGTERM', () => end('end'));
process.on('SIGINT', () => {}); // the terminal sends it to the whole group; the parent decides
process.once('disconnect', () => process.exit(0));
process.on('message', (order: ProjectorOrder) => {
  if (order === 'rest') return end('rest');
  run(order).then(
    () => process.exit(cut.signal.aborted ? 1 : 0),
    (error: unknown) => {
      tell({ log: `projector failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}` });
      process.exit(1);
    },
  );
});

function end(how: 'end' | 'rest'): void {
  manner = how;
  stop.abort();
  setTimeout(() => cut.abort(), FINISH_MS[how]).unref();
}

function tell(message: ProjectorMessage): void {
  process.send?.(message);
}

async function run({ config, address }: Exclude<ProjectorOrder, 'rest'>): Promise<void> {
  setPriority(NICE);
  const clock = systemClock;
  const random = systemRandom;
  const store = connectColumns({ ...address, clock, random });
  const blobs = await openBlobs(config, clock, random);
  const reached = crashAt(config.crashPoint);
  const projectTopic = async (topic: Topic, log: EventLog): Promise<void> => {
    const after = new AfterBlock({ store, topic, clock, projects: projectOptions(config), reached });
    const projector = new Projector({
      log,
      topic,
      store,
      fetchBlob: (sha256) => blobs.get(sha256),
      clock,
      random,
      blockBytes: config.blockBytes,
      blockEvents: config.blockEvents,
      blockWaitMs: config.blockWaitMs,
      after,
      reached: topic === 'events' ? reached : () => {},
      onState: topic === 'events' ? throttled((state) => tell({ state })) : throttled((feeds) => tell({ feeds })),
    });
    await projector.run(stop.signal, null, cut.signal);
    // summaries of the last blocks: nobody waits for them longer than this
    const flush = AbortSignal.timeout(FLUSH_MS[manner]);
    // the first answer may only say that work behind the last block failed
    let more = await after.idle(flush).catch(() => after.idle(flush));
    while (manner === 'rest' && more) more = await after.idle(flush);
    await log.close();
  };
  const projectFeeds = async (): Promise<void> => {
    const log = await feedsLog(config, clock);
    if (log !== null) await projectTopic('feeds', log);
  };
  await Promise.all([openLog(config, 'events', 'read', clock).then((log) => projectTopic('events', log)), projectFeeds()]);
  await blobs.close();
  await store.close();
}

/** The topic of trainer feeds; null when the process ends before anybody has made it. */
async function feedsLog(config: Config, clock: Clock): Promise<EventLog | null> {
  while (!stop.signal.aborted) {
    try {
      return await openLog(config, 'feeds', 'read', clock);
    } catch (error) {
      if (!isTapedeckError(error, 'log_unavailable')) throw error;
      await clock.sleep(FEEDS_EVERY_MS, stop.signal).catch(() => {});
    }
  }
  return null;
}

/** Tells at most every 100 ms, and always the latest. */
function throttled(say: (state: ProjectorState) => void): (state: ProjectorState) => void {
  let latest: ProjectorState | null = null;
  let waiting = false;
  return (state) => {
    latest = state;
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (latest !== null) say(latest);
    }, STATE_EVERY_MS);
  };
}
