/**
 * The format of a spool segment, without I/O. A file is the 8 bytes "TDSPOOL1" and records one after another, all numbers little-endian:
 *
 *   0   4  "TDr1"
 *   4   4  CRC-32 of everything that follows in the record
 *   8   4  length of the payload
 *   12  8  seq: number of the event; of a mark, the number that comes next
 *   20  8  settled: every number below it has its final answer from the server
 *   28     the payload: the event as CBOR, as it is sent; empty for a mark, which only says what is settled
 *
 * A reader believes nothing but records whose checksum holds. What does not is damage: it looks for the next record from there on, byte by byte, so that a torn
 * tail or a bad block costs only what it hit.
 */
import { asBuffer } from '../../events/codec/cbor-head.ts';
import { crc32 } from './crc32.ts';

export const SEGMENT_HEAD: Uint8Array = Buffer.from('TDSPOOL1', 'latin1');
export const RECORD_HEAD_BYTES = 28;
const MAGIC = Buffer.from('TDr1', 'latin1');

export type SpoolRecord = { readonly seq: number; readonly settled: number; readonly payload: Uint8Array };
/** Bytes that hold no readable record. At the end of a file that is what a kill in the middle of a write leaves. */
export type Damage = { readonly at: number; readonly bytes: number; readonly isEnd: boolean };
export type SegmentContent = { readonly records: readonly SpoolRecord[]; readonly damage: readonly Damage[] };

/** The head of a record over `payload`, which follows it in the file. */
export function recordHead(seq: number, settled: number, payload: Uint8Array): Buffer {
  const head = Buffer.allocUnsafe(RECORD_HEAD_BYTES);
  head.set(MAGIC, 0);
  head.writeUInt32LE(payload.length, 8);
  putNumber(head, 12, seq);
  putNumber(head, 20, settled);
  head.writeUInt32LE(crc32(payload, crc32(head.subarray(8))), 4);
  return head;
}

/** Payloads are views of `file`. */
export function readSegment(file: Uint8Array): SegmentContent {
  const bytes = asBuffer(file);
  const records: SpoolRecord[] = [];
  const damage: Damage[] = [];
  let at = bytes.subarray(0, SEGMENT_HEAD.length).equals(SEGMENT_HEAD) ? SEGMENT_HEAD.length : 0;
  while (at < bytes.length) {
    const record = recordAt(bytes, at);
    if (record !== null) {
      records.push(record);
      at += RECORD_HEAD_BYTES + record.payload.length;
      continue;
    }
    const next = nextRecord(bytes, at + 1);
    damage.push({ at, bytes: next - at, isEnd: next === bytes.length });
    at = next;
  }
  return { records, damage };
}

function recordAt(bytes: Buffer, at: number): SpoolRecord | null {
  if (bytes.length - at < RECORD_HEAD_BYTES || bytes.compare(MAGIC, 0, MAGIC.length, at, at + MAGIC.length) !== 0) return null;
  const length = bytes.readUInt32LE(at + 8);
  const start = at + RECORD_HEAD_BYTES;
  if (length > bytes.length - start) return null;
  const payload = bytes.subarray(start, start + length);
  if (crc32(payload, crc32(bytes.subarray(at + 8, start))) !== bytes.readUInt32LE(at + 4)) return null;
  return { seq: numberAt(bytes, at + 12), settled: numberAt(bytes, at + 20), payload };
}

/** Where the next record begins that can be believed, or the end. */
function nextRecord(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(MAGIC, from); at >= 0; at = bytes.indexOf(MAGIC, at + 1)) if (recordAt(bytes, at) !== null) return at;
  return bytes.length;
}

function putNumber(buffer: Buffer, at: number, value: number): void {
  buffer.writeUInt32LE(value % 0x1_0000_0000, at);
  buffer.writeUInt32LE(Math.floor(value / 0x1_0000_0000), at + 4);
}

function numberAt(buffer: Buffer, at: number): number {
  return buffer.readUInt32LE(at) + buffer.readUInt32LE(at + 4) * 0x1_0000_0000;
}
