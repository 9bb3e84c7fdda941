/** Neutral asks as requests for an engine of the Messages dialect. */
import { ok, type Result } from '../../../base/result.ts';
import type { Ask, Json, JsonObject, Message } from './dialect.ts';
import { writeAssistantBlocks } from './messages-assistant.ts';
import { writeMessagesBlocks, writeMessagesContent } from './messages-content.ts';
import { compact, isObject, textOf, wordOf } from './json.ts';
import { asksNothing, cannotTranslate, refuseRest, refuseSampling } from './refusals.ts';

const TO = 'anthropic.messages';
/** Sampling that has a field here. */
const SAYABLE: ReadonlySet<string> = new Set([
  'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'top_k', 'stop', 'thinking', 'reasoning_effort', 'response_format', 'output_config',
  'parallel_tool_calls',
]); // prettier-ignore

export function writeMessagesAsk(ask: Ask): Result<JsonObject> {
  const same = ask.dialect === TO;
  const refused = refuseForeign(ask, same);
  if (!refused.ok) return refused;
  const system = writeSystem(ask, same);
  if (!system.ok) return system;
  const turns = writeTurns(ask, same);
  if (!turns.ok) return turns;
  const tools = writeTools(ask.tools, same);
  if (!tools.ok) return tools;
  const choice = writeChoice(ask, same);
  if (!choice.ok) return choice;
  const config = writeOutputConfig(ask.sampling);
  if (!config.ok) return config;
  const { sampling } = ask;
  const stop = sampling['stop'];
  return ok({
    ...(same ? ask.rest : {}),
    model: ask.model,
    ...compact({
      system: system.value.text,
      messages: turns.value,
      tools: tools.value.length === 0 ? undefined : tools.value,
      tool_choice: choice.value,
      max_tokens: sampling['max_completion_tokens'] ?? sampling['max_tokens'],
      temperature: sampling['temperature'],
      top_p: sampling['top_p'],
      top_k: sampling['top_k'],
      thinking: sampling['thinking'],
      stop_sequences: typeof stop === 'string' ? [stop] : (stop ?? undefined),
      output_config: config.value,
      stream: ask.stream ? true : undefined,
    }),
  });
}

function refuseForeign(ask: Ask, same: boolean): Result<null> {
  const { sampling } = ask;
  if (ask.n > 1) return cannotTranslate('n', TO, 'it gives one answer', 'ask n times');
  if (!same && (sampling['max_completion_tokens'] ?? sampling['max_tokens'] ?? null) === null) {
    return cannotTranslate('max_tokens', TO, 'it needs a limit', "set max_tokens in the request, or in the rollout's sampling");
  }
  if (ask.previousResponseId !== null) {
    return cannotTranslate('previous_response_id', TO, 'it keeps no responses', 'resolve it to the whole conversation first');
  }
  const refused = refuseSampling(sampling, SAYABLE, TO);
  return refused.ok && !same ? refuseRest(ask.rest, TO) : refused;
}

function isSystem(message: Message | undefined): boolean {
  return message?.role === 'system' || message?.role === 'developer';
}

/** The leading system messages; several are joined as blocks. */
function writeSystem(ask: Ask, same: boolean): Result<{ readonly text: Json | undefined }> {
  const leading = leadingSystem(ask, same);
  if (leading.length === 0) return ok({ text: undefined });
  if (leading.length === 1) {
    const content = writeMessagesContent(leading[0]?.['content'] ?? '', 'messages[0].content', same);
    return content.ok ? ok({ text: content.value }) : content;
  }
  const blocks: JsonObject[] = [];
  for (const [i, message] of leading.entries()) {
    const written = writeMessagesBlocks(message['content'] ?? '', `messages[${i}].content`, same);
    if (!written.ok) return written;
    blocks.push(...written.value);
  }
  return ok({ text: blocks });
}

/** Of a request of this dialect, only what came from `system`. */
function leadingSystem(ask: Ask, same: boolean): readonly Message[] {
  if (same) return ask.messages.slice(0, ask.instructions);
  const end = ask.messages.findIndex((message) => !isSystem(message));
  return end < 0 ? ask.messages : ask.messages.slice(0, end);
}

