/** The parts of a message that become columns. Works on both common shapes: content as text or as a list of typed parts. */
import { jsonText } from './json-text.ts';

export type MessageParts = {
  /** The text a person reads; parts joined by a line feed. null when the message has none. */
  text: string | null;
  reasoning: string | null;
  /** The field of the message that holds the reasoning. */
  reasoningKey: 'reasoning_content' | 'reasoning';
  toolCallId: string | null;
  toolIds: string[];
  toolNames: string[];
  toolArguments: string[];
};

type Free = Readonly<Record<string, unknown>>;
const TEXT_PARTS = new Set(['text', 'input_text', 'output_text']);
const REASONING_PARTS = new Set(['thinking', 'reasoning', 'reasoning_text', 'summary_text']);
const TOOL_PARTS = new Set(['tool_use', 'tool_call', 'function_call']);

export function messageParts(message: Free | null | undefined): MessageParts {
  const parts: MessageParts = {
    text: null,
    reasoning: null,
    reasoningKey: 'reasoning_content',
    toolCallId: null,
    toolIds: [],
    toolNames: [],
    toolArguments: [],
  };
  if (message === null || message === undefined) return parts;
  const { content } = message;
  if (typeof content === 'string') parts.text = content;
  else if (Array.isArray(content)) for (const part of content as unknown[]) addPart(parts, part);
  if (typeof message['reasoning_content'] !== 'string') parts.reasoningKey = 'reasoning';
  const reasoning = message[parts.reasoningKey];
  if (typeof reasoning === 'string') parts.reasoning = reasoning;
  const id = message['tool_call_id'];
  if (typeof id === 'string') parts.toolCallId = id;
  const calls = message['tool_calls'];
  if (Array.isArray(calls)) for (const call of calls as unknown[]) if (isFree(call)) addCall(parts, call);
  return parts;
}

function addPart(parts: MessageParts, part: unknown): void {
  if (typeof part === 'string') parts.text = join(parts.text, part);
  if (!isFree(part)) return;
  const type = typeof part['type'] === 'string' ? part['type'] : 'text';
  if (TEXT_PARTS.has(type) && typeof part['text'] === 'string') parts.text = join(parts.text, part['text']);
  else if (REASONING_PARTS.has(type)) {
    const thought = part['thinking'] ?? part['text'] ?? part['reasoning'];
    if (typeof thought === 'string') parts.reasoning = join(parts.reasoning, thought);
  } else if (TOOL_PARTS.has(type)) addCall(parts, part);
  else if (type === 'tool_result' && typeof part['tool_use_id'] === 'string') parts.toolCallId ??= part['tool_use_id'];
}

/** `{id, function: {name, arguments}}` (chat), `{id, name, arguments}` (verifiers) and `{id, name, input}` (Anthropic). */
function addCall(parts: MessageParts, call: Free): void {
  const inner = isFree(call['function']) ? call['function'] : call;
  const given = inner['arguments'] ?? inner['input'];
  parts.toolIds.push(textOf(call['id'] ?? call['call_id']));
  parts.toolNames.push(textOf(inner['name']));
  parts.toolArguments.push(typeof given === 'string' ? given : (jsonText(given) ?? ''));
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (jsonText(value) ?? '');
}

function join(before: string | null, more: string): string {
  return before === null ? more : `${before}\n${more}`;
}

function isFree(value: unknown): value is Free {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
