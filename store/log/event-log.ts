/**
 * The log: partitions of byte records in order, the one source of truth. Types only; drivers: embedded-log.ts (LMDB) and kafka-log.ts.
 * What every driver promises is written as tests in contract.ts.
 */

/** One record as appended: the key chose the partition and is kept; the value is the event's original CBOR bytes. */
export type LogRecord = { readonly key: Uint8Array; readonly value: Uint8Array };

/** One record as read back. `value` may be a view into a larger buffer that stays valid as long as it is referenced. */
export type StoredRecord = LogRecord & { readonly offset: number };

export type LogChunk = {
  readonly records: readonly StoredRecord[];
  /** Where the next read continues: larger than the last record's offset; gaps (Kafka control records) are legal. */
  readonly next: number;
  /** End of the partition when this chunk was read (the offset the next append would get). */
  readonly end: number;
  /** Gives the memory of the records back, for a reader that is quick: nobody may touch keys and values after it. Who does not call it leaves them to the garbage collector. */
  readonly release?: () => void;
};

/** Is shown the records of an append at their first offset; they may be looked at only during the call. */
export type AppendListener = (partition: number, first: number, records: readonly LogRecord[]) => void;

export interface EventLog {
  /** Number of partitions: fixed at creation, refused when it differs (`partition_count_changed`). */
  readonly partitions: number;

  /**
   * Appends records to one partition, in order, and resolves only when they are durable, with the offset of each: `first + i`.
   * Concurrent appends to a partition may be joined but never interleaved. The caller must not change the bytes until it resolves.
   * Errors: `record_too_large` (nothing of the call was appended), `log_unavailable` (nothing was sent), `append_unclear` (the records may or may not be in
   * the log: send the same event ids again), `overloaded` (too many bytes wait; nothing was sent), `disk_full`, `closed`, `aborted` (it still waited;
   * nothing was sent). An empty list resolves at once.
   */
  append(partition: number, records: readonly LogRecord[], signal?: AbortSignal): Promise<{ readonly first: number }>;

  /**
   * Reads from `from` up to about `maxBytes` (always at least one record when there is one). When nothing is there it waits up to `waitMs` and is woken by the
   * append itself, also from another process; then it answers an empty chunk. `from` below the first kept record or beyond the end is `position_out_of_range`.
   */
  read(
    partition: number,
    from: number,
    options: { readonly maxBytes: number; readonly waitMs?: number; readonly signal?: AbortSignal },
  ): Promise<LogChunk>;

  /** For each partition the first kept offset and the end (offset of the next append). */
  positions(signal?: AbortSignal): Promise<readonly { readonly first: number; readonly end: number }[]>;

  /** Waits until some partition's end is beyond `after[partition]`, or `waitMs` passed. Resolves true when something is there. */
  waitForAppend(after: readonly number[], waitMs: number, signal?: AbortSignal): Promise<boolean>;

  /**
   * Only of a log whose records all pass through this object: shows every append that is durable, before it resolves, so that who looks for something rare need not read
   * back what was just written. Returns how to end it.
   */
  readonly onAppend?: (listener: AppendListener) => () => void;

  /** Bytes the log keeps on disk, or null where the driver cannot know (a broker). */
  sizeBytes(): Promise<number | null>;

  /** Pending appends settle first (or fail with `closed` at the driver's deadline); waiting reads end with an empty chunk. Idempotent. */
  close(): Promise<void>;
}
