/**
 * JSON events to CBOR in one pass over the bytes. Never by way of JSON.parse: key order, repeated keys, integers beyond 2^53, -0 and lone
 * surrogates must survive. Containers of 24 and more entries get indefinite length, so that no byte is ever moved to make room for a count.
 */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { writeFloat64, writeHead, writeText } from './cbor-encode.ts';
import { decodeCbor } from './cbor-decode.ts';
import { asBuffer, MAJOR, MAX_DEPTH } from './cbor-head.ts';
import { internText } from './intern.ts';
import { CLOSE_ARRAY, CLOSE_OBJECT, COLON, endsHere, expect, jsonError, nextByte, OPEN_ARRAY, OPEN_OBJECT, QUOTE, unexpected, type JsonCursor } from './json-cursor.ts'; // prettier-ignore
import { writeJsonNumber } from './json-numbers.ts';
import { decodeEscape, isEscapeKey } from './json-escapes.ts';
import { decodeBase64, isStreamDtype, writeNumberStream, writeTypedBytes } from './json-streams.ts';
import { writeJsonString } from './json-strings.ts';
import { KeySet } from './key-set.ts';
import { childPlace, EVENT_PLACE, hasKeys, type Place } from './stream-places.ts';
import { firstInvalidUtf8 } from './utf8.ts';
import { DTYPES, type Dtype } from '../packed-array.ts';

/** The text being read and where its CBOR goes. */
type Transcoder = JsonCursor & { readonly out: ByteWriter; readonly keys: KeySet; readonly foreign: boolean };

/**
 * Appends the CBOR of the one JSON value in `json[start, end)` to `out`; after an error `out` is as before. With `streams` (the default)
 * the value is an event, and the fields named in stream-places.ts become typed arrays. `foreign` text was not written for us: the words NaN, Infinity
 * and -Infinity, which Python writes, are floats, keys with `$` are keys like any other, and nothing becomes a typed array. Errors: `invalid_json`, `invalid_utf8`,
 * `duplicate_key`, `too_deep`, `number_out_of_range`, `wrong_type`, each with `details.at`.
 */
export function jsonToCbor(
  json: Uint8Array,
  start: number,
  end: number,
  out: ByteWriter,
  options: { streams?: boolean; foreign?: boolean } = {},
): void {
  const bytes = asBuffer(json);
  const bad = firstInvalidUtf8(bytes, start, end);
  if (bad >= 0) throw jsonError('invalid_utf8', 'the text is not valid UTF-8', bad);
  const before = out.length;
  const t: Transcoder = { bytes, at: start, end, out, keys: new KeySet(out), foreign: options.foreign === true };
  try {
    writeValue(t, 0, options.streams === false || t.foreign ? null : EVENT_PLACE);
    if (nextByte(t) !== -1) throw jsonError('invalid_json', 'text follows the end of the value', t.at);
  } catch (error) {
    out.length = before;
    throw error;
  }
}

function writeValue(t: Transcoder, depth: number, place: Place | null): void {
  const first = nextByte(t);
  if (place !== null && place.dtype !== null && (first === OPEN_ARRAY || first === QUOTE))
    return writeStream(t, depth, place, place.dtype, first);
  switch (first) {
    case QUOTE:
      return writeJsonString(t, t.out);
    case OPEN_OBJECT:
      return writeObject(t, depth, place);
    case OPEN_ARRAY:
      return writeArray(t, depth);
    case 0x74:
      return writeWord(t, 'true', 0xf5);
    case 0x66:
      return writeWord(t, 'false', 0xf4);
    case 0x6e:
      return writeWord(t, 'null', 0xf6);
    default:
      if (t.foreign && writeNonFinite(t, first)) return;
      if (first !== 0x2d && (first < 0x30 || first > 0x39)) throw unexpected(t, 'a value');
      return writeJsonNumber(t, t.out);
  }
}

/** A float that JSON has no word for, as Python writes it; false when it is something else. */
function writeNonFinite(t: Transcoder, first: number): boolean {
  const negative = first === 0x2d && t.bytes[t.at + 1] === 0x49;
  if (first !== 0x4e && first !== 0x49 && !negative) return false;
  const word = first === 0x4e ? 'NaN' : negative ? '-Infinity' : 'Infinity';
  if (t.at + word.length > t.end || t.bytes.toString('latin1', t.at, t.at + word.length) !== word) throw unexpected(t, 'a value');
  t.at += word.length;
  writeFloat64(Number(word), t.out);
  return true;
}

function writeWord(t: Transcoder, word: string, byte: number): void {
  for (let i = 0; i < word.length; i++) {
    if (t.at + i >= t.end || t.bytes[t.at + i] !== word.charCodeAt(i)) throw unexpected(t, 'a value');
  }
  t.at += word.length;
  t.out.byte(byte);
}

function writeArray(t: Transcoder, depth: number): void {
  if (depth >= MAX_DEPTH) throw tooDeep(t);
  const head = t.out.length;
  t.out.byte(0);
  t.at++;
  let count = 0;
  if (nextByte(t) === CLOSE_ARRAY) t.at++;
  else {
    for (;;) {
      writeValue(t, depth + 1, null);
      count++;
      if (endsHere(t, CLOSE_ARRAY)) break;
    }
  }
  closeContainer(t.out, head, MAJOR.array, count);
}

