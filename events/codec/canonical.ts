/**
 * The canonical form of CBOR that content hashes cover: one byte string per decoded value, whatever its encoding was. It is the deterministic
 * encoding of RFC 8949 section 4.2.1 (shortest heads, definite lengths, map entries in the byte order of their keys) with two choices of ours:
 * whole doubles within 2^53 are integers (they decode to the same value), all other floats are float64 with one NaN; typed arrays are
 * little-endian. It is for hashing only and is never stored.
 *
 * Most bytes of an event are canonical already. So the walk collects pieces, ranges of the source or of a small scratch, sorts maps by moving
 * pieces, and copies bytes once, at the end.
 */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { decodeCbor, float16 } from './cbor-decode.ts';
import { encodeCbor, headBytes, writeFloat64, writeHead } from './cbor-encode.ts';
import {
  cborError,
  cursorOver,
  INDEFINITE,
  MAJOR,
  MAX_WALK_DEPTH,
  nextChunk,
  readHead,
  TAG,
  takeBreak,
  tooDeep,
  type Cursor,
} from './cbor-head.ts';
import { skipBody, skipItem } from './cbor-items.ts';
import type { PieceList } from './piece-list.ts';
import { TAG_OF, typedArrayOf } from './typed-array-tags.ts';

const CANONICAL_NAN = Buffer.from('fb7ff8000000000000', 'hex');

/** Appends the pieces of the item at the cursor. Errors: `invalid_cbor`, `too_deep`. Text is not checked here: the edge did. */
export function addCanonical(c: Cursor, to: PieceList, depth: number): void {
  const { at } = c;
  readHead(c);
  switch (c.major) {
    case MAJOR.uint:
    case MAJOR.negative:
      return Number.isSafeInteger(c.value) ? addHead(c, at, to) : to.keep(at, c.at);
    case MAJOR.bytes:
    case MAJOR.text:
      return addString(c, at, to);
    case MAJOR.simple:
      return addSimple(c, at, to);
    case MAJOR.tag:
      return addTagged(c, at, to, depth);
    default:
      if (depth > MAX_WALK_DEPTH) throw tooDeep(c, MAX_WALK_DEPTH);
      if (c.major === MAJOR.array) addArray(c, at, to, depth + 1);
      else addMap(c, at, to, depth + 1);
  }
}

function isShortest(c: Cursor, at: number): boolean {
  return c.at - at === headBytes(c.value);
}

/** The head that was just read, which began at `at`. */
function addHead(c: Cursor, at: number, to: PieceList): void {
  if (isShortest(c, at)) to.keep(at, c.at);
  else to.literal((scratch) => writeHead(c.major, c.value, scratch));
}

/** A string is one contiguous piece, so that keys can be compared. */
function addString(c: Cursor, at: number, to: PieceList): void {
  const asItIs = c.value !== INDEFINITE && isShortest(c, at);
  skipBody(c, 1);
  if (asItIs) to.keep(at, c.at);
  else to.literal((scratch) => encodeString(c.bytes, at, c.at, scratch));
}

/** The string in `bytes[start, end)` with one shortest head; its content is copied as bytes, whatever they are. */
function encodeString(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  const c = cursorOver(bytes, start, end);
  readHead(c);
  const { major, value, at } = c;
  if (value !== INDEFINITE) {
    writeHead(major, value, out);
    return appendRange(bytes, at, at + value, out);
  }
  let length = 0;
  for (; nextChunk(c, major); c.at += c.value) length += c.value;
  writeHead(major, length, out);
  for (c.at = at; nextChunk(c, major); c.at += c.value) appendRange(bytes, c.at, c.at + c.value, out);
}

function appendRange(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  bytes.copy(out.reserve(end - start), out.length, start, end);
  out.length += end - start;
}

function addSimple(c: Cursor, at: number, to: PieceList): void {
  if (c.info >= 20 && c.info <= 22) return to.keep(at, c.at);
  if (c.info === 25) return addFloat(float16(c.value), c, at, to);
  if (c.info === 26) return addFloat(c.bytes.readFloatBE(c.at - 4), c, at, to);
  if (c.info === 27) return addFloat(c.bytes.readDoubleBE(c.at - 8), c, at, to);
  throw cborError('invalid_cbor', 'simple values other than false, true and null are not supported', at);
}

function addFloat(value: number, c: Cursor, at: number, to: PieceList): void {
  if (Number.isNaN(value)) return to.literal((scratch) => scratch.bytes(CANONICAL_NAN));
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) return to.literal((scratch) => encodeCbor(value, scratch));
  if (c.info === 27) to.keep(at, c.at);
  else to.literal((scratch) => writeFloat64(value, scratch));
}

function addArray(c: Cursor, at: number, to: PieceList, depth: number): void {
  if (c.value === INDEFINITE) {
    const head = to.placeholder();
    let count = 0;
    for (; !takeBreak(c); count++) addCanonical(c, to, depth);
    to.fill(head, (scratch) => writeHead(MAJOR.array, count, scratch));
    return;
  }
  let left = c.value;
  addHead(c, at, to);
  for (; left > 0; left--) addCanonical(c, to, depth);
}

function addMap(c: Cursor, at: number, to: PieceList, depth: number): void {
  const indefinite = c.value === INDEFINITE;
  const count = c.value;
  const head = indefinite ? to.placeholder() : -1;
  if (!indefinite) addHead(c, at, to);
  const map = to.openMap();
  let entries = 0;
  for (; indefinite ? !takeBreak(c) : entries < count; entries++) {
    to.openEntry();
    addCanonical(c, to, depth);
    to.endKey();
    addCanonical(c, to, depth);
  }
  to.closeMap(map);
  if (indefinite) to.fill(head, (scratch) => writeHead(MAJOR.map, entries, scratch));
}

function addTagged(c: Cursor, at: number, to: PieceList, depth: number): void {
  const tag = c.value;
  if (tag === TAG.blob) {
    addHead(c, at, to);
    return addCanonical(c, to, depth + 1);
  }
  const type = typedArrayOf(tag);
  if (type === null && tag !== TAG.wtf8 && tag !== TAG.positiveBignum && tag !== TAG.negativeBignum) {
    throw cborError('invalid_cbor', `tag ${tag} is not supported`, at);
  }
  const isBignum = tag === TAG.positiveBignum || tag === TAG.negativeBignum;
  const shortestTag = isShortest(c, at) && !isBignum && (type === null || tag === TAG_OF[type.dtype]);
  const inner = c.at;
  readHead(c);
  if (c.major !== MAJOR.bytes) throw cborError('invalid_cbor', 'this tag must enclose a byte string', inner);
  const asItIs = shortestTag && c.value !== INDEFINITE && isShortest(c, inner);
  c.at = inner;
  skipItem(c, depth);
  if (asItIs) to.keep(at, c.at);
  else to.literal((scratch) => encodeCbor(decodeCbor(c.bytes, at, c.at), scratch));
}
