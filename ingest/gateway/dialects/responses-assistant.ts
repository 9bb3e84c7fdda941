/**
 * A run of assistant items in the Responses dialect to one neutral message and back. Reasoning, one message, calls, in this order, have neutral
 * fields; only reasoning that its provider must get back is kept beside them. Any other order or item keeps the whole run in `provider_state`.
 */
import { ok, type Result } from '../../../base/result.ts';
import type { Json, JsonObject, Message } from './dialect.ts';
import { compact, isList, isObject, textOf } from './json.ts';
import { isLaidOut, isThought, originOf, refuseState, stateOf } from './provider-state.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';
import { openState } from './sealed-state.ts';

const TO = 'openai.responses';
const CALLS: ReadonlySet<string> = new Set(['function_call', 'custom_tool_call']);
const CALL_KEYS: ReadonlySet<string> = new Set(['type', 'id', 'status', 'call_id', 'name', 'arguments', 'input']);
const MESSAGE_KEYS: ReadonlySet<string> = new Set(['type', 'id', 'status', 'role', 'content']);
const TEXT_KEYS: ReadonlySet<string> = new Set(['type', 'text', 'logprobs']);

/** Messages may leave their type out. */
export function typeOf(item: JsonObject): string {
  return textOf(item['type']) ?? (item['role'] === undefined ? '' : 'message');
}

export function assistantOf(items: readonly JsonObject[]): Message {
  const thoughts = items.filter((item) => typeOf(item) === 'reasoning').flatMap(reasoningTexts);
  const parts = items.filter((item) => typeOf(item) === 'message').flatMap((item) => partsOf(item['content']));
  const calls = items.filter((item) => CALLS.has(typeOf(item))).map(callOf);
  const texts = parts.filter((part) => typeof part['text'] === 'string');
  const refusals = parts.filter((part) => typeof part['refusal'] === 'string');
  const kept = isPlain(items) ? items.filter((item) => typeOf(item) === 'reasoning') : items;
  const state = kept.flatMap((item) => (typeOf(item) === 'reasoning' ? reasoningState(item) : [item]));
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map((part) => part['text'] as string).join(''),
    ...compact({
      reasoning_content: thoughts.length === 0 ? undefined : thoughts.join('\n'),
      refusal: refusals.length === 0 ? undefined : refusals.map((part) => part['refusal'] as string).join(''),
      tool_calls: calls.length === 0 ? undefined : calls,
      provider_state: state.length === 0 ? undefined : state,
    }),
  };
}

export function partsOf(content: Json | undefined): readonly JsonObject[] {
  if (typeof content === 'string') return [{ type: 'output_text', text: content }];
  return isList(content) ? content.filter(isObject) : [];
}

/** Summaries, then the text itself; a harness that leaves the text out still sends our sealed copy. */
function reasoningTexts(item: JsonObject): string[] {
  const texts = [...partsOf(item['summary']), ...partsOf(item['content'])].map((part) => textOf(part['text']) ?? '');
  const said = texts.filter((text) => text !== '');
  const sealed = openState(item['encrypted_content'])?.text ?? null;
  return said.length === 0 && sealed !== null && sealed !== '' ? [sealed] : said;
}

/** What the provider must get back of a reasoning item: nothing, when all of it can be read and none of it is a summary. */
function reasoningState(item: JsonObject): readonly JsonObject[] {
  const sealed = openState(item['encrypted_content']);
  if (sealed !== null) return sealed.state;
  const isOpen = asksNothing(item['encrypted_content']) && partsOf(item['summary']).length === 0 && partsOf(item['content']).length > 0;
  return isOpen ? [] : [item];
}

function callOf(item: JsonObject): Json {
  const custom = typeOf(item) === 'custom_tool_call';
  const text = custom ? item['input'] : item['arguments'];
  return compact({
    id: textOf(item['call_id']) ?? '',
    name: textOf(item['name']) ?? '',
    arguments: textOf(text) ?? '',
    type: custom ? 'custom' : undefined,
  });
}

