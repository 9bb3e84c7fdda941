/**
 * Named points where a crash test may end the process with SIGKILL, chosen by TAPEDECK_CRASH_POINT=<name>:<n> (the n-th time it is reached).
 * Without the setting this is a function that does nothing.
 */
import type { EventLog } from '../../store/log/event-log.ts';
import type { FeedPoint } from '../../trainer-feed/feed/engine.ts';

export const CRASH_POINTS = [
  'after-append',
  'between-tables',
  'before-log-index',
  'after-log-index',
  'before-summaries',
  'after-summaries',
] as const;
export type CrashPoint = (typeof CRASH_POINTS)[number];
/** Where a trainer feed may end. */
export const FEED_CRASH_POINTS = [
  'feed-before-cut',
  'feed-after-cut',
  'feed-prepared',
  'feed-leased',
  'feed-committed',
  'feed-rewound',
  'feed-checkpoint',
] as const satisfies readonly FeedPoint[];
export type Reached = (point: CrashPoint | FeedPoint) => void;

export function crashAt(setting: string | undefined): Reached {
  if (setting === undefined) return () => {};
  const [name, times] = setting.split(':');
  let left = Number(times ?? 1);
  return (point) => {
    if (point !== name || --left > 0) return;
    process.kill(process.pid, 'SIGKILL');
  };
}

/** The log as the edge sees it, with the point between "durable" and "acknowledged". */
export function crashAfterAppend(log: EventLog, reached: Reached): EventLog {
  return {
    partitions: log.partitions,
    read: (partition, from, options) => log.read(partition, from, options),
    positions: (signal) => log.positions(signal),
    waitForAppend: (after, waitMs, signal) => log.waitForAppend(after, waitMs, signal),
    ...(log.onAppend === undefined ? {} : { onAppend: log.onAppend }),
    sizeBytes: () => log.sizeBytes(),
    close: () => log.close(),
    append: async (partition, records, signal) => {
      const answer = await log.append(partition, records, signal);
      reached('after-append');
      return answer;
    },
  };
}
