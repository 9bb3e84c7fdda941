/** Requests of the Responses dialect (`POST /v1/responses`) to neutral form. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { readModel, readTools, withoutAll } from './chat-ask.ts';
import type { Ask, Json, JsonObject, Message } from './dialect.ts';
import { compact, countOf, isList, isObject, textOf, without } from './json.ts';
import { asksNothing } from './refusals.ts';
import { assistantOf, typeOf } from './responses-assistant.ts';
import { readResponsesContent } from './responses-content.ts';

/** Parameters whose neutral name is the same. */
const SAME_NAME = ['temperature', 'top_p', 'top_logprobs', 'parallel_tool_calls', 'truncation', 'max_tool_calls'] as const;
const READ: ReadonlySet<string> = new Set([
  'model', 'input', 'instructions', 'stream', 'tools', 'tool_choice', 'previous_response_id', 'max_output_tokens', 'text', 'reasoning', ...SAME_NAME,
]); // prettier-ignore

export function parseResponsesAsk(body: JsonObject): Result<Ask> {
  const model = readModel(body);
  if (!model.ok) return model;
  const input = readInput(body['input']);
  if (!input.ok) return input;
  const tools = readTools(body);
  if (!tools.ok) return tools;
  const { instructions } = body;
  const first: Message[] = asksNothing(instructions) ? [] : [{ role: 'system', content: readResponsesContent(instructions) }];
  const include = isList(body['include']) ? body['include'] : [];
  return ok({
    dialect: 'openai.responses',
    model: model.value,
    stream: body['stream'] === true,
    n: 1,
    messages: [...first, ...input.value],
    instructions: first.length,
    tools: tools.value.map(readTool),
    toolChoice: readChoice(body['tool_choice']),
    sampling: readSampling(body),
    wants: {
      logprobs: include.includes('message.output_text.logprobs'),
      topLogprobs: countOf(body['top_logprobs']),
      tokenIds: false,
      usageInStream: true,
    },
    previousResponseId: textOf(body['previous_response_id']),
    rest: withoutAll(body, READ),
  });
}

function readSampling(body: JsonObject): JsonObject {
  const reasoning = isObject(body['reasoning']) ? body['reasoning'] : {};
  const text = isObject(body['text']) ? body['text'] : {};
  const [moreReasoning, moreText] = [without(reasoning, new Set(['effort'])), without(text, new Set(['format', 'verbosity']))];
  const given = compact({
    ...Object.fromEntries(SAME_NAME.map((name) => [name, body[name]])),
    max_completion_tokens: body['max_output_tokens'],
    reasoning_effort: reasoning['effort'],
    reasoning: Object.keys(moreReasoning).length === 0 ? undefined : moreReasoning,
    response_format: isObject(text['format']) ? readFormat(text['format']) : undefined,
    verbosity: text['verbosity'],
    text: Object.keys(moreText).length === 0 ? undefined : moreText,
  });
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null));
}

function readFormat(format: JsonObject): JsonObject {
  if (format['type'] !== 'json_schema') return format;
  return { type: 'json_schema', json_schema: without(format, new Set(['type'])) };
}

function readTool(tool: JsonObject): JsonObject {
  const { name, description, parameters, strict, format } = tool;
  if (tool['type'] === 'function') {
    const others = Object.entries(without(tool, FUNCTION_KEYS)).filter(([, value]) => !asksNothing(value));
    if (others.length > 0) return tool;
    return {
      type: 'function',
      function: compact({ name, description: description ?? undefined, parameters: parameters ?? undefined, strict: strict ?? undefined }),
    };
  }
  if (tool['type'] === 'custom') return { type: 'custom', custom: compact({ name, description, format: readGrammar(format) }) };
  return tool;
}

const FUNCTION_KEYS: ReadonlySet<string> = new Set(['type', 'name', 'description', 'parameters', 'strict']);

/** Chat wraps a grammar once more. */
function readGrammar(format: Json | undefined): Json | undefined {
  if (!isObject(format) || format['type'] !== 'grammar') return format;
  return { type: 'grammar', grammar: without(format, new Set(['type'])) };
}

function readChoice(choice: Json | undefined): Json | undefined {
  if (!isObject(choice) || typeof choice['name'] !== 'string') return choice;
  if (choice['type'] === 'function') return { type: 'function', function: { name: choice['name'] } };
  return choice['type'] === 'custom' ? { type: 'custom', custom: { name: choice['name'] } } : choice;
}

function readInput(input: Json | undefined): Result<readonly Message[]> {
  if (input === undefined || input === null) return ok([]); // a stored prompt, or only previous_response_id
  if (typeof input === 'string') return ok([{ role: 'user', content: input }]);
  if (!isList(input)) return fail('wrong_type', 'input must be a text or a list of items', 'input');
  const wrong = input.findIndex((item) => !isObject(item));
  if (wrong >= 0) return fail('wrong_type', `input[${wrong}] must be an object`, `input[${wrong}]`);
  return ok(messagesOf(input as readonly JsonObject[]));
}

/** Items in order: each run of assistant items is one message. */
export function messagesOf(items: readonly JsonObject[]): Message[] {
  const messages: Message[] = [];
  let run: JsonObject[] = [];
  const flush = (): void => {
    if (run.length > 0) messages.push(assistantOf(run));
    run = [];
  };
  for (const item of items) {
    if (isAssistant(item)) {
      run.push(item);
      continue;
    }
    flush();
    messages.push(readItem(item));
  }
  flush();
  return messages;
}

function isAssistant(item: JsonObject): boolean {
  if (item['role'] !== undefined) return item['role'] === 'assistant';
  return !/_output$|_response$/.test(typeOf(item));
}

function readItem(item: JsonObject): Message {
  const role = textOf(item['role']);
  if (role !== null) return { role, content: readResponsesContent(item['content']) };
  const id = textOf(item['call_id']) ?? textOf(item['approval_request_id']) ?? '';
  const type = typeOf(item);
  const content = readResponsesContent(item['output']);
  if (type === 'function_call_output' || type === 'custom_tool_call_output') return { role: 'tool', tool_call_id: id, content };
  return { role: 'tool', tool_call_id: id, content: typeof content === 'string' ? content : null, provider_state: [item] };
}
