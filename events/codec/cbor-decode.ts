/**
 * The strict CBOR decoder of the read and write edge. Every length is checked against the end before anything is allocated; text must be
 * UTF-8; map keys must be text and unique; only the tags of our format are known. Streams and byte strings are views of the input.
 */
import { isAscii, isUtf8 } from 'node:buffer';
import { PackedArray } from '../packed-array.ts';
import { asBuffer, cborError, cursorOver, INDEFINITE, MAJOR, MAX_BIGNUM_BYTES, MAX_DEPTH, nextChunk, readHead, TAG, takeBreak, tooDeep, type Cursor } from './cbor-head.ts'; // prettier-ignore
import { internText } from './intern.ts';
import { littleEndian, typedArrayOf } from './typed-array-tags.ts';
import { WholeFloat } from './whole-float.ts';
import { decodeWtf8 } from './wtf8.ts';

/**
 * Decodes exactly one item that fills `bytes[start, end)`. Maps become plain objects (a key `__proto__` is an own property), integers
 * numbers when safe else bigint, typed arrays `PackedArray`, byte strings `Uint8Array`. Numeric-looking keys lose their place, as in every
 * JS object: what must keep key order works on the bytes. With `wholeFloats`, floats with a whole value come as `WholeFloat`, apart from integers. Errors: `invalid_cbor`, `too_deep`, `duplicate_key`, `invalid_utf8`, each with `details.at`.
 */
export function decodeCbor(bytes: Uint8Array, start = 0, end = bytes.length, options: { wholeFloats?: boolean } = {}): unknown {
  const c = cursorOver(bytes, start, end);
  if (options.wholeFloats === true) c.wholeFloats = true;
  const value = readValue(c, 0);
  if (c.at < end) throw cborError('invalid_cbor', 'bytes follow the end of the item', c.at);
  return value;
}

function readValue(c: Cursor, depth: number): unknown {
  readHead(c);
  switch (c.major) {
    case MAJOR.uint:
      return Number.isSafeInteger(c.value) ? c.value : exactArgument(c);
    case MAJOR.negative:
      return Number.isSafeInteger(-1 - c.value) ? -1 - c.value : -1n - exactArgument(c);
    case MAJOR.bytes:
      return readBytes(c);
    case MAJOR.text:
      return readText(c);
    case MAJOR.simple:
      return readSimple(c);
    case MAJOR.tag:
      return readTagged(c);
    default:
      if (depth >= MAX_DEPTH) throw tooDeep(c, MAX_DEPTH);
      return c.major === MAJOR.map ? readMap(c, depth + 1) : readArray(c, depth + 1);
  }
}

/** The 8-byte argument of the head just read, exactly. */
function exactArgument(c: Cursor): bigint {
  return c.bytes.readBigUInt64BE(c.at - 8);
}

function readMap(c: Cursor, depth: number): Record<string, unknown> {
  const map: Record<string, unknown> = {};
  if (c.value === INDEFINITE) while (!takeBreak(c)) readEntry(c, map, depth);
  else for (let left = c.value; left > 0; left--) readEntry(c, map, depth);
  return map;
}

function readEntry(c: Cursor, map: Record<string, unknown>, depth: number): void {
  const { at } = c;
  const key = readKey(c);
  if (Object.hasOwn(map, key)) throw cborError('duplicate_key', 'a map has the same key twice', at);
  const value = readValue(c, depth);
  if (key === '__proto__') Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
  else map[key] = value;
}

function readKey(c: Cursor): string {
  const { at } = c;
  readHead(c);
  if (c.major === MAJOR.text) {
    if (c.value === INDEFINITE || c.value > 48) return readText(c);
    const key = internText(c.bytes, c.at, c.value);
    if (key === null) return readText(c);
    c.at += c.value;
    return key;
  }
  if (c.major === MAJOR.tag && c.value === TAG.wtf8) return readWtf8(c);
  throw cborError('invalid_cbor', 'map keys must be text', at);
}

function readArray(c: Cursor, depth: number): unknown[] {
  const array: unknown[] = [];
  if (c.value === INDEFINITE) while (!takeBreak(c)) array.push(readValue(c, depth));
  else for (let left = c.value; left > 0; left--) array.push(readValue(c, depth));
  return array;
}

function readText(c: Cursor): string {
  if (c.value !== INDEFINITE) return takeText(c);
  const parts: string[] = [];
  while (nextChunk(c, MAJOR.text)) parts.push(takeText(c));
  return parts.join('');
}