/** Reasoning, at most one message of one text and one refusal, calls, and nothing on them that has no neutral field. */
function isPlain(items: readonly JsonObject[]): boolean {
  let phase = 0;
  for (const item of items) {
    const type = typeOf(item);
    const at = type === 'reasoning' ? 0 : type === 'message' ? 1 : CALLS.has(type) ? 2 : -1;
    if (at < phase || (at === phase && at === 1)) return false;
    if (at === 1 && !isPlainMessage(item)) return false;
    if (at === 2 && !hasOnly(item, CALL_KEYS)) return false;
    phase = at;
  }
  return true;
}

function hasOnly(item: JsonObject, keys: ReadonlySet<string>): boolean {
  return Object.entries(item).every(([key, value]) => keys.has(key) || asksNothing(value));
}

function isPlainMessage(item: JsonObject): boolean {
  if (!hasOnly(item, MESSAGE_KEYS)) return false;
  const parts = partsOf(item['content']);
  const kinds = parts.map((part) =>
    typeof part['text'] === 'string' && hasOnly(part, TEXT_KEYS) ? 't' : part['type'] === 'refusal' ? 'r' : '?',
  );
  return /^t?r?$/.test(kinds.join(''));
}

export type WriteOptions = { readonly field: string; readonly same: boolean };

/** Input items of a neutral assistant message, for an engine. */
export function writeAssistantItems(message: Message, { field, same }: WriteOptions): Result<readonly JsonObject[]> {
  const entries = stateOf(message);
  if (same && isLaidOut(message, TO)) return ok(entries.filter((entry) => originOf(entry) === TO));
  const refused = refuseState(message, field, TO, false);
  if (refused !== null) return refused;
  const state = entries.filter((entry) => isThought(entry) && originOf(entry) === TO);
  const reasoning = textOf(message['reasoning_content']) ?? '';
  if (reasoning !== '' && state.length === 0) {
    if (!same) {
      const remedy = 'send the provider state back as it came, or leave the reasoning out of the history';
      return cannotTranslate(`${field}.reasoning_content`, TO, 'an engine takes only reasoning that it made', remedy);
    }
    state.push({ type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: reasoning }] });
  }
  const said = messageItems(message, field);
  if (!said.ok) return said;
  const calls: JsonObject[] = [];
  for (const [i, call] of (isList(message['tool_calls']) ? message['tool_calls'] : []).entries()) {
    if (!isObject(call) || typeof call['name'] !== 'string') {
      return cannotTranslate(`${field}.tool_calls[${i}]`, TO, 'it is no call of a function or custom tool', 'use these');
    }
    calls.push(callItem(call));
  }
  const items = [...state, ...said.value, ...calls];
  return ok(items.length > 0 ? items : [{ role: 'assistant', content: '' }]);
}

function messageItems(message: Message, field: string): Result<readonly JsonObject[]> {
  const content = message['content'] ?? '';
  const refusal = textOf(message['refusal']) ?? '';
  if (!isList(content) && refusal === '') return ok(textOf(content) === '' ? [] : [{ role: 'assistant', content }]);
  const parts: JsonObject[] = [];
  for (const [i, part] of (isList(content) ? content : [{ type: 'text', text: content }]).entries()) {
    const { text, refusal: refused } = isObject(part as Json) ? (part as JsonObject) : {};
    if (typeof text === 'string') {
      if (text !== '') parts.push({ type: 'output_text', text, annotations: [] });
    } else if (typeof refused === 'string') parts.push({ type: 'refusal', refusal: refused });
    else return cannotTranslate(`${field}.content[${i}]`, TO, 'an assistant says text only', 'send its content as text');
  }
  if (refusal !== '') parts.push({ type: 'refusal', refusal });
  return ok(parts.length === 0 ? [] : [{ type: 'message', role: 'assistant', content: parts }]);
}

export function callItem(call: JsonObject): JsonObject {
  const { id = '', name = '' } = call;
  const text = call['arguments'] ?? '';
  if (call['type'] === 'custom') return { type: 'custom_tool_call', call_id: id, name, input: text };
  return { type: 'function_call', call_id: id, name, arguments: text };
}
