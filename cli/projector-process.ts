/** Entry point of the projector's own process: told by its parent what to do, tells its state, ends when the parent is gone. */
import { setPriority } from 'node:os';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import { AfterBlock } from '../store/columns/projector/after-block.ts';
import { Projector } from '../store/columns/projector/projector.ts';
import type { ProjectorState } from '../store/columns/projector/state.ts';
import { crashAt } from './serve/crash-points.ts';
import { projectOptions } from './serve/columns.ts';
import { openBlobs } from './serve/open-blobs.ts';
import { openLog } from './serve/open-log.ts';
import type { ProjectorMessage, ProjectorOrder } from './serve/projector-child.ts';

/** Below the edge: an acknowledgement never waits for a block (p99 506 ms beside it, 59 ms with this). */
const NICE = 10;
const FLUSH_MS = 20_000;
const STATE_EVERY_MS = 100;

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
process.on('SIGINT', () => {}); // the terminal sends it to the whole group; the parent decides
process.once('disconnect', () => process.exit(0));
process.once('message', (order: ProjectorOrder) => {
  run(order).then(
    () => process.exit(0),
    (error: unknown) => {
      tell({ log: `projector failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}` });
      process.exit(1);
    },
  );
});

function tell(message: ProjectorMessage): void {
  process.send?.(message);
}

async function run({ config, address }: ProjectorOrder): Promise<void> {
  setPriority(NICE);
  const clock = systemClock;
  const random = systemRandom;
  const store = connectColumns({ ...address, clock, random });
  const blobs = await openBlobs(config, clock, random);
  const log = await openLog(config, 'events', 'read', clock);
  const reached = crashAt(config.crashPoint);
  const after = new AfterBlock({ store, topic: 'events', clock, projects: projectOptions(config), reached });
  const projector = new Projector({
    log,
    topic: 'events',
    store,
    fetchBlob: (sha256) => blobs.get(sha256),
    clock,
    random,
    blockBytes: config.blockBytes,
    blockEvents: config.blockEvents,
    blockWaitMs: config.blockWaitMs,
    after,
    reached,
    onState: throttled(),
  });
  await projector.run(stop.signal);
  // summaries of the last blocks: nobody waits for them longer than this
  const flush = AbortSignal.timeout(FLUSH_MS);
  // the first answer may only say that work behind the last block was cut off by the stop
  await after.idle(flush).catch(() => after.idle(flush));
  await log.close();
  await blobs.close();
  await store.close();
}

/** Tells at most every 100 ms, and always the latest. */
function throttled(): (state: ProjectorState) => void {
  let latest: ProjectorState | null = null;
  let waiting = false;
  return (state) => {
    latest = state;
    if (waiting) return;
    waiting = true;
    setTimeout(() => {
      waiting = false;
      if (latest !== null) tell({ state: latest });
    }, STATE_EVERY_MS);
  };
}