function takeText(c: Cursor): string {
  const { bytes, at, value: length } = c;
  c.at = at + length;
  if (length <= 24) {
    const short = internText(bytes, at, length);
    if (short !== null) return short;
  }
  const view = new Uint8Array(bytes.buffer, bytes.byteOffset + at, length);
  if (isAscii(view)) return bytes.toString('latin1', at, at + length);
  if (!isUtf8(view))
    throw cborError('invalid_utf8', 'text is not valid UTF-8: send lone surrogates under tag 273, other bytes as a byte string', at);
  return bytes.toString('utf8', at, at + length);
}

function readBytes(c: Cursor): Uint8Array {
  if (c.value !== INDEFINITE) return takeBytes(c);
  const parts: Uint8Array[] = [];
  while (nextChunk(c, MAJOR.bytes)) parts.push(takeBytes(c));
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

function takeBytes(c: Cursor): Uint8Array {
  const view = new Uint8Array(c.bytes.buffer, c.bytes.byteOffset + c.at, c.value);
  c.at += c.value;
  return view;
}

function readSimple(c: Cursor): unknown {
  const p = c.at - 1;
  switch (c.info) {
    case 20:
      return false;
    case 21:
      return true;
    case 22:
      return null;
    case 25:
      return float(c, float16(c.value));
    case 26:
      return float(c, c.bytes.readFloatBE(c.at - 4));
    case 27:
      return float(c, c.bytes.readDoubleBE(c.at - 8));
    case 23:
      throw cborError('invalid_cbor', 'undefined is no value here: send null or leave the key out', p);
    case 31:
      throw cborError('invalid_cbor', 'a break outside an indefinite-length item', p);
    default:
      throw cborError('invalid_cbor', 'simple values other than false, true and null are not supported', p);
  }
}

function float(c: Cursor, value: number): number | WholeFloat {
  return c.wholeFloats ? WholeFloat.box(value) : value;
}

/** IEEE 754 half precision (RFC 8949 appendix D). */
export function float16(half: number): number {
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  const magnitude =
    exponent === 0
      ? fraction * 2 ** -24
      : exponent === 31
        ? fraction === 0
          ? Infinity
          : NaN
        : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return half & 0x8000 ? -magnitude : magnitude;
}

function readTagged(c: Cursor): unknown {
  const tag = c.value;
  const { at } = c;
  const type = typedArrayOf(tag);
  if (type !== null) {
    const bytes = readByteString(c);
    if (bytes.length % type.width !== 0) throw cborError('invalid_cbor', `a typed array of ${type.dtype} holds ${bytes.length} bytes, not whole elements`, at); // prettier-ignore
    return new PackedArray(type.dtype, type.bigEndian ? littleEndian(bytes, type.width) : bytes);
  }
  if (tag === TAG.positiveBignum || tag === TAG.negativeBignum) return readBignum(c, tag);
  if (tag === TAG.wtf8) return readWtf8(c);
  if (tag === TAG.blob) throw cborError('invalid_cbor', 'this value lies in the blob store: put it back before decoding', at);
  throw cborError('invalid_cbor', `tag ${tag} is not supported: known are bignums (2, 3), typed arrays (64 to 86) and WTF-8 (273)`, at);
}

function readByteString(c: Cursor): Uint8Array {
  const { at } = c;
  readHead(c);
  if (c.major !== MAJOR.bytes) throw cborError('invalid_cbor', 'this tag must enclose a byte string', at);
  return readBytes(c);
}

function readBignum(c: Cursor, tag: number): number | bigint {
  const { at } = c;
  const magnitude = readByteString(c);
  if (magnitude.length > MAX_BIGNUM_BYTES) throw cborError('invalid_cbor', `an integer of ${magnitude.length} bytes is over the limit of ${MAX_BIGNUM_BYTES}: send it as text`, at); // prettier-ignore
  const n = magnitude.length === 0 ? 0n : BigInt(`0x${asBuffer(magnitude).toString('hex')}`);
  const value = tag === TAG.positiveBignum ? n : -1n - n;
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : value;
}

function readWtf8(c: Cursor): string {
  const { at } = c;
  const text = decodeWtf8(asBuffer(readByteString(c)));
  if (text === null || text.isWellFormed()) throw cborError('invalid_utf8', 'tag 273 must enclose WTF-8 that holds a lone surrogate: send other text as text', at); // prettier-ignore
  return text;
}
