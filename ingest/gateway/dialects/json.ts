/**
 * JSON of requests, answers and stream events, exact in what JSON.parse falsifies.
 *
 * | function      | integers beyond 2^53 | a key twice             | lone surrogates | NUL  | 1.0 and 1 | 1e400     |
 * |---------------|----------------------|-------------------------|-----------------|------|-----------|-----------|
 * | `readStrict`  | bigint               | refused `duplicate_key` | kept            | kept | both 1    | refused   |
 * | `readJson`    | bigint               | the last, as clients do | kept            | kept | both 1    | refused   |
 * | `writeJson`   | all digits           | –                       | escaped         | kept | 1         | –         |
 *
 * A float is the nearest double in all of them, as in every client. What must stay as it was written (tool arguments, the bytes of an event) is
 * kept as text by its owner and never comes through here.
 */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { MAX_DEPTH } from '../../../events/codec/cbor-head.ts';
import { jsonToCbor } from '../../../events/codec/json-to-cbor.ts';
import { isMap } from '../../../events/fields.ts';
import type { Json, JsonObject } from './dialect.ts';

/** An integer or an exponent that a double may not hold. What looks like one in a string matches too: that costs time only. */
const LARGE_NUMBER = /(?:^|[:,[\s])-?(?:\d{16}|\d+(?:\.\d+)?[eE]\+?\d{3})/;
/** A buffer larger than this is not kept for the next text. */
const KEEP_BYTES = 1 << 20;
let scratch = new ByteWriter(1 << 16);

/**
 * One JSON value that fills `bytes`: what a harness sent. Problems: `invalid_json`, `invalid_utf8`, `duplicate_key`, `too_deep`, `number_out_of_range`.
 */
export function readStrict(bytes: Uint8Array): Result<Json> {
  try {
    jsonToCbor(bytes, 0, bytes.length, scratch, { foreign: true });
    const value = decodeCbor(scratch.view(), 0, scratch.length) as Json;
    return hasWords(bytes) && !isPlainJson(bytes) ? fail('invalid_json', 'NaN and Infinity are no JSON: send null or a text') : ok(value);
  } catch (error) {
    if (isTapedeckError(error)) return fail(error.code, error.message);
    throw error;
  } finally {
    if (scratch.length > KEEP_BYTES) scratch = new ByteWriter(1 << 16);
    else scratch.clear();
  }
}

/** The transcoder takes the bare words that Python writes; only a text that has such a word is worth a second look. */
function hasWords(bytes: Uint8Array): boolean {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return buffer.includes('NaN') || buffer.includes('Infinity');
}

function isPlainJson(bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder().decode(bytes));
    return true;
  } catch {
    return false;
  }
}

/** One JSON value from an engine: fast, for every event of a stream. Problems: `invalid_json`, `too_deep`, `number_out_of_range`. */
export function readJson(text: string): Result<Json> {
  try {
    const value = JSON.parse(text) as Json;
    return LARGE_NUMBER.test(text) ? ok(reviveNumbers(text)) : ok(value);
  } catch (error) {
    if (error instanceof SyntaxError) return fail('invalid_json', `the text is no JSON: ${error.message.slice(0, 200)}`);
    if (isTapedeckError(error)) return fail(error.code, error.message);
    if (error instanceof RangeError) return fail('too_deep', `objects and arrays nest too deep; the limit of a record is ${MAX_DEPTH}`);
    throw error;
  }
}

type Revive = (text: string, reviver: (key: string, value: unknown, context: { source: string }) => unknown) => Json;

function reviveNumbers(text: string): Json {
  return (JSON.parse as Revive)(text, (_key, value, context) => {
    if (typeof value !== 'number' || Number.isSafeInteger(value)) return value;
    if (/^-?\d+$/.test(context.source)) return BigInt(context.source);
    if (!Number.isFinite(value))
      throw new TapedeckError('number_out_of_range', `${context.source.slice(0, 40)} is beyond the range of a double`);
    return value;
  });
}

const { rawJSON: rawJson } = JSON as unknown as { readonly rawJSON: (text: string) => unknown };

/** JSON text without spaces. Throws `wrong_type` for NaN and the infinities, which JSON.stringify would turn into null. */
export function writeJson(value: Json): string {
  return JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item === 'bigint') return rawJson(item.toString());
    if (typeof item !== 'number') return item;
    if (!Number.isFinite(item)) throw new TapedeckError('wrong_type', 'JSON has no word for a number that is not finite');
    return Object.is(item, -0) ? rawJson('-0') : item;
  });
}

export function isObject(value: Json | undefined): value is JsonObject {
  return isMap(value);
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

export function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

/** A safe integer of at least 0, or null. */
export function countOf(value: Json | undefined): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** The object without keys whose value is undefined; `__proto__` stays a key like any other. */
export function compact(entries: { readonly [key: string]: Json | undefined }): JsonObject {
  return fromPairs(Object.entries(entries).filter((pair): pair is [string, Json] => pair[1] !== undefined));
}

/** Object.fromEntries defines own properties, so `__proto__` is safe. */
export function fromPairs(pairs: readonly (readonly [string, Json])[]): JsonObject {
  return Object.fromEntries(pairs);
}

/** The object without the named keys. */
export function without(object: JsonObject, keys: ReadonlySet<string>): JsonObject {
  return fromPairs(Object.entries(object).filter(([key]) => !keys.has(key)));
}

/** For messages: a text as it is, anything else as JSON, nothing as `undefined`. */
export function wordOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : value === undefined ? 'undefined' : writeJson(value);
}
