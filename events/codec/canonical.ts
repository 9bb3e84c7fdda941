/**
 * The canonical form of CBOR that content hashes cover: one byte string per decoded value, whatever its encoding was. Map entries are sorted
 * by the bytes of their encoded keys, containers have indefinite length (nothing is moved to make room for a count), integers and lengths are
 * shortest, whole doubles within 2^53 are integers (they decode to the same value), other floats are float64 with one NaN, typed arrays are
 * little-endian, strings are in one piece. It is for hashing only and is never stored.
 */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { decodeCbor, float16 } from './cbor-decode.ts';
import { encodeCbor, writeFloat64, writeHead } from './cbor-encode.ts';
import { cborError, INDEFINITE, MAJOR, MAX_WALK_DEPTH, nextChunk, readHead, TAG, takeBreak, tooDeep, type Cursor } from './cbor-head.ts';
import { skipItem } from './cbor-items.ts';
import { littleEndian, TAG_OF, typedArrayOf } from './typed-array-tags.ts';

/**
 * Where canonical bytes go, and scratch for sorting: `entries` holds (start, start of the value, end) of each entry of the maps that are open.
 * All of it is re-used.
 */
export type Canonical = { readonly out: ByteWriter; readonly spare: ByteWriter; readonly entries: number[] };

const BREAK = 0xff;
const COPY_BY_LOOP = 48;
const CANONICAL_NAN = Buffer.from('fb7ff8000000000000', 'hex');

/** Appends the canonical form of the item at the cursor. Errors: `invalid_cbor`, `too_deep`. Text is not checked here: the edge did. */
export function writeCanonical(c: Cursor, to: Canonical, depth: number): void {
  const { at } = c;
  readHead(c);
  switch (c.major) {
    case MAJOR.uint:
    case MAJOR.negative:
      return writeInteger(c, to.out);
    case MAJOR.bytes:
    case MAJOR.text:
      return writeString(c, c.major, to.out);
    case MAJOR.simple:
      return writeSimple(c, to.out);
    case MAJOR.tag:
      return writeTagged(c, at, to, depth);
    default:
      if (depth > MAX_WALK_DEPTH) throw tooDeep(c, MAX_WALK_DEPTH);
      if (c.major === MAJOR.array) writeArray(c, to, depth + 1);
      else writeMap(c, to, depth + 1);
  }
}

function writeInteger(c: Cursor, out: ByteWriter): void {
  if (Number.isSafeInteger(c.value)) writeHead(c.major, c.value, out);
  else out.bytes(c.bytes.subarray(c.at - 9, c.at));
}

function writeString(c: Cursor, major: number, out: ByteWriter): void {
  if (c.value !== INDEFINITE) {
    writeHead(major, c.value, out);
    return copy(c, out);
  }
  const chunks = { ...c };
  let length = 0;
  while (nextChunk(chunks, major)) {
    length += chunks.value;
    chunks.at += chunks.value;
  }
  writeHead(major, length, out);
  while (nextChunk(c, major)) copy(c, out);
}

/** The bytes of the string whose head was just read. */
function copy(c: Cursor, out: ByteWriter): void {
  const end = c.at + c.value;
  const target = out.reserve(c.value);
  out.length = copyBytes(c.bytes, c.at, end, target, out.length);
  c.at = end;
}

function writeSimple(c: Cursor, out: ByteWriter): void {
  if (c.info === 25) writeFloat(float16(c.value), out);
  else if (c.info === 26) writeFloat(c.bytes.readFloatBE(c.at - 4), out);
  else if (c.info === 27) writeFloat(c.bytes.readDoubleBE(c.at - 8), out);
  else if (c.info >= 20 && c.info <= 22) out.byte(0xe0 | c.info);
  else throw cborError('invalid_cbor', 'simple values other than false, true and null are not supported', c.at - 1);
}

function writeFloat(value: number, out: ByteWriter): void {
  if (Number.isNaN(value)) out.bytes(CANONICAL_NAN);
  else if (!Number.isSafeInteger(value) || Object.is(value, -0)) writeFloat64(value, out);
  else writeHead(value < 0 ? MAJOR.negative : MAJOR.uint, value < 0 ? -1 - value : value, out);
}

function writeArray(c: Cursor, to: Canonical, depth: number): void {
  to.out.byte((MAJOR.array << 5) | 31);
  if (c.value === INDEFINITE) while (!takeBreak(c)) writeCanonical(c, to, depth);
  else for (let left = c.value; left > 0; left--) writeCanonical(c, to, depth);
  to.out.byte(BREAK);
}

