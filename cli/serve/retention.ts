/** Retention by age: appends `run.deleted` for every run older than its project allows, so that the log says so too and a rebuild agrees. */
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import type { Clock } from '../../base/clock.ts';
import type { Random } from '../../base/random.ts';
import { retry } from '../../base/retry.ts';
import { uuidV8 } from '../../base/uuid.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { EVENTS_VERSION } from '../../events/envelope.ts';
import { partitionKey } from '../../events/partition-key.ts';
import { expiredRuns, type ExpiredRun } from '../../store/columns/retention-rules.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import type { Columns } from './columns.ts';

const EVERY_MS = 600_000;

type Options = {
  readonly columns: Columns;
  readonly log: EventLog;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly everyMs?: number;
};

export function keepRetention(options: Options): { close(): Promise<void> } {
  const stop = new AbortController();
  const running = keep(options, stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) options.logger.error({ err: error }, 'retention is no longer carried out');
  });
  return {
    close: async () => {
      stop.abort();
      await running;
    },
  };
}

async function keep(options: Options, signal: AbortSignal): Promise<void> {
  const { clock, random, columns } = options;
  await columns.opened;
  for (;;) {
    await retry(() => deleteExpired(options, signal), {
      clock,
      random,
      signal,
      backoff: { firstMs: 1_000, maxMs: 60_000 },
      classify: () => (signal.aborted ? 'permanent' : 'retry'),
    });
    await clock.sleep(options.everyMs ?? EVERY_MS, signal);
  }
}

async function deleteExpired({ columns, log, clock, logger }: Options, signal: AbortSignal): Promise<void> {
  const now = clock.nowMicros();
  for (const expired of await expiredRuns(columns.store, now, signal)) {
    const event = tombstoneOf(expired, now);
    const key = partitionKey(event);
    await log.append(partitionOf(key, log.partitions), [{ key: Buffer.from(key), value: encodeEvent(event) }], signal);
    logger.info(`run ${expired.run} of project ${expired.project} is older than ${expired.days} days and was deleted`);
  }
}

/** The id is a function of the run: several processes that find the same run expired append the same event. */
export function tombstoneOf({ project, run, days }: ExpiredRun, time: number) {
  const id = uuidV8(
    createHash('sha256')
      .update(JSON.stringify(['retention', project, run]))
      .digest(),
  );
  return { v: EVENTS_VERSION, id, type: 'run.deleted', project, run, time, data: { reason: `older than ${days} days` } } as const;
}
