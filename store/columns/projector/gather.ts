/** Reads one block from the log: all partitions in turn, capped by bytes and events, in log order per partition. */
import type { EventLog, LogChunk, StoredRecord } from '../../log/event-log.ts';

export type Gathered = {
  /** By partition, in log order. */
  readonly records: readonly (readonly StoredRecord[])[];
  readonly events: number;
  readonly bytes: number;
  /** Where the next block starts, per partition. */
  readonly next: readonly number[];
  readonly ends: readonly number[];
  /** Gives the memory of the records back: nobody may touch them any more. */
  readonly release: () => void;
};

/**
 * Takes at most about `maxBytes` and `maxEvents`; each partition gets its share first, and what one leaves over goes to the others, so a busy
 * partition never starves a quiet one.
 */
export async function gather(
  log: EventLog,
  from: readonly number[],
  limits: {
    readonly maxBytes: number;
    readonly maxEvents: number;
    /** Offsets at which to stop. */ readonly until?: readonly number[] | null;
  },
  signal: AbortSignal,
): Promise<Gathered> {
  const next = [...from];
  const ends = [...from];
  const taken: StoredRecord[][] = from.map(() => []);
  const chunks: LogChunk[] = [];
  let bytes = 0;
  let events = 0;
  const stopAt = (partition: number): number => limits.until?.[partition] ?? Infinity;
  let open = from.map((_, partition) => partition).filter((partition) => (next[partition] as number) < stopAt(partition));
  while (open.length > 0 && bytes < limits.maxBytes && events < limits.maxEvents) {
    const share = Math.max(64 * 1024, Math.floor((limits.maxBytes - bytes) / open.length));
    const still: number[] = [];
    for (const partition of open) {
      if (bytes >= limits.maxBytes || events >= limits.maxEvents) break;
      const chunk = await log.read(partition, next[partition] as number, { maxBytes: share, signal });
      chunks.push(chunk);
      ends[partition] = chunk.end;
      const room = limits.maxEvents - events;
      const records = upTo(chunk.records, stopAt(partition), room);
      for (const record of records) bytes += record.value.length + record.key.length;
      events += records.length;
      (taken[partition] as StoredRecord[]).push(...records);
      const last = records.at(-1);
      const cut = records.length < chunk.records.length;
      // a gap (Kafka control records) may reach beyond where to stop
      next[partition] = cut ? (last === undefined ? stopAt(partition) : last.offset + 1) : Math.min(chunk.next, stopAt(partition));
      if ((next[partition] as number) < Math.min(chunk.end, stopAt(partition)) && records.length > 0) still.push(partition);
    }
    open = still;
  }
  const release = (): void => {
    for (const chunk of chunks) chunk.release?.();
  };
  return { records: taken, events, bytes, next, ends, release };
}

/** The first `room` records below an offset. Offsets rise. */
function upTo(records: readonly StoredRecord[], stopAt: number, room: number): readonly StoredRecord[] {
  const last = records.at(-1);
  if (last === undefined || (last.offset < stopAt && records.length <= room)) return records;
  return records.filter(({ offset }) => offset < stopAt).slice(0, room);
}
