/**
 * The entries of `provider_state`, told apart by their type.
 * - A thought is reasoning that its provider wants back: signed, encrypted or redacted. It may travel through a harness of any dialect.
 * - Layout repeats what the message says in neutral fields, in the order of its own dialect. It counts only where it was made.
 * - Everything else is opaque: the work of provider-run tools. It never leaves its dialect.
 */
import type { DialectName, JsonObject, Message } from './dialect.ts';
import { isList, isObject, wordOf } from './json.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';

const LAYOUT: ReadonlySet<string> = new Set(['text', 'tool_use', 'tool_result', 'message', 'function_call', 'custom_tool_call']);
const ANTHROPIC =
  /^(text|thinking|redacted_thinking|compaction|fallback|container_upload|mid_conv_system|connector_text)$|tool_use$|tool_result$/;

export function stateOf(message: Message): readonly JsonObject[] {
  const state = message['provider_state'];
  return isList(state) ? state.filter(isObject) : [];
}

/** Items of Responses may leave out the type of a message. */
export function typeOfEntry(entry: JsonObject): string {
  return entry['type'] === undefined && entry['role'] !== undefined ? 'message' : wordOf(entry['type']);
}

export function isThought(entry: JsonObject): boolean {
  const type = typeOfEntry(entry);
  return type === 'thinking' || type === 'redacted_thinking' || type === 'reasoning' || type.startsWith('reasoning.');
}

/** The dialect that an entry comes from. */
export function originOf(entry: JsonObject): DialectName {
  const type = typeOfEntry(entry);
  if (type.startsWith('reasoning.')) return 'openai.chat';
  return ANTHROPIC.test(type) ? 'anthropic.messages' : 'openai.responses';
}

/** Entries of `dialect` that say how its message is laid out: the message is these entries, where it may be trusted. */
export function isLaidOut(message: Message, dialect: DialectName): boolean {
  return stateOf(message).some((entry) => !isThought(entry) && originOf(entry) === dialect);
}

/** Refuses what of a message's provider state would be lost on the way to `to`; null when nothing is. `thoughts` = they travel. */
export function refuseState(
  message: Message,
  field: string,
  to: DialectName,
  thoughts: boolean,
): ReturnType<typeof cannotTranslate> | null {
  for (const entry of stateOf(message)) {
    const type = typeOfEntry(entry);
    if (LAYOUT.has(type) || (isThought(entry) && (thoughts || originOf(entry) === to || isReadable(entry, message)))) continue;
    return cannotTranslate(`${field} (${type})`, to, 'only the provider that made it can read it', 'leave it out of the history');
  }
  return null;
}

/** Thoughts whose text stands in the message. */
function isReadable(entry: JsonObject, message: Message): boolean {
  if (entry['type'] === 'redacted_thinking' || entry['type'] === 'reasoning.encrypted') return false;
  return asksNothing(entry['encrypted_content']) || typeof message['reasoning_content'] === 'string';
}
