/** Values to CBOR: definite lengths, shortest heads, key order kept. */
import { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { PackedArray, type Dtype } from '../packed-array.ts';
import { MAJOR, MAX_BIGNUM_BYTES, MAX_DEPTH, TAG } from './cbor-head.ts';
import { TAG_OF } from './typed-array-tags.ts';
import { WholeFloat } from './whole-float.ts';
import { encodeWtf8 } from './wtf8.ts';

/**
 * Appends one value: safe integers and bigints as CBOR integers (bignum tags beyond 64 bits), -0 and all other numbers as float64, typed
 * arrays and `PackedArray` under RFC 8746 little-endian tags, `Uint8Array` as a byte string, strings with lone surrogates under tag 273.
 * A property that is undefined is left out. Errors: `wrong_type` (a value with no CBOR form), `too_deep` (a cycle too), `number_out_of_range`.
 */
export function encodeCbor(value: unknown, out: ByteWriter): void {
  writeValue(value, out, 0);
}

/** The bytes of one event. */
export function encodeEvent(event: object): Uint8Array {
  const out = new ByteWriter(4096);
  writeValue(event, out, 0);
  return out.take();
}

function writeValue(value: unknown, out: ByteWriter, depth: number): void {
  switch (typeof value) {
    case 'string':
      return writeText(value, out);
    case 'number':
      return writeNumber(value, out);
    case 'boolean':
      return out.byte(value ? 0xf5 : 0xf4);
    case 'bigint':
      return writeBigint(value, out);
    case 'object':
      return value === null ? out.byte(0xf6) : writeObject(value, out, depth);
    default:
      throw new TapedeckError('wrong_type', `a ${typeof value} has no CBOR form`);
  }
}

function writeObject(value: object, out: ByteWriter, depth: number): void {
  if (value instanceof PackedArray) return writeTyped(value.dtype, value.bytes, out);
  if (ArrayBuffer.isView(value)) return writeView(value, out);
  if (value instanceof WholeFloat) return writeFloat64(value.value, out);
  if (depth >= MAX_DEPTH)
    throw new TapedeckError('too_deep', `maps and arrays nest deeper than ${MAX_DEPTH}: flatten the value or send it as text`);
  if (Array.isArray(value)) {
    writeHead(MAJOR.array, value.length, out);
    for (const item of value) writeValue(item, out, depth + 1);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TapedeckError(
      'wrong_type',
      `an object of class ${value.constructor.name} has no CBOR form: convert it to plain values first`,
    );
  }
  writeMap(value as Record<string, unknown>, out, depth);
}

function writeMap(map: Record<string, unknown>, out: ByteWriter, depth: number): void {
  const keys = Object.keys(map);
  let count = 0;
  for (const key of keys) if (map[key] !== undefined) count++;
  writeHead(MAJOR.map, count, out);
  for (const key of keys) {
    const value = map[key];
    if (value === undefined) continue;
    writeText(key, out);
    writeValue(value, out, depth + 1);
  }
}

function writeNumber(value: number, out: ByteWriter): void {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    if (value >= 0) writeHead(MAJOR.uint, value, out);
    else writeHead(MAJOR.negative, -1 - value, out);
  } else {
    writeFloat64(value, out);
  }
}

/** One double as 9 bytes. */
export function writeFloat64(value: number, out: ByteWriter): void {
  const buffer = out.reserve(9);
  buffer[out.length] = 0xfb;
  buffer.writeDoubleBE(value, out.length + 1);
  out.length += 9;
}

/** An integer of any size up to the limit of bignums. */
export function writeBigint(value: bigint, out: ByteWriter): void {
  const negative = value < 0n;
  const magnitude = negative ? -1n - value : value;
  if (magnitude < 1n << 64n) {
    if (magnitude <= BigInt(Number.MAX_SAFE_INTEGER)) return writeHead(negative ? MAJOR.negative : MAJOR.uint, Number(magnitude), out);
    const buffer = out.reserve(9);
    buffer[out.length] = negative ? 0x3b : 0x1b;
    buffer.writeBigUInt64BE(magnitude, out.length + 1);
    out.length += 9;
    return;
  }
  const hex = magnitude.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex');
  if (bytes.length > MAX_BIGNUM_BYTES) throw new TapedeckError('number_out_of_range', `an integer of ${bytes.length} bytes is over the limit of ${MAX_BIGNUM_BYTES}: send it as text`); // prettier-ignore
  writeHead(MAJOR.tag, negative ? TAG.negativeBignum : TAG.positiveBignum, out);
  writeHead(MAJOR.bytes, bytes.length, out);
  out.bytes(bytes);
}

