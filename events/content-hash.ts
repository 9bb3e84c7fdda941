import { hash } from 'node:crypto';
import { ByteWriter } from '../base/byte-writer.ts';
import { addCanonical } from './codec/canonical.ts';
import { cborError, cursorOver, INDEFINITE, MAJOR, readHead, takeBreak, type Cursor } from './codec/cbor-head.ts';
import { writeHead } from './codec/cbor-encode.ts';
import { PieceList } from './codec/piece-list.ts';

/** Each 32 hexadecimal digits. */
export type ContentHash = { readonly event: string; readonly data: string };

const KEEP_BYTES = 1 << 24;
const HEX_CHARS = 32;
/** The encoded key `data`. */
const DATA_KEY = Buffer.from('6464617461', 'hex');
/** Re-used between calls. */
let pieces = new PieceList();
let gathered = new ByteWriter(1 << 16);

/**
 * What an event says, in 16 bytes each (sha256, cut), as hexadecimal text: `data` covers the value of `data`, `event` the whole envelope, in which the full hash
 * of `data` stands for `data`. Both are functions of the decoded value: key order and encoding do not matter, content in the blob store does
 * (hash a record after its values are back). Throws `invalid_cbor` when the slice is no map.
 */
export function contentHash(slice: Uint8Array): ContentHash {
  const c = cursorOver(slice, 0, slice.length);
  pieces.reset(c.bytes);
  readHead(c);
  if (c.major !== MAJOR.map) throw cborError('invalid_cbor', 'an event must be a map', 0);
  const data = addEnvelope(c, pieces);
  if (c.at < c.end) throw cborError('invalid_cbor', 'bytes follow the end of the event', c.at);
  const event = digest(0);
  if (gathered.reserve(0).length + pieces.heldBytes > KEEP_BYTES) {
    pieces = new PieceList();
    gathered = new ByteWriter(1 << 16);
  }
  return { event: event.slice(0, HEX_CHARS), data: data.slice(0, HEX_CHARS) };
}

/** Adds the entries of the envelope in canonical order, its data as the hash that is returned. */
function addEnvelope(c: Cursor, to: PieceList): string {
  const count = c.value;
  const map = to.openMap();
  let data = '';
  for (let i = 0; count === INDEFINITE ? !takeBreak(c) : i < count; i++) {
    to.openEntry();
    const key = to.count;
    addCanonical(c, to, 1);
    to.endKey();
    if (!to.equals(key, DATA_KEY)) {
      addCanonical(c, to, 1);
      continue;
    }
    to.close();
    const value = to.count;
    addCanonical(c, to, 1);
    data = digest(value);
    to.cut(value);
    const size = data.length / 2;
    to.literal((scratch) => {
      writeHead(MAJOR.bytes, size, scratch);
      scratch.reserve(size).write(data, scratch.length, 'hex');
      scratch.length += size;
    });
  }
  to.closeMap(map);
  return data;
}

/** sha256 of the pieces from `mark` on in hexadecimal text, which is cheaper than a buffer and is what it is compared as. */
function digest(mark: number): string {
  gathered.clear();
  pieces.gather(mark, gathered);
  const bytes = gathered.reserve(0);
  return hash('sha256', new Uint8Array(bytes.buffer, bytes.byteOffset, gathered.length), 'hex');
}
