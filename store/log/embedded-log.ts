/**
 * The log on one machine: LMDB in `<directory>/<topic>`, one writing process (writer-lock.ts), any number of reading ones, woken by the append
 * (wake-socket.ts). An append is one durable commit that it shares with those that arrive meanwhile (group-commit.ts).
 */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { Lifecycle } from '../../base/lifecycle.ts';
import { createBatchEncoder, recordBytes } from './batch-frame.ts';
import type { BatchEncoder, LogCompression } from './batch-frame.ts';
import { createBatchReader } from './batch-reader.ts';
import { diskError } from './disk-errors.ts';
import type { AppendListener, EventLog, LogRecord } from './event-log.ts';
import { createGroupCommit } from './group-commit.ts';
import type { GroupCommit, PlacedBatch } from './group-commit.ts';
import { openDatabase } from './log-database.ts';
import type { LogDatabase } from './log-database.ts';
import { dataFile, freeBytes, hasLog, prepareDirectory } from './log-directory.ts';
import { checkPartition, checkRecordSizes } from './record-checks.ts';
import { followWakes, serveWakes } from './wake-socket.ts';
import { createWakeUps } from './wake-ups.ts';
import { takeWriterLock } from './writer-lock.ts';

export type EmbeddedLogOptions = {
  readonly directory: string;
  /** Letters, digits, dot, dash and underscore: the name of a folder and of a Kafka topic alike. */
  readonly topic: string;
  /** Fixed when the log is created. */
  readonly partitions: number;
  readonly mode: 'write' | 'read';
  /** Key and value of one record together. */
  readonly maxRecordBytes: number;
  readonly compression: LogCompression;
  /** Bytes of appends that may wait for the disk at a time; more are `overloaded`. Default 64 MiB. */
  readonly maxPendingBytes?: number;
  readonly clock: Clock;
};

const FORMAT = 1;
const DEFAULT_PENDING_BYTES = 64 * 1024 * 1024;
/** Room that a commit needs beside the values, for the pages of the tree. */
const COMMIT_SLACK_BYTES = 256 * 1024;

/**
 * Opens the log; in `write` mode it is created when it is not there. Throws `log_locked` (another writer), `partition_count_changed`, `not_writable`,
 * `disk_full`, `log_corrupt`, `schema_unknown` (a newer format), and in `read` mode `log_unavailable` while no log is there.
 */
export async function openEmbeddedLog(options: EmbeddedLogOptions): Promise<EventLog> {
  if (!/^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/.test(options.topic)) throw new RangeError(`not a name for a topic: ${options.topic}`);
  if (!Number.isInteger(options.partitions) || options.partitions < 1) throw new RangeError('partitions must be a positive integer');
  const directory = join(options.directory, options.topic);
  const life = new Lifecycle();
  if (options.mode === 'write') {
    const lockFile = await prepareDirectory(directory);
    await life.open(
      'writer lock',
      () => takeWriterLock(lockFile),
      (release) => release(),
    );
  }
  const exists = await life.open(
    'log file',
    () => hasLog(directory),
    () => {},
  );
  if (!exists && options.mode === 'read') {
    throw new TapedeckError('log_unavailable', `there is no log in ${directory} yet: start its writer first`, { details: { directory } });
  }
  const database = await life.open(
    'log database',
    () => openChecked(directory, options),
    (opened) => opened.close(),
  );
  return options.mode === 'write' ? openWriter(database, directory, options, life) : openReader(database, directory, options, life);
}

