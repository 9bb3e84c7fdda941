/**
 * A request in the form in which two requests are the same: key order, spacing, `1` and `1.0`, null members, cache marks and members that change no answer do not
 * count; a single text part is its text; tool arguments count by the value they spell. Pure.
 */
import { createHash } from 'node:crypto';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { fail, ok, type Result } from '../../../base/result.ts';
import { decodeCbor } from '../../../events/codec/cbor-decode.ts';
import { toJson } from '../../../events/codec/cbor-to-json.ts';
import { jsonToCbor } from '../../../events/codec/json-to-cbor.ts';
import { isMap } from '../../../events/fields.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Members that change no answer: who asks, where it is cached and billed. The same in all dialects (docs/gateway-dialects.md). */
const HINTS: ReadonlySet<string> = new Set([
  'metadata', 'user', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'prompt_cache_options', 'service_tier', 'store', 'betas', 'client_metadata', 'inference_geo', 'priority', 'request_id', 'cache_salt', 'speed',
]); // prettier-ignore
/** Members that hold a conversation. */
const CONVERSATION: ReadonlySet<string> = new Set(['messages', 'input', 'system']);

/** One JSON object that fills `bytes`. Problems: those of JSON, `wrong_type`. */
export function readRequest(bytes: Uint8Array): Result<Fields> {
  try {
    const out = new ByteWriter(bytes.length + 64);
    jsonToCbor(bytes, 0, bytes.length, out, { foreign: true });
    const value = decodeCbor(out.view());
    return isMap(value) ? ok(value) : fail('wrong_type', 'the body must be a JSON object');
  } catch (error) {
    if (isTapedeckError(error)) return fail(error.code, error.message);
    throw error;
  }
}

/** The request with only what counts, by value. */
export function canonicalRequest(request: Fields): Fields {
  const members = Object.entries(request).filter(([key, value]) => value !== null && !HINTS.has(key));
  return Object.fromEntries(members.map(([key, value]) => [key, CONVERSATION.has(key) ? cleaned(value) : unmarked(value)]));
}

/** sha256 over the values in the order of their keys, hexadecimal. */
export function requestHash(canonical: unknown): string {
  return createHash('sha256').update(sortedText(canonical)).digest('hex');
}

/** JSON text with keys in order: equal texts are equal values. */
export function sortedText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedText).join(',')}]`;
  if (!isMap(value)) return toJson(value);
  const keys = Object.keys(value).toSorted();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${sortedText(value[key])}`).join(',')}}`;
}

function cleaned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(cleaned);
  if (!isMap(value)) return value;
  const entries = Object.entries(value).filter(([key, member]) => member !== null && !isCacheMark(key, member));
  return Object.fromEntries(entries.map(([key, member]) => [key, key === 'arguments' ? spelled(member) : cleanedMember(key, member)]));
}

function cleanedMember(key: string, member: unknown): unknown {
  const value = cleaned(member);
  return (key === 'content' || key === 'output') && Array.isArray(value) ? onlyText(value) : value;
}

function onlyText(parts: readonly unknown[]): unknown {
  const [part] = parts;
  if (parts.length !== 1 || !isMap(part) || Object.keys(part).length !== 2) return parts;
  return part['type'] === 'text' && typeof part['text'] === 'string' ? part['text'] : parts;
}

/** The value that tool arguments spell; text that spells no object stays text. */
function spelled(value: unknown): unknown {
  if (typeof value !== 'string') return cleaned(value);
  const read = readRequest(Buffer.from(value));
  return read.ok ? read.value : value;
}

function unmarked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(unmarked);
  if (!isMap(value)) return value;
  const entries = Object.entries(value).filter(([key, member]) => !isCacheMark(key, member));
  return Object.fromEntries(entries.map(([key, member]) => [key, unmarked(member)]));
}

function isCacheMark(key: string, member: unknown): boolean {
  return key === 'cache_control' && isMap(member) && typeof member['type'] === 'string';
}