function writeMap(c: Cursor, to: Canonical, depth: number): void {
  const { out, entries } = to;
  out.byte((MAJOR.map << 5) | 31);
  const first = entries.length;
  const count = c.value;
  for (let i = 0; count === INDEFINITE ? !takeBreak(c) : i < count; i++) {
    const start = out.length;
    writeCanonical(c, to, depth);
    const valueAt = out.length;
    writeCanonical(c, to, depth);
    entries.push(start, valueAt, out.length);
  }
  sortEntries(to, first);
  out.byte(BREAK);
}

const INSERTION_UP_TO = 32;

/** Puts the entries that were recorded from `first` on, and were appended one after the other, into the order of their key bytes; forgets them. */
export function sortEntries(to: Canonical, first: number): void {
  const { entries, out, spare } = to;
  const bytes = out.reserve(0);
  let sorted = true;
  for (let i = first + 3; sorted && i < entries.length; i += 3) sorted = compareKeys(bytes, entries, i - 3, i) < 0;
  if (!sorted) {
    const from = entries[first] as number;
    const order = orderOf(bytes, entries, first);
    spare.clear();
    const moved = spare.reserve(out.length - from);
    let at = 0;
    for (const entry of order) at = copyBytes(bytes, entries[entry] as number, entries[entry + 2] as number, moved, at);
    moved.copy(bytes, from, 0, at);
  }
  entries.length = first;
}

/** The positions in `entries` of the recorded triples, by key. */
function orderOf(bytes: Buffer, entries: readonly number[], first: number): number[] {
  const order: number[] = [];
  for (let i = first; i < entries.length; i += 3) order.push(i);
  if (order.length > INSERTION_UP_TO) return order.sort((a, b) => compareKeys(bytes, entries, a, b));
  for (let i = 1; i < order.length; i++) {
    const entry = order[i] as number;
    let j = i - 1;
    for (; j >= 0 && compareKeys(bytes, entries, order[j] as number, entry) > 0; j--) order[j + 1] = order[j] as number;
    order[j + 1] = entry;
  }
  return order;
}

/** Byte order of two encoded keys; keys of other lengths differ in their heads. */
function compareKeys(bytes: Buffer, entries: readonly number[], a: number, b: number): number {
  const startA = entries[a] as number;
  const startB = entries[b] as number;
  const length = Math.min((entries[a + 1] as number) - startA, (entries[b + 1] as number) - startB);
  for (let i = 0; i < length; i++) {
    const difference = (bytes[startA + i] as number) - (bytes[startB + i] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

function copyBytes(from: Buffer, start: number, end: number, to: Buffer, at: number): number {
  if (end - start > COPY_BY_LOOP) from.copy(to, at, start, end);
  else for (let i = start; i < end; i++) to[at + i - start] = from[i] as number;
  return at + end - start;
}

function writeTagged(c: Cursor, at: number, to: Canonical, depth: number): void {
  const tag = c.value;
  const { out } = to;
  const type = typedArrayOf(tag);
  if (type !== null) {
    writeHead(MAJOR.tag, TAG_OF[type.dtype], out);
    const body = writeByteString(c, out);
    if (type.bigEndian) out.reserve(0).set(littleEndian(out.reserve(0).subarray(body, out.length), type.width), body);
  } else if (tag === TAG.positiveBignum || tag === TAG.negativeBignum) {
    skipItem(c, depth);
    encodeCbor(decodeCbor(c.bytes, at, c.at), out);
  } else if (tag === TAG.wtf8) {
    writeHead(MAJOR.tag, tag, out);
    writeByteString(c, out);
  } else if (tag === TAG.blob) {
    writeHead(MAJOR.tag, tag, out);
    writeCanonical(c, to, depth + 1);
  } else {
    throw cborError('invalid_cbor', `tag ${tag} is not supported`, at);
  }
}

/** The byte string at the cursor; the answer is where its content begins. */
function writeByteString(c: Cursor, out: ByteWriter): number {
  const { at } = c;
  readHead(c);
  if (c.major !== MAJOR.bytes) throw cborError('invalid_cbor', 'this tag must enclose a byte string', at);
  const definite = c.value;
  writeString(c, MAJOR.bytes, out);
  if (definite !== INDEFINITE) return out.length - definite;
  return out.length - (decodeCbor(c.bytes, at, c.at) as Uint8Array).length;
}
