/**
 * How one append lies in the embedded log: up to about 1 MiB of records become one stored value,
 *
 *   byte 0      format (1)
 *   byte 1      0 = plain, 1 = zstd
 *   bytes 2-5   CRC-32, started with byte 1, of everything from byte 6 on, little-endian
 *   bytes 6-9   length of the body before compression, little-endian
 *   bytes 10-   body: per record u32 key length and u32 value length, then all keys, then all values
 *
 * The number of records is in the key under which the value is stored (log-database.ts).
 */
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib';
import { TapedeckError } from '../../base/errors.ts';
import type { LogRecord } from './event-log.ts';

/**
 * `fast` is zstd at a strongly negative level: no entropy coding, it removes only what is cheap to remove (zero bytes of token ids, masks, repeated keys).
 * A node event of 6.5 KB takes 5.5 KB for 11 us of CPU and 4 us to read; `zstd` (level 1) 3.7 KB for 41 and 14 us. Figures: log.bench.ts.
 */
export type LogCompression = 'none' | 'fast' | 'zstd';

const FORMAT = 1;
const HEADER_BYTES = 10;
const LEVELS = { fast: -50, zstd: 1 } as const;
/** Below this a value takes as many 4 KiB pages compressed as plain, and the fixed cost of a compression is felt. */
const COMPRESS_FROM_BYTES = 12 * 1024;
/** A reader inflates a value whole, so appends are cut at about this size. */
const VALUE_BYTES = 1024 * 1024;
const LENGTHS_BYTES = 8;

const compress = promisify(zstdCompress);
const inflate = promisify(zstdDecompress);

export type EncodedBatch = { readonly count: number; readonly bytes: Buffer };

/** Cuts the records of one append into values. The bytes of the records are copied before this returns its promise. */
export function encodeBatches(records: readonly LogRecord[], compression: LogCompression): Promise<EncodedBatch[]> {
  const encoded: Promise<EncodedBatch>[] = [];
  for (let start = 0; start < records.length;) {
    let end = start;
    let bytes = 0;
    do bytes += recordBytes(records[end++] as LogRecord);
    while (end < records.length && bytes + recordBytes(records[end] as LogRecord) <= VALUE_BYTES);
    encoded.push(encodeBatch(frame(records, start, end, bytes), end - start, compression));
    start = end;
  }
  return Promise.all(encoded);
}

/** Bytes that a record takes in a batch before compression. */
export function recordBytes(record: LogRecord): number {
  return LENGTHS_BYTES + record.key.length + record.value.length;
}

function frame(records: readonly LogRecord[], start: number, end: number, bytes: number): Buffer {
  const framed = Buffer.allocUnsafeSlow(HEADER_BYTES + bytes);
  let lengths = HEADER_BYTES;
  let keys = HEADER_BYTES + (end - start) * LENGTHS_BYTES;
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

async function encodeBatch(framed: Buffer, count: number, compression: LogCompression): Promise<EncodedBatch> {
  const body = framed.subarray(HEADER_BYTES);
  if (compression === 'none' || framed.length < COMPRESS_FROM_BYTES) return { count, bytes: seal(framed, 0, body.length) };
  const packed = await compress(body, {
    params: { [constants.ZSTD_c_compressionLevel]: LEVELS[compression] },
    pledgedSrcSize: body.length,
    chunkSize: body.length + (body.length >> 7) + 512,
  });
  if (packed.length >= body.length) return { count, bytes: seal(framed, 0, body.length) };
  const stored = Buffer.allocUnsafeSlow(HEADER_BYTES + packed.length);
  stored.set(packed, HEADER_BYTES);
  return { count, bytes: seal(stored, 1, body.length) };
}

function seal(stored: Buffer, method: number, bodyLength: number): Buffer {
  stored[0] = FORMAT;
  stored[1] = method;
  stored.writeUInt32LE(bodyLength, 6);
  stored.writeUInt32LE(crc32(stored.subarray(6), method), 2);
  return stored;
}

/**
 * The records of one stored value; keys and values are views into one buffer of their own.
 * Throws `log_corrupt` when the bytes are not what was written.
 */
export async function decodeBatch(stored: Buffer, count: number): Promise<LogRecord[]> {
  if (stored.length < HEADER_BYTES || stored[0] !== FORMAT) throw corrupt('unknown format', stored);
  if (crc32(stored.subarray(6), stored[1]) !== stored.readUInt32LE(2)) throw corrupt('checksum differs', stored);
  const bodyLength = stored.readUInt32LE(6);
  let body = stored.subarray(HEADER_BYTES);
  if (stored[1] === 1) body = await inflate(body, { maxOutputLength: bodyLength + 1, chunkSize: bodyLength + 64 });
  if (body.length !== bodyLength || count * LENGTHS_BYTES > bodyLength) throw corrupt('length differs', stored);

  let keys = count * LENGTHS_BYTES;
  let values = keys;
  for (let i = 0; i < count; i++) values += body.readUInt32LE(i * LENGTHS_BYTES);
  const records: LogRecord[] = [];
  for (let i = 0; i < count; i++) {
    const keyEnd = keys + body.readUInt32LE(i * LENGTHS_BYTES);
    const valueEnd = values + body.readUInt32LE(i * LENGTHS_BYTES + 4);
    records.push({ key: body.subarray(keys, keyEnd), value: body.subarray(values, valueEnd) });
    keys = keyEnd;
    values = valueEnd;
  }
  if (values !== bodyLength) throw corrupt('length differs', stored);
  return records;
}

function corrupt(what: string, stored: Buffer): TapedeckError {
  return new TapedeckError('log_corrupt', `a stored batch cannot be read: ${what}`, { details: { what, bytes: stored.length } });
}
