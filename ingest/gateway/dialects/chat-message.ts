/** One message of the chat dialect to its neutral form and back. */
import { ok, type Result } from '../../../base/result.ts';
import type { DialectName, Json, JsonObject, Message } from './dialect.ts';
import { originOf, refuseState, stateOf } from './provider-state.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';
import { compact, fromPairs, isList, isObject, textOf, without, wordOf, writeJson } from './json.ts';

/** Parts that an engine of the chat dialect may know. */
const CHAT_PARTS: ReadonlySet<string> = new Set(['text', 'image_url', 'input_audio', 'file', 'refusal', 'video_url', 'audio_url']);
/** Keys that get a neutral meaning; all others stay on the message as they are, unless they say nothing. */
const READ: ReadonlySet<string> = new Set([
  'role',
  'content',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
  'refusal',
  'tool_calls',
]);
/** Keys that a neutral message of a chat request may have. */
const SAYABLE: ReadonlySet<string> = new Set([
  'role', 'content', 'reasoning_content', 'refusal', 'tool_calls', 'tool_call_id', 'name', 'is_error', 'provider_state',
]); // prettier-ignore

/** A chat message, of a request or an answer, in neutral form. `role` must be known to be text. */
export function readChatMessage(raw: JsonObject): Message {
  const details = raw['reasoning_details'];
  const extras = Object.entries(raw).filter(([key, value]) => !READ.has(key) && !asksNothing(value));
  const calls = raw['tool_calls'];
  return {
    ...fromPairs(extras),
    role: wordOf(raw['role']),
    content: raw['content'] ?? null,
    ...compact({
      reasoning_content: reasoningOf(raw) ?? undefined,
      refusal: asksNothing(raw['refusal']) ? undefined : raw['refusal'],
      tool_calls: isList(calls) && calls.length > 0 ? calls.map(readChatCall) : undefined,
      provider_state: isList(details) && details.length > 0 ? details : undefined,
    }),
  };
}

/** Engines name it differently: vLLM and OpenRouter `reasoning`, SGLang and DeepSeek `reasoning_content`, MiniMax `reasoning_details` only. */
export function reasoningOf(raw: JsonObject): string | null {
  for (const key of ['reasoning', 'reasoning_content']) {
    const text = textOf(raw[key]);
    if (text !== null && text !== '') return text;
  }
  const details = raw['reasoning_details'];
  if (!isList(details)) return null;
  const own = details.filter(isObject).filter((detail) => wordOf(detail['type']).startsWith('reasoning.'));
  const texts = own.map((detail) => textOf(detail['text']) ?? textOf(detail['summary']) ?? '');
  return texts.filter((text) => text !== '').join('\n') || null;
}

/** `{id, name, arguments}`; what has no such form stays verbatim. Arguments that are no text (some engines send the object) are written as JSON. */
export function readChatCall(call: Json): Json {
  if (!isObject(call)) return call;
  const custom = isObject(call['custom']) ? call['custom'] : null;
  const body = custom ?? (isObject(call['function']) ? call['function'] : null);
  if (body === null) return call;
  const given = custom === null ? body['arguments'] : body['input'];
  return compact({
    id: textOf(call['id']) ?? '',
    name: textOf(body['name']) ?? '',
    arguments: typeof given === 'string' ? given : asksNothing(given) ? '' : writeJson(given as Json),
    type: custom === null ? undefined : 'custom',
  });
}

export function writeChatCall(call: Json): Json {
  if (!isObject(call) || typeof call['name'] !== 'string') return call;
  const { id = '', name } = call;
  const text = call['arguments'] ?? '';
  if (call['type'] === 'custom') return { id, type: 'custom', custom: { name, input: text } };
  return { id, type: 'function', function: { name, arguments: text } };
}

/** What to write before a failed tool's result in dialects that have no flag for it. */
export const ERROR_MARK = 'Error: ';

/** A failed result says so in its text, where the dialect has no flag. */
export function markedContent(message: Message): Json {
  const content = message['content'] ?? '';
  if (message['is_error'] !== true) return content;
  if (isList(content)) return [{ type: 'text', text: ERROR_MARK }, ...content];
  return `${ERROR_MARK}${textOf(content) ?? ''}`;
}

/** The message for an engine of the chat dialect. `field` is its path, for refusals; `from` the dialect it was read from. */
export function writeChatMessage(message: Message, field: string, from: DialectName): Result<JsonObject> {
  const same = from === 'openai.chat';
  const content = same
    ? (message['content'] ?? null)
    : withoutHints(message.role === 'tool' ? markedContent(message) : (message['content'] ?? null));
  if (!same) {
    const problem = unsayable(message, content, field);
    if (problem !== null) return problem;
  }
  const extras = same ? fromPairs(Object.entries(message).filter(([key]) => !SAYABLE.has(key))) : {};
  const details = stateOf(message).filter((entry) => same || originOf(entry) === 'openai.chat');
  const calls = message['tool_calls'];
  return ok({
    ...extras,
    role: message.role,
    // Strict engines refuse null without tool calls.
    content: content === null && message.role === 'assistant' && !isList(calls) ? '' : content,
    ...compact({
      name: message['name'],
      // SGLang and DeepSeek read the one, vLLM and OpenRouter the other
      reasoning_content: message['reasoning_content'],
      reasoning: message['reasoning_content'],
      reasoning_details: details.length > 0 ? details : undefined,
      refusal: message['refusal'],
      tool_calls: isList(calls) ? calls.map(writeChatCall) : undefined,
      tool_call_id: message['tool_call_id'],
    }),
  });
}

function unsayable(message: Message, content: Json, field: string) {
  const to = 'openai.chat';
  const parts = isList(content) ? content : [];
  for (const [i, part] of parts.entries()) {
    const type = isObject(part) ? wordOf(part['type']) : typeof part;
    const more = isObject(part) && type === 'text' ? Object.keys(part).find((key) => key !== 'type' && key !== 'text') : undefined;
    if (CHAT_PARTS.has(type) && more === undefined) continue;
    if (more !== undefined) return cannotTranslate(`${field}.content[${i}].${more}`, to, 'a text is only text there', 'leave it out');
    return cannotTranslate(`${field}.content[${i}]`, to, `it has no part of type ${type}`, 'send it as text or as an image');
  }
  return refuseState(message, field, to, false);
}

/** Hints to a provider's cache are left out; they change no answer. */
function withoutHints(content: Json): Json {
  if (!isList(content)) return content;
  return content.map((part) => (isObject(part) ? without(part, new Set(['cache_control'])) : part));
}
