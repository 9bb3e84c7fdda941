/**
 * What the edge must know from the store: deleted runs and the numbering of producers. Loaded as soon as the store answers, again and again until it does;
 * deleted runs are refreshed, since another process may have taken the deletion.
 */
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import type { Producers } from '../../ingest/accept-producers.ts';
import type { Tombstones } from '../../ingest/accept-tombstones.ts';
import type { Columns } from './columns.ts';

const REFRESH_MS = 5_000;

type Options = {
  readonly columns: Columns;
  readonly tombstones: Tombstones;
  readonly producers: Producers;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
};

export function keepTombstones(options: Options): { close(): Promise<void> } {
  const stop = new AbortController();
  const running = keep(options, stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) options.logger.error({ err: error }, 'deleted runs are no longer refreshed');
  });
  return {
    close: async () => {
      stop.abort();
      await running;
    },
  };
}

async function keep({ columns, tombstones, producers, clock, random }: Options, signal: AbortSignal): Promise<void> {
  const patiently = <T>(work: () => Promise<T>): Promise<T> =>
    retry(work, {
      clock,
      random,
      signal,
      backoff: { firstMs: 100, maxMs: 5_000 },
      classify: () => (signal.aborted ? 'permanent' : 'retry'),
    });
  await patiently(() => columns.opened);
  await patiently(() => producers.load(signal));
  while (!signal.aborted) {
    const rows = await patiently(() =>
      columns.store.rows<{ project: string; run: string }>('SELECT DISTINCT project, run FROM tombstones', { signal }),
    );
    for (const { project, run } of rows) tombstones.add(project, run);
    await clock.sleep(REFRESH_MS, signal);
  }
}
