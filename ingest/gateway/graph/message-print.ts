/**
 * What two messages are compared by: a hash of 16 bytes over all that counts (`comparable` in dialects/message-hash.ts), and one word per part of it, so
 * that a difference has a name.
 */
import { hash } from 'node:crypto';
import type { Json, JsonObject, Message } from '../dialects/dialect.ts';
import { isObject } from '../dialects/json.ts';
import { comparable } from '../dialects/message-hash.ts';
import { canonicalText } from './canonical-text.ts';

/** The parts in the order of their words; the names are those of `drift`. */
export const PARTS = ['content', 'reasoning_content', 'refusal', 'tool_calls', 'tool_calls.id', 'tool_call_id', 'provider_state'] as const;
export type Part = (typeof PARTS)[number];

/** Words of the whole hash, and of a print: the hash, then one word per part (0 = the message has none). */
export const HASH_WORDS = 4;
export const PRINT_WORDS = HASH_WORDS + PARTS.length;

/** The prints of several messages and their roles. Message k owns the words from k * PRINT_WORDS on. */
export type Prints = { readonly roles: readonly string[]; readonly words: Uint32Array };

export function printMessages(messages: readonly Message[]): Prints {
  const words = new Uint32Array(messages.length * PRINT_WORDS);
  for (const [k, message] of messages.entries()) addPrint(message, words, k * PRINT_WORDS);
  return { roles: messages.map(({ role }) => role), words };
}

/** Writes the print of `message` at `at`, where the words are 0. The role is not in it: it is compared as text. */
export function addPrint(message: Message, words: Uint32Array, at: number): void {
  if (typeof message['content'] === 'string' && isContentOnly(message)) {
    if (message['content'] !== '') addDigest(message['content'], 0, words, at);
    return;
  }
  const form = comparable(message);
  for (const [part, name] of PARTS.entries()) {
    const value = partValue(form, name);
    if (value !== undefined) addDigest(typeof value === 'string' ? value : `\0${canonicalText(value)}`, part, words, at);
  }
}

/** Most messages: nothing but role and text. */
function isContentOnly(message: Message): boolean {
  for (const key in message) if (key !== 'role' && key !== 'content') return false;
  return true;
}

function partValue(form: JsonObject, part: Part): Json | undefined {
  const calls = form['tool_calls'];
  if (part === 'tool_calls')
    return Array.isArray(calls) ? calls.map((call: Json) => (isObject(call) ? { ...call, id: null } : call)) : calls;
  if (part === 'tool_calls.id')
    return Array.isArray(calls) ? calls.map((call: Json) => (isObject(call) ? (call['id'] ?? null) : null)) : undefined;
  return form[part];
}

/** The whole is the sum of the parts' digests, each turned by its place, so that equal texts in different parts are different messages. */
function addDigest(text: string, part: number, words: Uint32Array, at: number): void {
  const digest = hash('sha256', text.isWellFormed() ? text : `\u0001${JSON.stringify(text)}`, 'binary');
  for (let w = 0; w < HASH_WORDS; w++) {
    const word = wordAt(digest, ((w + part) * 4) & 31);
    words[at + w] = ((words[at + w] as number) + word) >>> 0;
    if (w === 0) words[at + HASH_WORDS + part] = word === 0 ? 1 : word;
  }
}

function wordAt(latin1: string, at: number): number {
  const [a, b, c, d] = [latin1.charCodeAt(at), latin1.charCodeAt(at + 1), latin1.charCodeAt(at + 2), latin1.charCodeAt(at + 3)];
  return (a | (b << 8) | (c << 16) | (d << 24)) >>> 0;
}