function writeObject(t: Transcoder, depth: number, place: Place | null): void {
  if (depth >= MAX_DEPTH) throw tooDeep(t);
  const { out, keys } = t;
  const opened = t.at;
  const head = out.length;
  const scope = keys.open();
  const inner = hasKeys(place) ? place : null;
  out.byte(0);
  t.at++;
  let count = 0;
  let firstValue = 0;
  if (nextByte(t) === CLOSE_OBJECT) t.at++;
  else {
    for (;;) {
      const keyStart = out.length;
      writeKey(t, scope);
      expect(t, COLON, 'a colon');
      if (count++ === 0) firstValue = out.length;
      writeValue(t, depth + 1, inner === null ? null : childPlace(inner, textAt(out, keyStart)));
      if (endsHere(t, CLOSE_OBJECT)) break;
    }
  }
  keys.close(scope);
  closeContainer(out, head, MAJOR.map, count);
  if (count === 1 && !t.foreign && isEscapeKey(out.reserve(0), head + 1)) unescape(t, opened, head, firstValue);
}

function writeKey(t: Transcoder, scope: number): void {
  if (nextByte(t) !== QUOTE) throw unexpected(t, 'a key in quotes');
  const { at } = t;
  const start = t.out.length;
  writeJsonString(t, t.out);
  if (!t.keys.add(scope, start, t.out.length)) throw jsonError('duplicate_key', 'an object has the same key twice', at);
}

/** The short ASCII text that was just written at `at`, or null. */
function textAt(out: ByteWriter, at: number): string | null {
  const bytes = out.reserve(0);
  const length = (bytes[at] as number) - 0x60;
  return length >= 0 && length < 24 ? internText(bytes, at + 1, length) : null;
}

function closeContainer(out: ByteWriter, head: number, major: number, count: number): void {
  out.reserve(0)[head] = (major << 5) | (count < 24 ? count : 31);
  if (count >= 24) out.byte(0xff);
}

/** An object with one `$` key: the value it stands for takes its place, or the real object with one `$` less. */
function unescape(t: Transcoder, opened: number, head: number, firstValue: number): void {
  const { out } = t;
  const meaning = decodeEscape(out.view(), head + 1, firstValue);
  switch (meaning.kind) {
    case 'key': {
      const value = Buffer.from(out.view().subarray(firstValue));
      out.length = head;
      writeHead(MAJOR.map, 1, out);
      writeText(meaning.key, out);
      return out.bytes(value);
    }
    case 'float':
      out.length = head;
      return writeFloat64(meaning.value, out);
    case 'bytes':
      out.length = head;
      writeHead(MAJOR.bytes, meaning.bytes.length, out);
      return out.bytes(meaning.bytes);
    case 'array':
      out.length = head;
      return writeTypedBytes(meaning.dtype, meaning.bytes, out);
    case 'wrong':
      throw jsonError('invalid_json', `${meaning.message}; a real object with this one key is written with $$`, opened);
  }
}

function writeStream(t: Transcoder, depth: number, place: Place, dtype: Dtype, first: number): void {
  if (first === OPEN_ARRAY && isStreamDtype(dtype))
    return writeNumberStream(t, place.path, dtype, t.out, () => readFloatObject(t, depth, place.path));
  const { at } = t;
  const bytes = decodeBase64(readPlainString(t) ?? readString(t));
  if (bytes === null || bytes.length % DTYPES[dtype] !== 0) {
    throw jsonError('wrong_type', `${place.path} as text must be padded base64 of whole little-endian ${dtype} elements`, at);
  }
  writeTypedBytes(dtype, bytes, t.out);
}

/** The string at the cursor when it has no escapes (base64 has none, but some writers escape the slash), else null and nothing is read. */
function readPlainString(t: Transcoder): string | null {
  const start = t.at + 1;
  const end = t.bytes.indexOf(QUOTE, start);
  if (end < 0 || end >= t.end) return null;
  const text = t.bytes.toString('latin1', start, end);
  if (text.includes('\\')) return null;
  t.at = end + 1;
  return text;
}

function readString(t: Transcoder): string {
  const { out } = t;
  const start = out.length;
  writeJsonString(t, out);
  const text = decodeCbor(out.view(), start, out.length) as string;
  out.length = start;
  return text;
}

/** An element `{"$float":…}` of a float stream. */
function readFloatObject(t: Transcoder, depth: number, field: string): number {
  const { at, out } = t;
  const start = out.length;
  writeObject(t, depth + 1, null);
  const value = out.view()[start] === 0xfb ? out.view().readDoubleBE(start + 1) : null;
  out.length = start;
  if (value === null) throw jsonError('wrong_type', `${field} holds numbers, or {"$float":…}`, at);
  return value;
}

function tooDeep(t: Transcoder): Error {
  return jsonError('too_deep', `objects and arrays nest deeper than ${MAX_DEPTH}: flatten the value or send it as text`, t.at);
}