/** Results of tools, and the user message right behind them, are one turn. */
function writeTurns(ask: Ask, same: boolean): Result<readonly JsonObject[]> {
  const turns: JsonObject[] = [];
  let results: JsonObject[] = [];
  const flush = (): void => {
    if (results.length > 0) turns.push({ role: 'user', content: results });
    results = [];
  };
  for (let i = leadingSystem(ask, same).length; i < ask.messages.length; i++) {
    const message = ask.messages[i] as Message;
    const field = `messages[${i}]`;
    if (message.role === 'tool') {
      const result = writeResult(message, field, same);
      if (!result.ok) return result;
      results.push(result.value);
      continue;
    }
    if (message.role === 'user' && results.length > 0) {
      const blocks = writeMessagesBlocks(message['content'] ?? '', `${field}.content`, same);
      if (!blocks.ok) return blocks;
      results.push(...blocks.value);
      flush();
      continue;
    }
    flush();
    const turn = writeTurn(message, field, same);
    if (!turn.ok) return turn;
    turns.push(turn.value);
  }
  flush();
  return ok(turns);
}

function writeTurn(message: Message, field: string, same: boolean): Result<JsonObject> {
  if (message.role === 'assistant') {
    if (typeof message['content'] === 'string' && isOnlyText(message)) return ok({ role: 'assistant', content: message['content'] });
    const blocks = writeAssistantBlocks(message, { field, same, forHarness: false });
    return blocks.ok ? ok({ role: 'assistant', content: blocks.value }) : blocks;
  }
  if (message.role !== 'user' && !same) {
    const why = isSystem(message) ? 'it takes system text at the start only' : `it has no role ${message.role}`;
    return cannotTranslate(`${field}.role`, TO, why, 'send it as a user message');
  }
  const content = writeMessagesContent(message['content'] ?? '', `${field}.content`, same);
  return content.ok ? ok({ role: message.role, content: content.value }) : content;
}

function isOnlyText(message: Message): boolean {
  return ['reasoning_content', 'refusal', 'tool_calls', 'provider_state'].every((key) => asksNothing(message[key]));
}

function writeResult(message: Message, field: string, same: boolean): Result<JsonObject> {
  const content = writeMessagesContent(message['content'] ?? '', `${field}.content`, same);
  if (!content.ok) return content;
  const id = textOf(message['tool_call_id']) ?? '';
  return ok({
    type: 'tool_result',
    tool_use_id: id,
    ...(!asksNothing(message['content']) && { content: content.value }),
    ...(message['is_error'] === true && { is_error: true }),
  });
}

function writeTools(tools: readonly JsonObject[], same: boolean): Result<readonly JsonObject[]> {
  const written: JsonObject[] = [];
  for (const [i, tool] of tools.entries()) {
    const body = tool['function'];
    if (tool['type'] === 'function' && isObject(body)) {
      const { name = '', description, parameters, strict } = body;
      written.push(
        compact({
          name,
          description,
          input_schema: parameters ?? { type: 'object', properties: {} },
          strict: strict === null ? undefined : strict,
        }),
      );
    } else if (same) written.push(tool);
    else
      return cannotTranslate(`tools[${i}]`, TO, `it has no tool of type ${wordOf(tool['type'])}`, 'offer it as a function of the harness');
  }
  return ok(written);
}

function writeChoice(ask: Ask, same: boolean): Result<Json | undefined> {
  const serial = ask.sampling['parallel_tool_calls'] === false ? { disable_parallel_tool_use: true } : {};
  const choice = ask.toolChoice ?? (ask.tools.length > 0 && ask.sampling['parallel_tool_calls'] === false ? 'auto' : undefined);
  switch (choice) {
    case undefined:
      return ok(undefined);
    case 'auto':
      return ok({ type: 'auto', ...serial });
    case 'none':
      return ok({ type: 'none' });
    case 'required':
      return ok({ type: 'any', ...serial });
    default:
  }
  const named = isObject(choice) && choice['type'] === 'function' && isObject(choice['function']) ? choice['function']['name'] : undefined;
  if (typeof named === 'string') return ok({ type: 'tool', name: named, ...serial });
  if (same) return ok(choice);
  return cannotTranslate('tool_choice', TO, 'it has no such choice', 'use auto, required, none or one function');
}

function writeOutputConfig(sampling: JsonObject): Result<JsonObject | undefined> {
  const format = sampling['response_format'];
  const config: Record<string, Json> = isObject(sampling['output_config']) ? { ...sampling['output_config'] } : {};
  if (!asksNothing(sampling['reasoning_effort'])) config['effort'] = sampling['reasoning_effort'] as Json;
  if (isObject(format) && format['type'] === 'json_schema' && isObject(format['json_schema'])) {
    config['format'] = { type: 'json_schema', schema: format['json_schema']['schema'] ?? {} };
  } else if (isObject(format) && format['type'] !== 'text') {
    const remedy = 'give a schema (json_schema), or say it in the prompt';
    return cannotTranslate('response_format', TO, `it has no format of type ${wordOf(format['type'])}`, remedy);
  }
  return ok(Object.keys(config).length === 0 ? undefined : config);
}