/** The shortest head of a major type; `value` is a safe integer. */
export function writeHead(major: number, value: number, out: ByteWriter): void {
  const buffer = out.reserve(9);
  out.length = putHead(buffer, out.length, major, value);
}

/** Writes a head at `p` of a buffer with room for it and returns the position after it. */
export function putHead(buffer: Buffer, p: number, major: number, value: number): number {
  const type = major << 5;
  if (value < 24) {
    buffer[p] = type | value;
    return p + 1;
  }
  if (value < 0x100) {
    buffer[p] = type | 24;
    buffer[p + 1] = value;
    return p + 2;
  }
  if (value < 0x1_0000) {
    buffer[p] = type | 25;
    return buffer.writeUInt16BE(value, p + 1);
  }
  if (value < 0x1_0000_0000) {
    buffer[p] = type | 26;
    return buffer.writeUInt32BE(value, p + 1);
  }
  buffer[p] = type | 27;
  buffer.writeUInt32BE(Math.floor(value / 0x1_0000_0000), p + 1);
  return buffer.writeUInt32BE(value % 0x1_0000_0000, p + 5);
}

/** How many bytes the shortest head of `value` takes. */
export function headBytes(value: number): number {
  return value < 24 ? 1 : value < 0x100 ? 2 : value < 0x1_0000 ? 3 : value < 0x1_0000_0000 ? 5 : 9;
}

/** Text as UTF-8, or under tag 273 when it holds a lone surrogate. */
export function writeText(text: string, out: ByteWriter): void {
  if (!text.isWellFormed()) {
    const bytes = encodeWtf8(text);
    writeHead(MAJOR.tag, TAG.wtf8, out);
    writeHead(MAJOR.bytes, bytes.length, out);
    out.bytes(bytes);
    return;
  }
  // Written behind a head as for ASCII, and moved when the bytes turn out to need a longer head.
  const buffer = out.reserve(text.length * 3 + 9);
  const guess = headBytes(text.length);
  const start = out.length;
  const bytes = text.length < 16 ? putShort(text, buffer, start + guess) : buffer.write(text, start + guess, 'utf8');
  const need = headBytes(bytes);
  if (need !== guess) buffer.copyWithin(start + need, start + guess, start + guess + bytes);
  putHead(buffer, start, MAJOR.text, bytes);
  out.length = start + need + bytes;
}

function putShort(text: string, buffer: Buffer, p: number): number {
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 127) return buffer.write(text, p, 'utf8');
    buffer[p + i] = unit;
  }
  return text.length;
}

function writeTyped(dtype: Dtype, bytes: Uint8Array, out: ByteWriter): void {
  writeHead(MAJOR.tag, TAG_OF[dtype], out);
  writeHead(MAJOR.bytes, bytes.length, out);
  out.bytes(bytes);
}

const DTYPE_OF_VIEW: Readonly<Record<string, Dtype>> = {
  Uint8ClampedArray: 'u8', Uint16Array: 'u16', Uint32Array: 'u32', BigUint64Array: 'u64', Int8Array: 'i8', Int16Array: 'i16', Int32Array: 'i32',
  BigInt64Array: 'i64', Float16Array: 'f16', Float32Array: 'f32', Float64Array: 'f64',
}; // prettier-ignore

function writeView(view: ArrayBufferView, out: ByteWriter): void {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  if (view instanceof Uint8Array) {
    writeHead(MAJOR.bytes, bytes.length, out);
    out.bytes(bytes);
    return;
  }
  const dtype = DTYPE_OF_VIEW[view.constructor.name];
  if (dtype === undefined) throw new TapedeckError('wrong_type', `a ${view.constructor.name} has no CBOR form`);
  writeTyped(dtype, bytes, out);
}
