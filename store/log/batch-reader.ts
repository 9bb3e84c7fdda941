/** Reads records out of stored batches, a bounded number of bytes at a time. */
import { decodeBatch, recordBytes } from './batch-frame.ts';
import type { LogChunk, LogRecord, StoredRecord } from './event-log.ts';
import type { BatchPlace, LogDatabase } from './log-database.ts';

export type BatchReader = {
  /** Records from `from` (at most `end`) up to about `maxBytes`, at least one when `from` < `end`. */
  read(partition: number, from: number, end: number, maxBytes: number): Promise<LogChunk>;
  /** Resolves when no read is under way. */
  idle(): Promise<void>;
};

/** Batches looked up at a time. */
const PLACES = 64;

export function createBatchReader(database: LogDatabase): BatchReader {
  /** The last batch of a partition that was read in part: the next read mostly goes on there. */
  const unfinished = new Map<number, { base: number; records: readonly LogRecord[] }>();
  const running = new Set<Promise<LogChunk>>();

  const recordsOf = async (place: BatchPlace): Promise<readonly LogRecord[]> => {
    const held = unfinished.get(place.partition);
    return held?.base === place.base ? held.records : decodeBatch(database.value(place), place.count, place.seal);
  };

  const read = async (partition: number, from: number, end: number, maxBytes: number): Promise<LogChunk> => {
    const found: StoredRecord[] = [];
    let next = from;
    let left = maxBytes;
    while (next < end) {
      const places = database.places(partition, next, PLACES);
      if (places.length === 0) break;
      for (const place of places) {
        // committed but not acknowledged yet: beyond the end that the caller knows
        if (place.base >= end) return { records: found, next, end };
        const records = await recordsOf(place);
        unfinished.delete(partition);
        for (let i = Math.max(0, next - place.base); i < records.length; i++) {
          const record = records[i] as LogRecord;
          left -= recordBytes(record);
          if (left < 0 && found.length > 0) {
            unfinished.set(partition, { base: place.base, records });
            return { records: found, next, end };
          }
          found.push({ offset: place.base + i, key: record.key, value: record.value });
          next = place.base + i + 1;
        }
      }
    }
    return { records: found, next, end };
  };

  return {
    read: (partition, from, end, maxBytes) => {
      const reading = read(partition, from, end, maxBytes);
      const done = reading.finally(() => running.delete(done));
      done.catch(() => {});
      running.add(done);
      return reading;
    },
    idle: async () => {
      await Promise.allSettled(running);
    },
  };
}
