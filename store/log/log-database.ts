/**
 * The LMDB side of the embedded log: which key a batch lies under, ranges, and commits that are durable when they resolve.
 *
 * Key: partition + 1 (u32), first offset (u64), number of records (u32), then the seal of the value: method (u8, 0 plain, 1 zstd), length before compression (u32),
 * CRC-32 of the stored bytes (u32); all big-endian. So the end of a partition and the batch that holds an offset are found by one look at a key, never by
 * reading values. The one-byte key 0 holds what the log is (JSON), written once.
 */
import { open } from 'lmdb';
import type { RootDatabase } from 'lmdb';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import type { Seal } from './batch-frame.ts';

export type BatchPlace = { readonly partition: number; readonly base: number; readonly count: number; readonly seal: Seal };
const logIdentity = z.object({ format: z.int().positive(), topic: z.string(), partitions: z.int().positive() });
/** What a log is: written once when it is created. */
export type LogIdentity = z.infer<typeof logIdentity>;

const IDENTITY_KEY = Buffer.from([0]);
const PLACE_BYTES = 16;
const KEY_BYTES = 25;
const MAX_U32 = 0xffff_ffff;
/** Address space to begin with; LMDB doubles it when the file grows beyond. */
const FIRST_MAP_BYTES = 16 * 1024 * 1024;

export type LogDatabase = {
  identity(): LogIdentity | null;
  create(identity: LogIdentity): Promise<void>;
  /** First kept offset and end of a partition, as of the last commit by any process. */
  range(partition: number): { first: number; end: number };
  /** Places of up to `limit` batches from the one that holds `from`, in order. */
  places(partition: number, from: number, limit: number): BatchPlace[];
  /** The stored bytes, valid until the next call. */
  value(place: BatchPlace): Buffer;
  /** Writes all batches in one transaction; resolves when it is on disk, rejects when nothing of it is. */
  commit(batches: readonly { place: BatchPlace; bytes: Buffer }[]): Promise<void>;
  close(): Promise<void>;
};

export function openDatabase(directory: string, mode: 'write' | 'read'): LogDatabase {
  const db: RootDatabase<Buffer, Buffer> = open({
    path: directory,
    noSubdir: false,
    keyEncoding: 'binary',
    encoding: 'binary',
    mapSize: FIRST_MAP_BYTES,
    readOnly: mode === 'read',
    // A commit is synced before its promise resolves. With batching by event-loop turn a failed commit also rejects a promise that nobody holds.
    overlappingSync: false,
    eventTurnBatching: false,
  });

  const write = async (entries: readonly (readonly [Buffer, Buffer])[]): Promise<void> => {
    try {
      // LMDB takes the bytes when it commits, not before: the values stay untouched in `entries` until then.
      await db.batch(() => {
        for (const [key, value] of entries) void db.put(key, value);
      });
    } catch (error) {
      throw await commitCause(error);
    }
  };

  return {
    identity: () => {
      const stored = db.get(IDENTITY_KEY);
      return stored === undefined ? null : parseIdentity(stored);
    },
    create: (identity) => write([[IDENTITY_KEY, Buffer.from(JSON.stringify(identity))]]),
    range: (partition) => {
      db.resetReadTxn();
      const [last] = db.getKeys({
        start: placeKey(partition, Number.MAX_SAFE_INTEGER, MAX_U32),
        end: prefixOf(partition),
        reverse: true,
        limit: 1,
      });
      if (last === undefined) return { first: 0, end: 0 };
      const [first] = db.getKeys({ start: prefixOf(partition), end: prefixOf(partition + 1), limit: 1 });
      const end = placeOf(last);
      return { first: first === undefined ? 0 : placeOf(first).base, end: end.base + end.count };
    },
    places: (partition, from, limit) => {
      const [holding] = db.getKeys({ start: placeKey(partition, from, MAX_U32), end: prefixOf(partition), reverse: true, limit: 1 });
      return [...db.getKeys({ start: holding ?? prefixOf(partition), end: prefixOf(partition + 1), limit })].map(placeOf);
    },
    value: (place) => {
      const bytes = db.getBinaryFast(keyOf(place));
      if (bytes === undefined) throw new TapedeckError('log_corrupt', 'a batch vanished between two reads', { details: { ...place } });
      // its length is that of the value; the memory behind it is larger
      return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    },
    commit: (batches) => write(batches.map(({ place, bytes }) => [keyOf(place), bytes] as const)),
    close: () => db.close(),
  };
}

function parseIdentity(stored: Buffer): LogIdentity {
  try {
    return logIdentity.parse(JSON.parse(stored.toString()));
  } catch (cause) {
    throw new TapedeckError('log_corrupt', 'the description of the log cannot be read', { cause });
  }
}

/** LMDB rejects with a general error that carries the cause as a promise; left alone that promise would end the process. */
async function commitCause(error: unknown): Promise<unknown> {
  const cause = (error as { commitError?: Promise<never> }).commitError;
  if (cause === undefined) return error;
  return cause.then(
    () => error,
    (reason: unknown) => reason,
  );
}

function prefixOf(partition: number): Buffer {
  const prefix = Buffer.allocUnsafe(4);
  prefix.writeUInt32BE(partition + 1);
  return prefix;
}

/** The first part of a key, which sorts after every key of a smaller offset. */
function placeKey(partition: number, base: number, count: number, bytes = PLACE_BYTES): Buffer {
  const key = Buffer.allocUnsafe(bytes);
  key.writeUInt32BE(partition + 1, 0);
  key.writeUInt32BE(Math.floor(base / 2 ** 32), 4);
  key.writeUInt32BE(base % 2 ** 32, 8);
  key.writeUInt32BE(count, 12);
  return key;
}

function keyOf({ partition, base, count, seal }: BatchPlace): Buffer {
  const key = placeKey(partition, base, count, KEY_BYTES);
  key[PLACE_BYTES] = seal.method === 'plain' ? 0 : 1;
  key.writeUInt32BE(seal.length, PLACE_BYTES + 1);
  key.writeUInt32BE(seal.checksum, PLACE_BYTES + 5);
  return key;
}

function placeOf(key: Buffer): BatchPlace {
  return {
    partition: key.readUInt32BE(0) - 1,
    base: key.readUInt32BE(4) * 2 ** 32 + key.readUInt32BE(8),
    count: key.readUInt32BE(12),
    seal: {
      method: key[PLACE_BYTES] === 0 ? 'plain' : 'zstd',
      length: key.readUInt32BE(PLACE_BYTES + 1),
      checksum: key.readUInt32BE(PLACE_BYTES + 5),
    },
  };
}
