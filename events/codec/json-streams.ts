/** Token streams of JSON: an array of numbers, or base64 of the little-endian bytes, becomes one typed array. */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { DTYPES, type Dtype } from '../packed-array.ts';
import { writeHead } from './cbor-encode.ts';
import { MAJOR } from './cbor-head.ts';
import { CLOSE_ARRAY, COMMA, jsonError, nextByte, OPEN_OBJECT, unexpected, type JsonCursor } from './json-cursor.ts';
import { readDouble, readFloat32 } from './json-numbers.ts';
import { takePlainFloats, takePlainIntegers } from './json-plain-numbers.ts';
import { TAG_OF } from './typed-array-tags.ts';

/** Reads `{"$float":…}` at the cursor; given by the transcoder, which knows objects. */
export type ReadFloatObject = (c: JsonCursor) => number;

type StreamDtype = 'u8' | 'u32' | 'f32';
type StreamArray = Uint8Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
const MAKE = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array } as const;
const MAX = { u8: 0xff, u32: 0xffff_ffff } as const;
const FIRST_LENGTH = 4096;
const KEEP_UP_TO = 1 << 18;
/** Elements as they are read, re-used between calls. Arrays that grew huge are not kept. */
const kept: Record<StreamDtype, StreamArray> = {
  u8: new Uint8Array(FIRST_LENGTH),
  u32: new Uint32Array(FIRST_LENGTH),
  f32: new Float32Array(FIRST_LENGTH),
};

/** Appends the array of numbers at the cursor (on its opening bracket) as a typed array; `field` names it in errors. Errors: `wrong_type`, `number_out_of_range`. */
export function writeNumberStream(
  c: JsonCursor,
  field: string,
  dtype: StreamDtype,
  out: ByteWriter,
  readFloatObject: ReadFloatObject,
): void {
  let numbers = kept[dtype];
  let n = 0;
  c.at++;
  if (nextByte(c) === CLOSE_ARRAY) c.at++;
  else {
    for (;;) {
      if (n === numbers.length) numbers = grown(numbers, dtype);
      n = dtype === 'f32' ? takePlainFloats(c, numbers, n) : takePlainIntegers(c, numbers, n, MAX[dtype]);
      if (n === numbers.length) continue;
      // the last element, and what is not written plainly
      const first = nextByte(c);
      numbers[n++] = dtype === 'f32' ? readFloat(c, first, field, readFloatObject) : readUnsigned(c, first, field, dtype);
      const next = nextByte(c);
      if (next !== COMMA && next !== CLOSE_ARRAY) throw unexpected(c, 'a comma or the end of the array');
      c.at++;
      if (next === CLOSE_ARRAY) break;
    }
  }
  if (numbers.length <= KEEP_UP_TO) kept[dtype] = numbers;
  writeTypedBytes(dtype, new Uint8Array(numbers.buffer, 0, n * DTYPES[dtype]), out);
}

function grown(full: StreamArray, dtype: StreamDtype): StreamArray {
  const larger = new MAKE[dtype](full.length * 2);
  larger.set(full);
  return larger;
}

function readFloat(c: JsonCursor, first: number, field: string, readFloatObject: ReadFloatObject): number {
  if (isNumberStart(first)) return readFloat32(c);
  if (first === OPEN_OBJECT) return readFloatObject(c);
  throw notANumber(c, field);
}

function readUnsigned(c: JsonCursor, first: number, field: string, dtype: 'u8' | 'u32'): number {
  const { at } = c;
  const digit = first - 0x30;
  if (digit >= 0 && digit <= 9) {
    const value = shortInteger(c);
    if (value >= 0) return inRange(value, field, dtype, at);
  }
  if (isNumberStart(first)) return inRange(readDouble(c), field, dtype, at);
  if (dtype === 'u8' && takeWord(c, 'true')) return 1;
  if (dtype === 'u8' && takeWord(c, 'false')) return 0;
  throw notANumber(c, field);
}

/** A plain integer of up to nine digits, or -1 (nothing read) when the literal is anything else. */
function shortInteger(c: JsonCursor): number {
  const { bytes, at } = c;
  const limit = Math.min(c.end, at + 10);
  let value = 0;
  for (let p = at; p < limit; p++) {
    const b = bytes[p] as number;
    const digit = b - 0x30;
    if (digit < 0 || digit > 9) {
      if (b === 0x2e || (b | 0x20) === 0x65 || (bytes[at] === 0x30 && p > at + 1)) return -1;
      c.at = p;
      return value;
    }
    value = value * 10 + digit;
  }
  return -1;
}

function inRange(value: number, field: string, dtype: 'u8' | 'u32', at: number): number {
  const max = MAX[dtype];
  if (value >= 0 && value <= max && Number.isInteger(value)) return value;
  throw jsonError('number_out_of_range', `${field} holds ${dtype}: integers from 0 to ${max}`, at);
}

function isNumberStart(byte: number): boolean {
  return byte === 0x2d || (byte >= 0x30 && byte <= 0x39);
}

function takeWord(c: JsonCursor, word: string): boolean {
  if (c.at + word.length > c.end || c.bytes.toString('latin1', c.at, c.at + word.length) !== word) return false;
  c.at += word.length;
  return true;
}

/** Another JSON value is the wrong type; anything else is no JSON. */
function notANumber(c: JsonCursor, field: string): Error {
  const b = c.bytes[c.at] as number;
  if (c.at >= c.end || !'"[{tfn'.includes(String.fromCharCode(b))) return unexpected(c, 'a number');
  return jsonError('wrong_type', `${field} holds numbers only: send null for the whole stream when it is not known`, c.at);
}

/** Appends elements of `dtype` under their RFC 8746 tag. */
export function writeTypedBytes(dtype: Dtype, bytes: Uint8Array, out: ByteWriter): void {
  writeHead(MAJOR.tag, TAG_OF[dtype], out);
  writeHead(MAJOR.bytes, bytes.length, out);
  out.bytes(bytes);
}

/** Padded standard base64, strictly; null when it is not that. */
export function decodeBase64(text: string): Buffer | null {
  if (text.length % 4 !== 0 || text.includes('-') || text.includes('_')) return null;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === (text.length / 4) * 3 - padding ? bytes : null;
}

export function isStreamDtype(dtype: Dtype): dtype is StreamDtype {
  return dtype === 'u8' || dtype === 'u32' || dtype === 'f32';
}
