/** CBOR to exact JSON text, key order kept: the bytes of a log record as people and JSON clients read them. */
import { isUtf8 } from 'node:buffer';
import type { ByteWriter } from '../../base/byte-writer.ts';
import { TapedeckError } from '../../base/errors.ts';
import { isMap } from '../fields.ts';
import { PackedArray } from '../packed-array.ts';
import { decodeCbor } from './cbor-decode.ts';
import { asBuffer, cborError, cursorOver, INDEFINITE, MAJOR, MAX_DEPTH, readHead, takeBreak, tooDeep, type Cursor } from './cbor-head.ts'; // prettier-ignore
import { skipItem } from './cbor-items.ts';
import { writeQuoted } from './json-quote.ts';
import { childPlace, ESCAPE_KEY, EVENT_PLACE, hasKeys, type Place } from './stream-places.ts';

/**
 * Appends the JSON text (UTF-8) of the one item in `cbor[start, end)`. With `streams` (the default) the value is an event and its token
 * streams are plain base64 of the little-endian bytes; typed arrays elsewhere are `{"$array":…}`, byte strings `{"$bytes":…}`, NaN and the
 * infinities `{"$float":…}`. A float always has a point or an exponent, so that it is read back as a float. Errors: those of `decodeCbor`.
 */
export function cborToJson(cbor: Uint8Array, start: number, end: number, out: ByteWriter, options: { streams?: boolean } = {}): void {
  const c = cursorOver(cbor, start, end);
  writeValue(c, out, 0, options.streams === false ? null : EVENT_PLACE);
  if (c.at < end) throw cborError('invalid_cbor', 'bytes follow the end of the item', c.at);
}

function writeValue(c: Cursor, out: ByteWriter, depth: number, place: Place | null): void {
  const { at } = c;
  readHead(c);
  switch (c.major) {
    case MAJOR.text:
      if (c.value !== INDEFINITE) return writeText(c, out);
      break;
    case MAJOR.array:
    case MAJOR.map:
      if (depth >= MAX_DEPTH) throw tooDeep(c, MAX_DEPTH);
      return c.major === MAJOR.map ? writeMap(c, out, depth + 1, place) : writeArray(c, out, depth + 1);
    case MAJOR.simple:
      if (c.info >= 25 && c.info <= 27) return ascii(floatText(decodeCbor(c.bytes, at, c.at) as number), out);
      break;
  }
  // The rest is rare or short: decoded as a value, strictly, and written from there.
  c.at = at;
  skipItem(c, depth);
  writeDecoded(decodeCbor(c.bytes, at, c.at), out, place);
}

function writeDecoded(value: unknown, out: ByteWriter, place: Place | null): void {
  if (value instanceof PackedArray && place !== null && place.dtype === value.dtype) ascii(`"${base64(value.bytes)}"`, out);
  else if (typeof value === 'string') out.utf8(JSON.stringify(value));
  else ascii(toJson(value), out);
}

function writeArray(c: Cursor, out: ByteWriter, depth: number): void {
  out.byte(0x5b);
  const count = c.value;
  for (let i = 0; count === INDEFINITE ? !takeBreak(c) : i < count; i++) {
    if (i > 0) out.byte(0x2c);
    writeValue(c, out, depth, null);
  }
  out.byte(0x5d);
}

function writeMap(c: Cursor, out: ByteWriter, depth: number, place: Place | null): void {
  const inner = hasKeys(place) ? place : null;
  out.byte(0x7b);
  const count = c.value;
  for (let i = 0; count === INDEFINITE ? !takeBreak(c) : i < count; i++) {
    if (i > 0) out.byte(0x2c);
    const key = writeKey(c, out, i === 0, count, inner !== null);
    out.byte(0x3a);
    writeValue(c, out, depth, inner === null ? null : childPlace(inner, key));
  }
  out.byte(0x7d);
}

/** Writes one key; the answer is its text where that was needed (`wanted`, or because it may look like an escape), else null. */
function writeKey(c: Cursor, out: ByteWriter, first: boolean, count: number, wanted: boolean): string | null {
  const { at } = c;
  readHead(c);
  if (c.major === MAJOR.text && c.value !== INDEFINITE && !wanted && !(first && c.bytes[c.at] === 0x24)) {
    writeText(c, out);
    return null;
  }
  c.at = at;
  skipItem(c, 1);
  const key = decodeCbor(c.bytes, at, c.at);
  if (typeof key !== 'string') throw cborError('invalid_cbor', 'map keys must be text', at);
  const escaped = first && ESCAPE_KEY.test(key) && isOnlyEntry(c, count);
  out.utf8(JSON.stringify(escaped ? `$${key}` : key));
  return key;
}

/** Whether the value at the cursor is the last of its map. */
function isOnlyEntry(c: Cursor, count: number): boolean {
  if (count !== INDEFINITE) return count === 1;
  const ahead = { ...c };
  skipItem(ahead, 1);
  return takeBreak(ahead);
}

function writeText(c: Cursor, out: ByteWriter): void {
  const { bytes, at, value: length } = c;
  const view = new Uint8Array(bytes.buffer, bytes.byteOffset + at, length);
  if (length > 0 && !isUtf8(view)) throw cborError('invalid_utf8', 'text is not valid UTF-8', at);
  writeQuoted(bytes, at, at + length, out);
  c.at = at + length;
}

/** A decoded value as JSON text, in the form of `cborToJson` with `streams: false` (whole floats cannot be told from integers). */
export function toJson(value: unknown): string {
  return jsonOf(value, 0);
}

function jsonOf(value: unknown, depth: number): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'number') return Number.isSafeInteger(value) && !Object.is(value, -0) ? String(value) : floatText(value);
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (value === null) return 'null';
  if (value instanceof PackedArray) return `{"$array":{"dtype":"${value.dtype}","data":"${base64(value.bytes)}"}}`;
  if (value instanceof Uint8Array) return `{"$bytes":"${base64(value)}"}`;
  if (depth >= MAX_DEPTH) throw new TapedeckError('too_deep', `maps and arrays nest deeper than ${MAX_DEPTH}`);
  if (Array.isArray(value)) return `[${value.map((item) => jsonOf(item, depth + 1)).join(',')}]`;
  if (!isMap(value)) throw new TapedeckError('wrong_type', `a ${typeof value} has no JSON form`);
  const entries = Object.entries(value).filter(([, v]) => v !== undefined);
  const escaped = entries.length === 1 && ESCAPE_KEY.test((entries[0] as [string, unknown])[0]);
  return `{${entries.map(([key, v]) => `${JSON.stringify(escaped ? `$${key}` : key)}:${jsonOf(v, depth + 1)}`).join(',')}}`;
}

/** A double in the shortest text that reads back as the same double, never in the form of an integer. */
function floatText(value: number): string {
  if (!Number.isFinite(value)) return `{"$float":"${value}"}`;
  if (Object.is(value, -0)) return '-0.0';
  const text = String(value);
  return Number.isInteger(value) && !text.includes('e') ? `${text}.0` : text;
}

function base64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('base64');
}

function ascii(text: string, out: ByteWriter): void {
  out.reserve(text.length).write(text, out.length, 'latin1');
  out.length += text.length;
}
