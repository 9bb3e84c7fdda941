/**
 * When two messages are the same message: equal keys. A harness sends back what it was answered with other spacing in tool arguments, other key order, null in place of
 * nothing; none of that may fork a graph.
 */
import { createHash } from 'node:crypto';
import type { Message } from '../record-types.ts';
import { isMap, isSilent, listOf } from './dialect.ts';

/** `bare` leaves the reasoning out: a harness that drops it sends the same message otherwise. */
export type MessageKey = { readonly whole: string; readonly bare: string };

export function messageKey(message: Message): MessageKey {
  const content = message['content'];
  const calls = listOf(message['tool_calls']).map((call) => (isMap(call) ? { ...call, arguments: argumentsOf(call['arguments']) } : call));
  const bare = canonicalText([message.role, content ?? '', orNull(message['refusal']), calls, orNull(message['tool_call_id'])]);
  const reasoning = [orNull(message['reasoning_content']), orNull(message['provider_state'])];
  return { bare: digest(bare), whole: digest(`${bare}${canonicalText(reasoning)}`) };
}

export function listKey(values: readonly unknown[]): string {
  return digest(canonicalText(values));
}

/** 16 bytes, one character each. */
function digest(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('binary').slice(0, 16);
}

function orNull(value: unknown): unknown {
  return isSilent(value) ? null : value;
}

/** Arguments that are JSON count by their value. */
function argumentsOf(text: unknown): unknown {
  if (typeof text !== 'string') return text ?? '';
  try {
    return [JSON.parse(text)];
  } catch {
    return text;
  }
}

/** JSON with sorted keys; undefined is left out. */
export function canonicalText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map((item) => canonicalText(item ?? null)).join(',')}]`;
  if (!isMap(value)) return JSON.stringify(value) ?? 'null';
  const entries = Object.entries(value).filter(([, item]) => item !== undefined);
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalText(item)}`).join(',')}}`;
}
