/**
 * The blocks of an assistant turn in the Messages dialect to a neutral message and back. Thinking, one text, tool calls, in this order, have neutral
 * fields; only signed thinking is kept beside them. Any other order, and any other block, keeps the whole list in `provider_state`, verbatim.
 */
import { ok, type Result } from '../../../base/result.ts';
import type { Json, JsonObject, Message } from './dialect.ts';
import { compact, fromPairs, isList, isObject, textOf, wordOf } from './json.ts';
import { isLaidOut, isThought, originOf, refuseState, stateOf } from './provider-state.ts';
import { asksNothing, cannotTranslate } from './refusals.ts';
import { openState, sealState } from './sealed-state.ts';
import { argumentsOf, inputOf, streamedArguments } from './tool-input.ts';

/** Stands where the signature of a thinking block has to, when no provider signed it. Known again when the harness sends the block back. */
export const UNSIGNED = 'tapedeck.unsigned';

/** A block, and the text of its input where it was streamed: the model's own spelling. */
export type Block = { readonly json: JsonObject; readonly inputText: string | null };

const TO = 'anthropic.messages';
const THINKING: ReadonlySet<string> = new Set(['thinking', 'redacted_thinking']);
const PLAIN_KEYS: Readonly<Record<string, ReadonlySet<string>>> = {
  text: new Set(['type', 'text', 'cache_control']),
  tool_use: new Set(['type', 'id', 'name', 'input', 'cache_control']),
};

export function assistantOf(blocks: readonly Block[]): Message {
  const texts = blocks.filter(({ json }) => json['type'] === 'text');
  const calls = blocks.filter(({ json }) => json['type'] === 'tool_use');
  const thoughts = blocks.map(({ json }) => (json['type'] === 'thinking' ? (textOf(json['thinking']) ?? '') : '')).join('');
  const state = (isPlain(blocks) ? blocks.filter(isSigned) : blocks).flatMap(({ json }) => openState(json['signature'])?.state ?? [json]);
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map(({ json }) => textOf(json['text']) ?? '').join(''),
    ...compact({
      reasoning_content: thoughts === '' ? undefined : thoughts,
      tool_calls: calls.length === 0 ? undefined : calls.map(callOf),
      provider_state: state.length === 0 ? undefined : state,
    }),
  };
}

function callOf({ json, inputText }: Block): Json {
  return {
    id: textOf(json['id']) ?? '',
    name: textOf(json['name']) ?? '',
    arguments: inputText === null ? argumentsOf(json['input']) : streamedArguments(inputText),
  };
}

function isSigned({ json }: Block): boolean {
  return THINKING.has(wordOf(json['type'])) && json['signature'] !== UNSIGNED;
}

/** Thinking, at most one text, tool calls, and nothing on them that has no neutral field. */
function isPlain(blocks: readonly Block[]): boolean {
  let phase = 0;
  for (const { json } of blocks) {
    const type = wordOf(json['type']);
    const at = THINKING.has(type) ? 0 : type === 'text' ? 1 : type === 'tool_use' ? 2 : -1;
    if (at < phase || (at === phase && at === 1)) return false;
    if (at > 0 && !hasPlainKeys(json, PLAIN_KEYS[type] as ReadonlySet<string>)) return false;
    phase = at;
  }
  return true;
}

function hasPlainKeys(json: JsonObject, plain: ReadonlySet<string>): boolean {
  return Object.entries(json).every(([key, value]) => {
    if (key === 'caller') return isObject(value) && value['type'] === 'direct';
    return plain.has(key) || asksNothing(value);
  });
}

export type WriteOptions = {
  readonly field: string;
  /** The message was read from this dialect. */
  readonly same: boolean;
  /** For a harness, thinking may be unsigned; an engine takes only what it signed itself. */
  readonly forHarness: boolean;
};

/** The blocks of a neutral assistant message. */
export function writeAssistantBlocks(message: Message, { field, same, forHarness }: WriteOptions): Result<readonly JsonObject[]> {
  const entries = stateOf(message);
  if ((same || forHarness) && isLaidOut(message, TO)) return ok(entries.filter((entry) => originOf(entry) === TO));
  const refused = refuseState(message, field, TO, forHarness);
  if (refused !== null) return refused;
  const state = entries.map(ownThought).filter((block) => block !== null);
  const text = textBlocks(message, field);
  if (!text.ok) return text;
  const reasoning = textOf(message['reasoning_content']) ?? '';
  const foreign = forHarness ? entries.filter((entry) => isThought(entry) && ownThought(entry) === null) : [];
  if ((reasoning !== '' || foreign.length > 0) && state.length === 0) {
    if (!forHarness && !same) {
      const remedy =
        'send the provider state (reasoning_details, reasoning items) back as it came, or leave the reasoning out of the history';
      return cannotTranslate(`${field}.reasoning_content`, TO, 'an engine takes only thinking that it signed', remedy);
    }
    const signature = foreign.length > 0 ? sealState({ text: null, state: foreign }) : UNSIGNED;
    state.push({ type: 'thinking', thinking: reasoning, signature });
  }
  const calls: JsonObject[] = [];
  for (const [i, call] of (isList(message['tool_calls']) ? message['tool_calls'] : []).entries()) {
    const block = callBlock(call, `${field}.tool_calls[${i}]`);
    if (!block.ok) return block;
    calls.push(block.value);
  }
  return ok([...state, ...text.value, ...calls]);
}

/** A thought as a block of this dialect, or null; OpenRouter wraps signed thinking in its own words. */
export function ownThought(entry: JsonObject): JsonObject | null {
  if (THINKING.has(wordOf(entry['type']))) return entry;
  const { signature } = entry;
  if (entry['type'] !== 'reasoning.text' || typeof signature !== 'string' || signature === '') return null;
  return { type: 'thinking', thinking: entry['text'] ?? '', signature };
}

function textBlocks(message: Message, field: string): Result<readonly JsonObject[]> {
  const content = message['content'] ?? '';
  const texts = (isList(content) ? content : [{ type: 'text', text: content }]).map((part, i) => ({ part, i }));
  const blocks: JsonObject[] = [];
  for (const { part, i } of texts) {
    const text: Json | undefined = isObject(part as Json) ? ((part as JsonObject)['text'] ?? (part as JsonObject)['refusal']) : undefined;
    if (typeof text !== 'string') {
      return cannotTranslate(`${field}.content[${i}]`, TO, 'an assistant says text only', 'send its content as text');
    }
    if (text !== '') blocks.push({ type: 'text', text });
  }
  const refusal = textOf(message['refusal']);
  if (refusal !== null && refusal !== '') blocks.push({ type: 'text', text: refusal });
  return ok(blocks);
}

function callBlock(call: Json, field: string): Result<JsonObject> {
  if (!isObject(call) || typeof call['name'] !== 'string') {
    return cannotTranslate(field, TO, 'it is no call of a function', 'use function tools');
  }
  if (call['type'] === 'custom') return cannotTranslate(field, TO, 'it has no tools that take free text', 'use function tools');
  const input = inputOf(textOf(call['arguments']) ?? '');
  return ok(fromPairs([['type', 'tool_use'], ['id', call['id'] ?? ''], ['name', call['name']], ['input', input]])); // prettier-ignore
}
