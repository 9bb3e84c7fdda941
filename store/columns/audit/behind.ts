/** How far the tables are behind the log: one small question, for whoever waits until an answer holds everything that was accepted. */
import type { Topic } from '../../../events/registry.ts';
import type { EventLog } from '../../log/event-log.ts';
import type { ColumnStore } from '../column-store.ts';
import { storePartition } from '../projections/position.ts';
import { storedPositions } from '../stored-positions.ts';

export type BehindReport = {
  /** Events of the log that are in no table yet. */
  readonly notStored: number;
  readonly partitions: readonly BehindPartition[];
};
/** `end` is the offset of the next append, `stored` that of the next event to be stored; `stored` = `end` when nothing is missing. */
export type BehindPartition = { readonly topic: Topic; readonly partition: number; readonly end: number; readonly stored: number };

/** The log is read first: what is appended meanwhile is not asked for. */
export async function readBehind(
  logs: readonly { readonly topic: Topic; readonly log: EventLog }[],
  store: ColumnStore,
  signal: AbortSignal,
): Promise<BehindReport> {
  const bounds = await Promise.all(logs.map(({ log }) => log.positions(signal)));
  const positions = await storedPositions(store, { signal });
  const partitions = logs.flatMap(({ topic }, i) =>
    (bounds[i] ?? []).map(({ first, end }, partition) => {
      const stored = Math.max(first, positions.get(storePartition(topic, partition)) ?? 0);
      return { topic, partition, end, stored };
    }),
  );
  return { notStored: partitions.reduce((sum, { end, stored }) => sum + Math.max(0, end - stored), 0), partitions };
}