async function openChecked(directory: string, options: EmbeddedLogOptions): Promise<LogDatabase> {
  const { topic, partitions, mode } = options;
  let database: LogDatabase;
  try {
    database = openDatabase(directory, mode);
  } catch (error) {
    throw diskError(error, directory);
  }
  try {
    const identity = database.identity();
    if (identity === null) {
      if (mode === 'read')
        throw new TapedeckError('log_unavailable', `the log in ${directory} is being created`, { details: { directory } });
      await database.create({ format: FORMAT, topic, partitions }).catch((error: unknown) => {
        throw diskError(error, directory);
      });
    } else if (identity.format > FORMAT) {
      throw new TapedeckError('schema_unknown', `the log in ${directory} has format ${identity.format}, this program knows ${FORMAT}`, {
        details: { found: identity.format, known: FORMAT },
      });
    } else if (identity.partitions !== partitions) {
      throw new TapedeckError(
        'partition_count_changed',
        `the log in ${directory} has ${identity.partitions} partitions and ${partitions} are configured: set them back, the number cannot change`,
        { details: { found: identity.partitions, configured: partitions } },
      );
    }
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function openWriter(database: LogDatabase, directory: string, options: EmbeddedLogOptions, life: Lifecycle): Promise<EventLog> {
  const wakeServer = await life.open(
    'wake socket',
    () => serveWakes(directory),
    (server) => server.close(),
  );
  const firsts = Array.from({ length: options.partitions }, (_, partition) => database.range(partition).first);
  const ends = firsts.map((_, partition) => database.range(partition).end);
  const commit = guardedCommit(database, directory);
  const wakeUps = createWakeUps(options.clock);
  const encoder = await life.open(
    'batch encoder',
    () => createBatchEncoder(options.compression),
    (opened) => opened.close(),
  );
  const queue = await life.open(
    'append queue',
    () =>
      createGroupCommit({
        ends,
        maxPendingBytes: options.maxPendingBytes ?? DEFAULT_PENDING_BYTES,
        commit,
        onCommitted: () => {
          wakeUps.wake();
          wakeServer.notify();
        },
      }),
    (opened) => opened.close(),
  );
  return assemble({
    database,
    directory,
    options,
    life,
    wakeUps,
    range: (partition) => ({ first: firsts[partition] as number, end: ends[partition] as number }),
    writing: { queue, encoder },
  });
}

async function openReader(database: LogDatabase, directory: string, options: EmbeddedLogOptions, life: Lifecycle): Promise<EventLog> {
  const wakeUps = createWakeUps(options.clock);
  await life.open(
    'wake socket',
    () => followWakes(directory, options.clock, () => wakeUps.wake()),
    (follower) => follower.close(),
  );
  return assemble({ database, directory, options, life, wakeUps, range: (partition) => database.range(partition), writing: null });
}

function assemble(parts: {
  database: LogDatabase;
  directory: string;
  options: EmbeddedLogOptions;
  life: Lifecycle;
  wakeUps: ReturnType<typeof createWakeUps>;
  range: (partition: number) => { first: number; end: number };
  writing: { readonly queue: GroupCommit; readonly encoder: BatchEncoder } | null;
}): EventLog {
  const { options, range, wakeUps, writing } = parts;
  const reader = createBatchReader(parts.database);
  let closing: Promise<void> | null = null;
  const checkOpen = (): void => {
    if (closing !== null) throw new TapedeckError('closed', 'the log is closed');
  };
  const listeners = new Set<AppendListener>();
  const onAppend = (listener: AppendListener): (() => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const allPartitions = Array.from({ length: options.partitions }, (_, partition) => partition);

  return {
    partitions: options.partitions,
    append: async (partition, records, signal) => {
      checkOpen();
      checkPartition(partition, options.partitions);
      if (writing === null) throw new TapedeckError('log_locked', 'this process opened the log for reading only');
      if (records.length === 0) return { first: range(partition).end };
      checkRecordSizes(records, options.maxRecordBytes);
      const bytes = records.reduce((sum, record: LogRecord) => sum + recordBytes(record), 0);
      const first = await writing.queue.append(partition, bytes, () => writing.encoder.encode(records), signal);
      for (const listener of listeners) listener(partition, first, records);
      return { first };
    },
    ...(writing === null ? {} : { onAppend }),
    read: async (partition, from, { maxBytes, waitMs = 0, signal }) => {
      checkOpen();
      checkPartition(partition, options.partitions);
      const { first, end } = range(partition);
      if (!(from >= first && from <= end)) {
        throw new TapedeckError('position_out_of_range', `partition ${partition} holds ${first} to ${end}, asked for ${from}`, {
          details: { partition, from, first, end },
        });
      }
      await wakeUps.until(() => range(partition).end > from, waitMs, signal);
      return closing === null ? reader.read(partition, from, range(partition).end, maxBytes) : { records: [], next: from, end };
    },
    positions: async () => {
      checkOpen();
      return allPartitions.map(range);
    },
    waitForAppend: async (after, waitMs, signal) => {
      checkOpen();
      return wakeUps.until(() => allPartitions.some((partition) => range(partition).end > (after[partition] ?? 0)), waitMs, signal);
    },
    sizeBytes: async () => (await stat(dataFile(parts.directory))).size,
    close: () => {
      if (closing === null) {
        wakeUps.close();
        closing = reader.close().then(() => parts.life.close());
      }
      return closing;
    },
  };
}

/**
 * Commits, and says by name when the disk is full. LMDB reports that as an input/output error and prints it, so the free space is looked at before it comes
 * to that: seldom while there is plenty, at every commit when there is little.
 */
function guardedCommit(database: LogDatabase, directory: string): (batches: readonly PlacedBatch[]) => Promise<void> {
  /** Bytes that may be written before the next look. */
  let allowance = 0;
  const look = async (needed: number, cause?: unknown): Promise<void> => {
    const free = await freeBytes(directory);
    allowance = free / 2;
    if (free < needed) throw diskError(Object.assign(new Error('no space left', { cause }), { code: 'ENOSPC' }), directory);
  };
  return async (batches) => {
    const needed = COMMIT_SLACK_BYTES + batches.reduce((sum, { bytes }) => sum + bytes.length, 0);
    if (allowance < needed) await look(needed);
    allowance -= needed;
    try {
      await database.commit(batches);
    } catch (error) {
      await look(needed, error);
      throw diskError(error, directory);
    }
  };
}
