/**
 * When two neutral messages are the same message: equal `comparable` forms, hence equal hashes. A harness re-sends what it was answered with other
 * spacing, other key order, without item ids; none of that may fork a graph.
 */
import { hash } from 'node:crypto';
import { ByteWriter } from '../../../base/byte-writer.ts';
import { addCanonical } from '../../../events/codec/canonical.ts';
import { cursorOver } from '../../../events/codec/cbor-head.ts';
import { encodeCbor } from '../../../events/codec/cbor-encode.ts';
import { PieceList } from '../../../events/codec/piece-list.ts';
import type { Json, JsonObject, Message } from './dialect.ts';
import { compact, isList, isObject, readStrict, without, wordOf } from './json.ts';

/** Of provider state whose readable part is in the message itself, only these fields count (as in verifiers). */
const OPAQUE_FIELDS = ['encrypted_content', 'signature', 'data', 'phase'] as const;
const REPRESENTED: ReadonlySet<string> = new Set([
  'message', 'reasoning', 'function_call', 'custom_tool_call', 'text', 'thinking', 'redacted_thinking', 'tool_use', 'tool_result',
  'reasoning.text', 'reasoning.summary', 'reasoning.encrypted',
]); // prettier-ignore
/** Given anew by a provider, or by a harness, each time: never part of what was said. */
const VOLATILE: ReadonlySet<string> = new Set(['id', 'status', 'cache_control']);

/**
 * What counts of a message, and nothing else: role; content (null, "" and [] are absent, one text part is its text); reasoning_content; refusal;
 * tool calls (id, name, arguments as the value they spell: `{}` when empty, the text itself when it is no JSON object); tool_call_id; provider_state
 * without ids, states and what is said elsewhere in the message. Two messages are the same exactly when their forms are equal as documents.
 */
export function comparable(message: Message): JsonObject {
  return compact({
    role: message.role,
    content: comparableContent(message['content']),
    reasoning_content: said(message['reasoning_content']),
    refusal: said(message['refusal']),
    tool_calls: isList(message['tool_calls']) && message['tool_calls'].length > 0 ? message['tool_calls'].map(comparableCall) : undefined,
    tool_call_id: said(message['tool_call_id']),
    provider_state: comparableState(message['provider_state']),
  });
}

/** 32 hexadecimal digits over `comparable(message)`: sha256 of its canonical CBOR, cut. Key order and number forms do not matter. */
export function messageHash(message: Message): string {
  return canonicalHash(comparable(message));
}

/** 32 hexadecimal digits over any JSON value, equal for equal documents: key order, and 1 against 1.0, do not matter; bigints are exact. */
export function canonicalHash(value: Json): string {
  const out = new ByteWriter(4096);
  encodeCbor(value, out);
  const bytes = out.view();
  const pieces = new PieceList();
  const cursor = cursorOver(bytes, 0, bytes.length);
  pieces.reset(cursor.bytes);
  addCanonical(cursor, pieces, 1);
  const gathered = new ByteWriter(bytes.length + 64);
  pieces.gather(0, gathered);
  return hash('sha256', gathered.view(), 'hex').slice(0, 32);
}

/** The value that the arguments of a tool call spell, or the text itself when they are no JSON (a key twice included). */
export function comparableArguments(text: string): Json {
  if (text.trim() === '') return {};
  if (!text.isWellFormed()) return text;
  const read = readStrict(Buffer.from(text));
  return read.ok && typeof read.value !== 'string' ? read.value : text;
}

function said(value: Json | undefined): Json | undefined {
  return value === null || value === '' || (isList(value) && value.length === 0) ? undefined : value;
}

function comparableContent(content: Json | undefined): Json | undefined {
  if (!isList(content)) return said(content);
  const parts = content.map((part) => (isObject(part) ? without(part, VOLATILE) : part));
  const [only] = parts;
  if (parts.length === 1 && isObject(only) && only['type'] === 'text' && typeof only['text'] === 'string') return said(only['text']);
  return said(parts);
}

function comparableCall(call: Json): Json {
  if (!isObject(call)) return call;
  const text = call['arguments'];
  return compact({ id: call['id'], name: call['name'], arguments: typeof text === 'string' ? comparableArguments(text) : text });
}

function comparableState(state: Json | undefined): Json | undefined {
  if (!isList(state)) return said(state);
  return said(state.map(comparableEntry).filter((entry) => entry !== null));
}

/** Null for an entry that says nothing beyond the message's own fields. */
function comparableEntry(entry: Json): Json | null {
  if (!isObject(entry)) return entry;
  if (!REPRESENTED.has(wordOf(entry['type']))) return without(entry, VOLATILE);
  const kept = compact({
    ...Object.fromEntries(OPAQUE_FIELDS.map((field) => [field, entry[field] ?? undefined])),
    is_error: entry['is_error'] === true ? true : undefined,
  });
  return Object.keys(kept).length === 0 ? null : { type: entry['type'] ?? null, ...kept };
}
