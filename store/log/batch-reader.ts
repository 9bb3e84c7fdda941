/** Reads records out of stored batches, a bounded number of bytes at a time. */
import { createBatchDecoder, recordBytes } from './batch-frame.ts';
import type { LogChunk, LogRecord, StoredRecord } from './event-log.ts';
import type { BatchPlace, LogDatabase } from './log-database.ts';

export type BatchReader = {
  /** Records from `from` (at most `end`) up to about `maxBytes`, at least one when `from` < `end`. */
  read(partition: number, from: number, end: number, maxBytes: number): Promise<LogChunk>;
  /** Resolves when no read is under way any more. */
  close(): Promise<void>;
};

/** A decoded batch and how many use it: chunks that were not released, and the memory of where the next read goes on. */
type Held = { readonly base: number; readonly records: readonly LogRecord[]; users: number; readonly release: () => void };

/** Batches looked up at a time. */
const PLACES = 64;

export function createBatchReader(database: LogDatabase): BatchReader {
  /** The last batch of a partition that was read in part: the next read mostly goes on there. */
  const unfinished = new Map<number, Held>();
  const decoder = createBatchDecoder();
  const running = new Set<Promise<LogChunk>>();

  const drop = (held: Held): void => {
    if (--held.users === 0) held.release();
  };
  /** The batch, held for the caller. */
  const open = async (place: BatchPlace): Promise<Held> => {
    const held = unfinished.get(place.partition);
    if (held?.base === place.base) {
      held.users++;
      return held;
    }
    return { base: place.base, users: 1, ...(await decoder.decode(database.value(place), place.count, place.seal)) };
  };
  const goOnAt = (partition: number, held: Held | null): void => {
    const before = unfinished.get(partition);
    if (before === held) return;
    if (held === null) unfinished.delete(partition);
    else {
      held.users++;
      unfinished.set(partition, held);
    }
    if (before !== undefined) drop(before);
  };

  const read = async (partition: number, from: number, end: number, maxBytes: number): Promise<LogChunk> => {
    const found: StoredRecord[] = [];
    const used: Held[] = [];
    const chunk = (): LogChunk => {
      let isReleased = false;
      const release = (): void => {
        if (!isReleased) for (const held of used) drop(held);
        isReleased = true;
      };
      return used.length === 0 ? { records: found, next, end } : { records: found, next, end, release };
    };
    let next = from;
    let left = maxBytes;
    while (next < end) {
      const places = database.places(partition, next, PLACES);
      if (places.length === 0) break;
      for (const place of places) {
        // committed but not acknowledged yet: beyond the end that the caller knows
        if (place.base >= end) return chunk();
        const held = await open(place);
        used.push(held);
        const { records } = held;
        for (let i = Math.max(0, next - place.base); i < records.length; i++) {
          const record = records[i] as LogRecord;
          left -= recordBytes(record);
          if (left < 0 && found.length > 0) {
            goOnAt(partition, held);
            return chunk();
          }
          found.push({ offset: place.base + i, key: record.key, value: record.value });
          next = place.base + i + 1;
        }
        goOnAt(partition, null);
      }
    }
    return chunk();
  };

  return {
    read: (partition, from, end, maxBytes) => {
      const reading = read(partition, from, end, maxBytes);
      const done = reading.finally(() => running.delete(done));
      done.catch(() => {});
      running.add(done);
      return reading;
    },
    close: async () => {
      await Promise.allSettled(running);
      decoder.close();
    },
  };
}
