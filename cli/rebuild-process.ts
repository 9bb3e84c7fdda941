/** Entry point of a rebuild's own process: builds up to the offsets it is told, then compares or exchanges, and ends with its parent. */
import { setPriority } from 'node:os';
import { systemClock } from '../base/clock.ts';
import { isTapedeckError } from '../base/errors.ts';
import { accountExternalMemory } from '../base/external-memory.ts';
import { systemRandom } from '../base/random.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import { Rebuild } from '../store/columns/rebuild/rebuild.ts';
import { projectOptions } from './serve/columns.ts';
import { openBlobs } from './serve/open-blobs.ts';
import { openLog } from './serve/open-log.ts';
import type { RebuildOrder, RebuildReport } from './serve/rebuild-child.ts';

const NICE = 10;
accountExternalMemory();
const stop = new AbortController();
let rebuild: Promise<Rebuild> | null = null;

process.on('SIGINT', () => {}); // the parent decides
process.once('disconnect', () => process.exit(0));
process.on('message', (order: RebuildOrder) => {
  carryOut(order).catch((error: unknown) => {
    const message = error instanceof Error ? error.message : String(error);
    tell({ failed: { code: 'store_error', message } });
    console.error(error);
  });
});

function tell(report: RebuildReport): void {
  process.send?.(report);
}

async function carryOut(order: RebuildOrder): Promise<void> {
  if ('config' in order) {
    setPriority(NICE);
    rebuild = open(order);
    await rebuild;
    return;
  }
  const work = await (rebuild as Promise<Rebuild>);
  total = order.ends.events.reduce((sum, end) => sum + end, 0);
  await work.build(order.ends, stop.signal);
  if (order.next === 'compare') await compare(work);
  if (order.next === 'exchange') {
    await work.exchange(stop.signal);
    tell({ progress: { phase: 'result', equal: null, views: 0, different: 0 } });
  }
  if (order.next !== 'go on') await work.close(stop.signal);
  tell({ built: true });
}

let total = 0;

async function open({ config, address }: Extract<RebuildOrder, { config: unknown }>): Promise<Rebuild> {
  const clock = systemClock;
  const random = systemRandom;
  const blobs = await openBlobs(config, clock, random);
  return new Rebuild({
    log: await openLog(config, 'events', 'read', clock),
    feeds: await openLog(config, 'feeds', 'read', clock).catch(whereThereIsNone),
    connect: (database) => connectColumns({ ...address, database, clock, random }),
    live: projectOptions(config),
    fetchBlob: (sha256) => blobs.get(sha256),
    clock,
    random,
    blockBytes: config.blockBytes,
    blockEvents: config.blockEvents,
    onState: ({ positions }) => tell({ progress: { phase: 'building', events: positions.reduce((sum, p) => sum + p, 0), of: total } }),
  });
}

/** Nobody has made a trainer feed here. */
function whereThereIsNone(error: unknown): null {
  if (isTapedeckError(error, 'log_unavailable')) return null;
  throw error;
}

async function compare(work: Rebuild): Promise<void> {
  let views = 0;
  let different = 0;
  const equal = await work.compare((compared) => {
    views++;
    if (!compared.equal) different++;
    tell({ progress: { phase: 'comparing', compared } });
  }, stop.signal);
  tell({ progress: { phase: 'result', equal, views, different } });
}
