/** Neutral asks as requests for an engine of the Responses dialect. */
import { ok, type Result } from '../../../base/result.ts';
import { markedContent } from './chat-message.ts';
import type { Ask, Json, JsonObject, Message } from './dialect.ts';
import { effortOf } from './effort.ts';
import { compact, isList, isObject, textOf, wordOf } from './json.ts';
import { stateOf } from './provider-state.ts';
import { cannotTranslate, refuseRest, refuseSampling } from './refusals.ts';
import { writeAssistantItems } from './responses-assistant.ts';
import { writeResponsesContent } from './responses-content.ts';

const TO = 'openai.responses';
const SAYABLE: ReadonlySet<string> = new Set([
  'temperature', 'top_p', 'top_logprobs', 'parallel_tool_calls', 'truncation', 'max_tool_calls', 'max_tokens', 'max_completion_tokens', 'reasoning_effort',
  'reasoning', 'response_format', 'verbosity', 'text', 'n', 'thinking',
]); // prettier-ignore

export function writeResponsesAsk(ask: Ask): Result<JsonObject> {
  const same = ask.dialect === TO;
  const refused = refuseForeign(ask, same);
  if (!refused.ok) return refused;
  const sampling = { ...ask.sampling, ...effortOf(ask.sampling) };
  const lead = same || ask.instructions === 1 ? textOf(ask.messages[0]?.['content']) : null;
  const hasLead = lead !== null && ask.instructions === 1;
  const input = writeInput(ask, hasLead ? 1 : 0, same);
  if (!input.ok) return input;
  const reasoning = {
    ...(isObject(sampling['reasoning']) ? sampling['reasoning'] : {}),
    ...compact({ effort: sampling['reasoning_effort'] }),
  };
  const text = {
    ...(isObject(sampling['text']) ? sampling['text'] : {}),
    ...compact({ format: writeFormat(sampling['response_format']), verbosity: sampling['verbosity'] }),
  };
  const { temperature, top_p, top_logprobs, parallel_tool_calls, truncation, max_tool_calls } = sampling;
  return ok({
    ...(same ? ask.rest : { store: false }),
    model: ask.model,
    ...compact({
      instructions: hasLead ? lead : undefined,
      input: input.value,
      tools: ask.tools.length === 0 ? undefined : ask.tools.map(writeTool),
      tool_choice: writeChoice(ask.toolChoice),
      previous_response_id: ask.previousResponseId ?? undefined,
      max_output_tokens: sampling['max_completion_tokens'] ?? sampling['max_tokens'],
      temperature,
      top_p,
      top_logprobs,
      parallel_tool_calls,
      truncation,
      max_tool_calls,
      reasoning: Object.keys(reasoning).length === 0 ? undefined : reasoning,
      text: Object.keys(text).length === 0 ? undefined : text,
      stream: ask.stream ? true : undefined,
    }),
  });
}

function refuseForeign(ask: Ask, same: boolean): Result<null> {
  if (ask.n > 1) return cannotTranslate('n', TO, 'it gives one answer', 'ask n times');
  const refused = refuseSampling(ask.sampling, SAYABLE, TO);
  if (!refused.ok || same) return refused;
  if (ask.wants.logprobs) return cannotTranslate('logprobs', TO, 'log-probabilities are not translated', 'ask for none');
  for (const [i, tool] of ask.tools.entries()) {
    if (tool['type'] === 'function' || tool['type'] === 'custom') continue;
    return cannotTranslate(`tools[${i}]`, TO, `it has no tool of type ${wordOf(tool['type'])}`, 'offer it as a function of the harness');
  }
  const choice = ask.toolChoice;
  if (isObject(choice) && choice['type'] !== 'function' && choice['type'] !== 'custom') {
    return cannotTranslate('tool_choice', TO, 'it has no such choice', 'use auto, required, none or one tool');
  }
  return refuseRest(ask.rest, TO);
}

function writeFormat(format: Json | undefined): Json | undefined {
  if (!isObject(format) || format['type'] !== 'json_schema' || !isObject(format['json_schema'])) return format;
  return { type: 'json_schema', ...format['json_schema'] };
}

/** Strict is the default here and not in chat: it is always said. */
export function writeTool(tool: JsonObject): JsonObject {
  const { function: body, custom } = tool;
  if (tool['type'] === 'function' && isObject(body)) {
    const { name = '', description, parameters, strict } = body;
    return compact({ type: 'function', name, description, parameters: parameters ?? null, strict: strict ?? false });
  }
  if (tool['type'] === 'custom' && isObject(custom)) {
    const { name = '', description, format } = custom;
    const grammar = isObject(format) && isObject(format['grammar']) ? { type: 'grammar', ...format['grammar'] } : format;
    return compact({ type: 'custom', name, description, format: grammar });
  }
  return tool;
}

export function writeChoice(choice: Json | undefined): Json | undefined {
  if (!isObject(choice)) return choice;
  const body = choice['type'] === 'function' ? choice['function'] : choice['type'] === 'custom' ? choice['custom'] : undefined;
  return isObject(body) ? { type: choice['type'] as Json, name: body['name'] ?? '' } : choice;
}

function writeInput(ask: Ask, from: number, same: boolean): Result<readonly JsonObject[]> {
  const items: JsonObject[] = [];
  const custom = new Set<string>();
  for (const [i, message] of ask.messages.entries()) {
    if (i < from) continue;
    const written = writeMessage(message, `messages[${i}]`, same, custom);
    if (!written.ok) return written;
    items.push(...written.value);
    for (const call of isList(message['tool_calls']) ? message['tool_calls'] : []) {
      if (isObject(call) && call['type'] === 'custom') custom.add(wordOf(call['id']));
    }
  }
  return ok(items);
}

/** `custom` = ids of calls so far whose results have another item. */
function writeMessage(message: Message, field: string, same: boolean, custom: ReadonlySet<string>): Result<readonly JsonObject[]> {
  if (message.role === 'assistant') return writeAssistantItems(message, { field, same });
  if (message.role !== 'tool') {
    const content = writeResponsesContent(message['content'] ?? '', `${field}.content`, same);
    return content.ok ? ok([{ role: message.role, content: content.value }]) : content;
  }
  const state = stateOf(message);
  if (state.length > 0) {
    if (same) return ok(state);
    return cannotTranslate(field, TO, `it has no item for a result of type ${wordOf(state[0]?.['type'])}`, 'use function tools');
  }
  const output = writeResponsesContent(markedContent(message), `${field}.content`, same);
  if (!output.ok) return output;
  const id = textOf(message['tool_call_id']) ?? '';
  return ok([{ type: custom.has(id) ? 'custom_tool_call_output' : 'function_call_output', call_id: id, output: output.value }]);
}
