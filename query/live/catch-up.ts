/** Reads the stretch of the log between where a client stands and where its channel begins. */
import { isTapedeckError } from '../../base/errors.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import { positionText, type LogPosition } from '../positions/log-position.ts';
import { ChangeSet, tell } from './change-set.ts';
import { message, type Follower } from './follower.ts';
import { decodeEvent, keysOfEvent, peek } from './live-event.ts';
import type { LiveLogs } from './live-hub.ts';
import type { LiveTopic } from './live-topic.ts';

/** Records that are read again for one client; a client that is further behind reads lists instead. */
export const MAX_CATCH_UP = 200_000;
const READ_BYTES = 1024 * 1024;
/** Events of one message. */
const MESSAGE_EVENTS = 2_000;

export type CatchUp = {
  readonly topics: ReadonlyMap<string, LiveTopic>;
  readonly from: LogPosition;
  readonly to: LogPosition;
  readonly follower: Follower;
  readonly signal: AbortSignal;
};

/** A position that this log does not have, has no longer, or that is too far back is answered with `skipped` and the reason. */
export async function catchUp(logs: LiveLogs, { topics, from, to, follower, signal }: CatchUp): Promise<void> {
  const skipped = (reason: string): void =>
    follower.write(Buffer.from(message('skipped', to, { from: positionText(from), to: positionText(to), reason })), to);
  if (!isPast(from, to)) return skipped('unknown position');
  if (distance(from, to) > MAX_CATCH_UP) return skipped('too far back');
  const changes = new Map<string, ChangeSet>();
  const at = { events: [...from.events], feeds: [...from.feeds] };
  let found = 0;
  const flush = (): void => {
    if (changes.size > 0) follower.write(Buffer.from(message('changes', at, { changes: [...changes.values()] })), { events: [...at.events], feeds: [...at.feeds] }); // prettier-ignore
    changes.clear();
    found = 0;
  };
  try {
    for (const topic of ['events', 'feeds'] as const) {
      const log = logs[topic];
      for (let partition = 0; log !== null && partition < log.partitions; partition++) {
        for await (const { values, next } of stretch(log, partition, at[topic][partition] ?? 0, to[topic][partition] ?? 0, signal)) {
          for (const value of values) found += addAll(changes, topics, value);
          at[topic][partition] = next;
          if (found < MESSAGE_EVENTS) continue;
          flush();
          await follower.drained(signal);
          if (signal.aborted) return;
        }
      }
    }
  } catch (error) {
    if (!isTapedeckError(error, 'position_out_of_range')) throw error;
    return skipped('no longer kept');
  }
  flush();
}

async function* stretch(
  log: EventLog,
  partition: number,
  from: number,
  to: number,
  signal: AbortSignal,
): AsyncGenerator<{ values: Uint8Array[]; next: number }> {
  for (let at = from; at < to;) {
    const { records, next } = await log.read(partition, at, { maxBytes: READ_BYTES, signal });
    at = Math.min(next, to);
    yield { values: records.filter((record) => record.offset < to).map((record) => record.value), next: at };
  }
}

function addAll(changes: Map<string, ChangeSet>, topics: ReadonlyMap<string, LiveTopic>, value: Uint8Array): number {
  const peeked = peek(value);
  const keys = peeked === null ? [] : keysOfEvent(peeked).filter((key) => topics.has(key));
  const event = keys.length === 0 ? null : decodeEvent(value);
  if (event === null) return 0;
  for (const key of keys) {
    const set = changes.get(key) ?? new ChangeSet(topics.get(key) as LiveTopic);
    changes.set(key, set);
    tell(set, event);
  }
  return 1;
}

/** True when both logs have these partitions and reach this far. */
function isPast(from: LogPosition, to: LogPosition): boolean {
  return (['events', 'feeds'] as const).every(
    (topic) => from[topic].length <= to[topic].length && from[topic].every((offset, partition) => offset <= (to[topic][partition] ?? -1)),
  );
}

function distance(from: LogPosition, to: LogPosition): number {
  return (['events', 'feeds'] as const).reduce(
    (sum, topic) => sum + to[topic].reduce((part, offset, partition) => part + offset - (from[topic][partition] ?? 0), 0),
    0,
  );
}
