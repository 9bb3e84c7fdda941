/**
 * Arguments of a tool call: text in neutral form (the model's own, JSON or not), an object in the Messages dialect. Text that spells no object (or
 * spells a key twice) travels as `{"__invalid_json__": text}`, so that the harness sees it, refuses it, and it is the same text when it comes back.
 */
import type { Json, JsonObject } from './dialect.ts';
import { isObject, readJson, readStrict, writeJson } from './json.ts';

export const INVALID_KEY = '__invalid_json__';

/** The object for a tool_use block. Empty text is an empty object. */
export function inputOf(text: string): JsonObject {
  if (text.trim() === '') return {};
  const read = text.isWellFormed() ? readStrict(Buffer.from(text)) : null;
  if (read === null || !read.ok || !isObject(read.value) || isCarrier(read.value)) return { [INVALID_KEY]: text };
  return read.value;
}

/** An object that carries text; a model that writes one itself is carried once more. */
function isCarrier(input: JsonObject): boolean {
  return typeof input[INVALID_KEY] === 'string' && Object.keys(input).length === 1;
}

/** The text to stream as the input of a tool_use block: the model's own where it spells an object. */
export function inputText(text: string): string {
  const input = inputOf(text);
  return Object.hasOwn(input, INVALID_KEY) ? writeJson(input) : text;
}

/** The arguments that a tool_use block's input stands for. */
export function argumentsOf(input: Json | undefined): string {
  if (!isObject(input)) return input === undefined || input === null ? '{}' : writeJson(input);
  return isCarrier(input) ? (input[INVALID_KEY] as string) : writeJson(input);
}

/** The arguments that a streamed input stands for: its text, or the text that it carries. */
export function streamedArguments(text: string): string {
  if (!text.startsWith(`{"${INVALID_KEY}":`)) return text;
  const read = readJson(text);
  return read.ok ? argumentsOf(read.value) : text;
}
