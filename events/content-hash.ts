import { hash } from 'node:crypto';
import { ByteWriter } from '../base/byte-writer.ts';
import { sortEntries, writeCanonical, type Canonical } from './codec/canonical.ts';
import { cborError, cursorOver, INDEFINITE, MAJOR, readHead, takeBreak, type Cursor } from './codec/cbor-head.ts';
import { writeHead } from './codec/cbor-encode.ts';

export type ContentHash = { readonly event: Uint8Array; readonly data: Uint8Array };

const FIRST_BYTES = 1 << 16;
const KEEP_BYTES = 1 << 24;
/** The canonical text of the key `data`. */
const DATA_KEY = Buffer.from('6464617461', 'hex');
let scratch: Canonical = newScratch();

function newScratch(): Canonical {
  return { out: new ByteWriter(FIRST_BYTES), spare: new ByteWriter(FIRST_BYTES), entries: [] };
}

/**
 * What an event says, in 16 bytes each (sha256, cut): `data` covers the value of `data`, `event` the whole envelope, in which the full hash
 * of `data` stands for `data`. Both are functions of the decoded value: key order and encoding do not matter, content in the blob store does
 * (hash a record after its values are back). Throws `invalid_cbor` when the slice is no map.
 */
export function contentHash(slice: Uint8Array): ContentHash {
  const { out, entries } = scratch;
  out.clear();
  entries.length = 0;
  const c = cursorOver(slice, 0, slice.length);
  readHead(c);
  if (c.major !== MAJOR.map) throw cborError('invalid_cbor', 'an event must be a map', 0);
  const data = writeEnvelope(c, scratch);
  if (c.at < c.end) throw cborError('invalid_cbor', 'bytes follow the end of the event', c.at);
  const event = digest(out, 0);
  if (out.reserve(0).length > KEEP_BYTES) scratch = newScratch();
  return { event: first16(event), data: first16(data) };
}

/** Appends the entries of the envelope in canonical order, its data as the hash that is returned. */
function writeEnvelope(c: Cursor, to: Canonical): string {
  const { out, entries } = to;
  const count = c.value;
  let data = '';
  for (let i = 0; count === INDEFINITE ? !takeBreak(c) : i < count; i++) {
    const start = out.length;
    writeCanonical(c, to, 1);
    const valueAt = out.length;
    writeCanonical(c, to, 1);
    if (isDataKey(out, start, valueAt)) {
      data = digest(out, valueAt);
      out.length = valueAt;
      writeHead(MAJOR.bytes, data.length, out);
      out.reserve(data.length).write(data, out.length, 'latin1');
      out.length += data.length;
    }
    entries.push(start, valueAt, out.length);
  }
  sortEntries(to, 0);
  return data;
}

function isDataKey(out: ByteWriter, start: number, end: number): boolean {
  return end - start === DATA_KEY.length && DATA_KEY.compare(out.reserve(0), start, end) === 0;
}

/** sha256 of what was written from `start` on, one character per byte (cheaper than a buffer). */
function digest(out: ByteWriter, start: number): string {
  const bytes = out.reserve(0);
  return hash('sha256', new Uint8Array(bytes.buffer, bytes.byteOffset + start, out.length - start), 'binary');
}

function first16(latin1: string): Uint8Array {
  const bytes = new Uint8Array(16);
  for (let i = 0; i < 16; i++) bytes[i] = latin1.charCodeAt(i);
  return bytes;
}
