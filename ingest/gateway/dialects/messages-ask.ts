/** Requests of the Messages dialect (`POST /v1/messages`) to neutral form. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { readModel, readTools, withoutAll } from './chat-ask.ts';
import type { Ask, Json, JsonObject, Message } from './dialect.ts';
import { assistantOf, type Block } from './messages-assistant.ts';
import { readMessagesContent } from './messages-content.ts';
import { compact, isList, isObject, textOf, without } from './json.ts';
import { asksNothing } from './refusals.ts';

/** Parameters whose chat name is the same. */
const SAME_NAME = ['max_tokens', 'temperature', 'top_p', 'top_k', 'thinking'] as const;
const READ: ReadonlySet<string> = new Set([
  'model', 'messages', 'system', 'stream', 'tools', 'tool_choice', 'stop_sequences', 'output_config', 'output_format', ...SAME_NAME,
]); // prettier-ignore

export function parseMessagesAsk(body: JsonObject): Result<Ask> {
  const model = readModel(body);
  if (!model.ok) return model;
  const conversation = readConversation(body['messages']);
  if (!conversation.ok) return conversation;
  const tools = readTools(body);
  if (!tools.ok) return tools;
  const system = body['system'];
  const first: Message[] = asksNothing(system) ? [] : [{ role: 'system', content: readMessagesContent(system) }];
  return ok({
    dialect: 'anthropic.messages',
    model: model.value,
    stream: body['stream'] === true,
    n: 1,
    messages: [...first, ...conversation.value],
    instructions: first.length,
    tools: tools.value.map(readTool),
    toolChoice: readChoice(body['tool_choice']),
    sampling: readSampling(body),
    wants: { logprobs: false, topLogprobs: null, tokenIds: false, usageInStream: true },
    previousResponseId: null,
    rest: withoutAll(body, READ),
  });
}

function readSampling(body: JsonObject): JsonObject {
  const choice = body['tool_choice'];
  const config = isObject(body['output_config']) ? body['output_config'] : {};
  const format = config['format'] ?? body['output_format'];
  const others = without(config, new Set(['effort', 'format']));
  return compact({
    ...Object.fromEntries(SAME_NAME.map((name) => [name, body[name]])),
    stop: body['stop_sequences'],
    reasoning_effort: config['effort'] ?? undefined,
    response_format: isObject(format) ? readFormat(format) : undefined,
    output_config: Object.keys(others).length === 0 ? undefined : others,
    parallel_tool_calls: isObject(choice) && choice['disable_parallel_tool_use'] === true ? false : undefined,
  });
}

function readFormat(format: JsonObject): JsonObject {
  if (format['type'] !== 'json_schema') return format;
  return { type: 'json_schema', json_schema: { name: 'output', schema: format['schema'] ?? {}, strict: true } };
}

/** What a tool of the harness may have; with anything else it stays as it is. */
const TOOL_KEYS: ReadonlySet<string> = new Set([
  'name', 'description', 'input_schema', 'type', 'strict', 'cache_control', 'eager_input_streaming',
]); // prettier-ignore

function readTool(tool: JsonObject): JsonObject {
  const isPlain = Object.entries(tool).every(([key, value]) => TOOL_KEYS.has(key) || asksNothing(value));
  if (!isPlain || tool['input_schema'] === undefined || (tool['type'] ?? 'custom') !== 'custom') return tool;
  const { name = '', description, input_schema: parameters, strict } = tool;
  return { type: 'function', function: compact({ name, description, parameters, strict: strict ?? undefined }) };
}

function readChoice(choice: Json | undefined): Json | undefined {
  if (!isObject(choice)) return choice;
  switch (choice['type']) {
    case 'auto':
    case 'none':
      return choice['type'];
    case 'any':
      return 'required';
    case 'tool':
      return { type: 'function', function: { name: choice['name'] ?? '' } };
    default:
      return choice;
  }
}

function readConversation(raw: Json | undefined): Result<readonly Message[]> {
  if (raw === undefined) return fail('missing_field', 'messages is missing: send the conversation', 'messages');
  if (!isList(raw)) return fail('wrong_type', 'messages must be a list', 'messages');
  const messages: Message[] = [];
  for (const [i, turn] of raw.entries()) {
    const field = `messages[${i}]`;
    if (!isObject(turn)) return fail('wrong_type', `${field} must be an object`, field);
    const role = textOf(turn['role']);
    if (role === null) return fail('wrong_type', `${field}.role must be a text`, `${field}.role`);
    const content = turn['content'] ?? null;
    const wrong = isList(content) ? content.findIndex((block) => !isObject(block)) : -1;
    if (wrong >= 0) return fail('wrong_type', `${field}.content[${wrong}] must be an object`, `${field}.content[${wrong}]`);
    if (role === 'assistant') messages.push(readAssistant(content));
    else if (role === 'user') messages.push(...readUser(content));
    else messages.push({ role, content: readMessagesContent(content) });
  }
  return ok(messages);
}

function readAssistant(content: Json): Message {
  if (!isList(content)) return { role: 'assistant', content };
  return assistantOf((content as readonly JsonObject[]).map((json): Block => ({ json, inputText: null })));
}

/** Results of tools are messages of their own; what stands between them, user messages. */
function readUser(content: Json): Message[] {
  if (!isList(content)) return [{ role: 'user', content }];
  const messages: Message[] = [];
  let others: JsonObject[] = [];
  const flush = (): void => {
    if (others.length > 0) messages.push({ role: 'user', content: readMessagesContent(others) });
    others = [];
  };
  for (const block of content as readonly JsonObject[]) {
    if (block['type'] !== 'tool_result') {
      others.push(block);
      continue;
    }
    flush();
    messages.push(readResult(block));
  }
  flush();
  return messages.length > 0 ? messages : [{ role: 'user', content: [] }];
}

function readResult(block: JsonObject): Message {
  return {
    role: 'tool',
    tool_call_id: textOf(block['tool_use_id']) ?? '',
    content: readMessagesContent(block['content']),
    ...(block['is_error'] === true && { is_error: true }),
  };
}
