/**
 * How appends lie in the embedded log. Up to about 1 MiB of records become one stored value: per record u32 key length and u32 value length (little-endian), then
 * all keys, then all values; the whole compressed or not. What is needed to read it (its seal, and the number of records) is in the key under which it is
 * stored (log-database.ts).
 */
import { crc32 } from 'node:zlib';
import { TapedeckError } from '../../base/errors.ts';
import type { LogRecord } from './event-log.ts';
import { createMemoryPool } from './memory-pool.ts';
import { createZstdDecoder } from './zstd-decoder.ts';
import { createZstdEncoder } from './zstd-encoder.ts';
import type { ZstdEncoder } from './zstd-encoder.ts';

/**
 * `fast` is zstd at a strongly negative level: no entropy coding, it removes only what is cheap to remove (zero bytes of token ids, masks, repeated keys).
 * A node event of 6.5 KB takes 5.5 KB for 11 us of CPU and 4 us to read; `zstd` (level 1) 3.7 KB for 41 and 14 us. Figures: log.bench.ts.
 */
export type LogCompression = 'none' | 'fast' | 'zstd';

export type Seal = {
  readonly method: 'plain' | 'zstd';
  /** Length before compression. */
  readonly length: number;
  /** CRC-32 of the stored bytes. */
  readonly checksum: number;
};

export type EncodedBatch = {
  readonly count: number;
  readonly seal: Seal;
  readonly bytes: Buffer;
  /** Gives the memory of `bytes` back, once it is stored. */
  readonly release: () => void;
};

const LEVELS = { fast: -50, zstd: 1 } as const;
/** Below this a value takes as many 4 KiB pages compressed as plain, and the fixed cost of a compression is felt. */
const COMPRESS_FROM_BYTES = 12 * 1024;
/** A reader inflates a value whole, so appends are cut at about this size. */
const VALUE_BYTES = 1024 * 1024;
const LENGTHS_BYTES = 8;
const pool = createMemoryPool(VALUE_BYTES, 16);
/** Readers give memory back a block at a time: what two blocks of the projector hold. */
const POOLED_BODIES = 64;

export type BatchEncoder = {
  /** Cuts the records of one append into values. The bytes of the records are copied before this returns its promise. */
  encode(records: readonly LogRecord[]): Promise<EncodedBatch[]>;
  close(): void;
};

export function createBatchEncoder(compression: LogCompression): BatchEncoder {
  const zstd = compression === 'none' ? null : createZstdEncoder(LEVELS[compression]);
  return {
    encode: (records) => {
      const encoded: Promise<EncodedBatch>[] = [];
      for (let start = 0; start < records.length;) {
        let end = start;
        let bytes = 0;
        do bytes += recordBytes(records[end++] as LogRecord);
        while (end < records.length && bytes + recordBytes(records[end] as LogRecord) <= VALUE_BYTES);
        encoded.push(encodeBatch(frame(records, start, end, bytes), end - start, zstd));
        start = end;
      }
      return Promise.all(encoded);
    },
    close: () => zstd?.close(),
  };
}

/** Bytes that a record takes in a batch before compression. */
export function recordBytes(record: LogRecord): number {
  return LENGTHS_BYTES + record.key.length + record.value.length;
}

function frame(records: readonly LogRecord[], start: number, end: number, bytes: number): Buffer {
  const framed = pool.take(bytes);
  let lengths = 0;
  let keys = (end - start) * LENGTHS_BYTES;
  let values = keys;
  for (let i = start; i < end; i++) values += (records[i] as LogRecord).key.length;
  for (let i = start; i < end; i++) {
    const { key, value } = records[i] as LogRecord;
    framed.writeUInt32LE(key.length, lengths);
    framed.writeUInt32LE(value.length, lengths + 4);
    lengths += LENGTHS_BYTES;
    framed.set(key, keys);
    keys += key.length;
    framed.set(value, values);
    values += value.length;
  }
  return framed;
}

async function encodeBatch(framed: Buffer, count: number, zstd: ZstdEncoder | null): Promise<EncodedBatch> {
  const { length } = framed;
  if (zstd === null || length < COMPRESS_FROM_BYTES) return sealed(framed, count, 'plain', length);
  // Compressed values that would not be shorter do not fit.
  const packed = pool.take(length);
  const packedLength = await zstd.compress(framed, packed);
  pool.give(packedLength === null ? packed : framed);
  return packedLength === null ? sealed(framed, count, 'plain', length) : sealed(packed.subarray(0, packedLength), count, 'zstd', length);
}

function sealed(bytes: Buffer, count: number, method: Seal['method'], length: number): EncodedBatch {
  return { count, bytes, seal: { method, length, checksum: crc32(bytes) }, release: () => pool.give(bytes) };
}

export type DecodedBatch = {
  /** Keys and values are views into one buffer of their own. */
  readonly records: readonly LogRecord[];
  /** Gives the memory of the records back: nobody may touch them any more. */
  readonly release: () => void;
};

export type BatchDecoder = {
  /** The records of one stored value; its bytes are copied before this returns its promise. Rejects with `log_corrupt` when they are not what was written. */
  decode(stored: Uint8Array, count: number, seal: Seal): Promise<DecodedBatch>;
  close(): void;
};

export function createBatchDecoder(): BatchDecoder {
  const zstd = createZstdDecoder();
  const memory = createMemoryPool(VALUE_BYTES, POOLED_BODIES);

  const inflated = async (stored: Buffer, length: number): Promise<Buffer> => {
    const body = memory.take(length);
    const found = await zstd.inflate(stored, body).catch((cause: unknown) => {
      throw corrupt('it cannot be inflated', stored, cause);
    });
    if (found !== length) throw corrupt('length differs', stored);
    return body;
  };

  return {
    decode: async (stored, count, seal) => {
      const copy = memory.take(stored.length);
      copy.set(stored);
      if (crc32(copy) !== seal.checksum) throw corrupt('checksum differs', copy);
      if (seal.method === 'plain' && copy.length !== seal.length) throw corrupt('length differs', copy);
      const body = seal.method === 'plain' ? copy : await inflated(copy, seal.length);
      if (body !== copy) memory.give(copy);
      return { records: recordsIn(body, count), release: () => memory.give(body) };
    },
    close: () => zstd.close(),
  };
}

function recordsIn(body: Buffer, count: number): LogRecord[] {
  if (count * LENGTHS_BYTES > body.length) throw corrupt('length differs', body);
  let keys = count * LENGTHS_BYTES;
  let values = keys;
  for (let i = 0; i < count; i++) values += body.readUInt32LE(i * LENGTHS_BYTES);
  const records: LogRecord[] = [];
  for (let i = 0; i < count; i++) {
    const keyEnd = keys + body.readUInt32LE(i * LENGTHS_BYTES);
    const valueEnd = values + body.readUInt32LE(i * LENGTHS_BYTES + 4);
    records.push({ key: keys === keyEnd ? NO_KEY : body.subarray(keys, keyEnd), value: body.subarray(values, valueEnd) });
    keys = keyEnd;
    values = valueEnd;
  }
  if (values !== body.length) throw corrupt('length differs', body);
  return records;
}

const NO_KEY = new Uint8Array(0);

function corrupt(what: string, stored: Buffer, cause?: unknown): TapedeckError {
  return new TapedeckError('log_corrupt', `a stored batch cannot be read: ${what}`, { cause, details: { what, bytes: stored.length } });
}
