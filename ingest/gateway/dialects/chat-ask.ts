/** Requests of the chat dialect (`POST /v1/chat/completions`) to neutral form and back. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { readChatMessage, writeChatMessage } from './chat-message.ts';
import type { Ask, Json, JsonObject, Message } from './dialect.ts';
import { effortOf } from './effort.ts';
import { compact, countOf, fromPairs, isList, isObject, textOf, without, wordOf } from './json.ts';
import { cannotTranslate, refuseRest, refuseSampling } from './refusals.ts';

/** Parameters of sampling under their chat names, those of vLLM and SGLang included. */
export const CHAT_SAMPLING: ReadonlySet<string> = new Set([
  'temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'max_completion_tokens', 'stop', 'seed', 'n', 'logprobs', 'top_logprobs', 'logit_bias',
  'frequency_penalty', 'presence_penalty', 'repetition_penalty', 'response_format', 'reasoning_effort', 'parallel_tool_calls', 'verbosity',
  'stop_token_ids', 'min_tokens', 'ignore_eos', 'bad_words', 'allowed_token_ids', 'skip_special_tokens', 'include_stop_str_in_output',
]); // prettier-ignore
const READ: ReadonlySet<string> = new Set(['model', 'messages', 'stream', 'tools', 'tool_choice', 'return_token_ids']);

export function parseChatAsk(body: JsonObject): Result<Ask> {
  const model = readModel(body);
  if (!model.ok) return model;
  const messages = readMessages(body['messages']);
  if (!messages.ok) return messages;
  const tools = readTools(body);
  if (!tools.ok) return tools;
  const options = body['stream_options'];
  return ok({
    dialect: 'openai.chat',
    model: model.value,
    stream: body['stream'] === true,
    n: countOf(body['n']) ?? 1,
    messages: messages.value,
    instructions: 0,
    tools: tools.value,
    toolChoice: body['tool_choice'],
    sampling: pick(body, CHAT_SAMPLING),
    wants: {
      logprobs: body['logprobs'] === true,
      topLogprobs: countOf(body['top_logprobs']),
      tokenIds: body['return_token_ids'] === true,
      usageInStream: isObject(options) && options['include_usage'] === true,
    },
    previousResponseId: null,
    rest: withoutAll(body, READ, CHAT_SAMPLING),
  });
}

/** Shared by all dialects: the model is a text. */
export function readModel(body: JsonObject): Result<string> {
  const model = body['model'];
  if (model === undefined) return fail('missing_field', 'model is missing: name the model', 'model');
  return typeof model === 'string' ? ok(model) : fail('wrong_type', 'model must be a text', 'model');
}

/** Shared by all dialects: a list of objects, or nothing. */
export function readTools(body: JsonObject): Result<readonly JsonObject[]> {
  const tools = body['tools'] ?? [];
  if (!isList(tools)) return fail('wrong_type', 'tools must be a list', 'tools');
  const wrong = tools.findIndex((tool) => !isObject(tool));
  return wrong < 0 ? ok(tools as readonly JsonObject[]) : fail('wrong_type', `tools[${wrong}] must be an object`, `tools[${wrong}]`);
}

export function pick(body: JsonObject, keys: ReadonlySet<string>): JsonObject {
  return fromPairs(Object.entries(body).filter(([key]) => keys.has(key)));
}

export function withoutAll(body: JsonObject, ...sets: readonly ReadonlySet<string>[]): JsonObject {
  return sets.reduce(without, body);
}

function readMessages(raw: Json | undefined): Result<readonly Message[]> {
  if (raw === undefined) return fail('missing_field', 'messages is missing: send the conversation', 'messages');
  if (!isList(raw)) return fail('wrong_type', 'messages must be a list', 'messages');
  const messages: Message[] = [];
  for (const [i, message] of raw.entries()) {
    const field = `messages[${i}]`;
    if (!isObject(message)) return fail('wrong_type', `${field} must be an object`, field);
    if (textOf(message['role']) === null) return fail('wrong_type', `${field}.role must be a text`, `${field}.role`);
    messages.push(readChatMessage(message));
  }
  return ok(messages);
}

export function writeChatAsk(ask: Ask): Result<JsonObject> {
  const same = ask.dialect === 'openai.chat';
  if (!same) {
    const problem = refuseForeign(ask);
    if (!problem.ok) return problem;
  }
  const messages: Json[] = [];
  for (const [i, message] of ask.messages.entries()) {
    const written = writeChatMessage(message, `messages[${i}]`, ask.dialect);
    if (!written.ok) return written;
    messages.push(written.value);
  }
  return ok({
    model: ask.model,
    messages,
    ...(ask.tools.length > 0 && { tools: ask.tools }),
    ...compact({ tool_choice: ask.tools.length > 0 || same ? ask.toolChoice : undefined }),
    ...(same ? ask.sampling : foreignSampling(ask)),
    ...(same ? ask.rest : {}),
    ...(ask.stream && { stream: true, ...streamOptions(ask, same) }),
    ...(ask.wants.tokenIds && { return_token_ids: true }),
  });
}

/** Other dialects always report usage at the end of a stream. */
function streamOptions(ask: Ask, same: boolean): JsonObject {
  const given = same && isObject(ask.rest['stream_options']) ? ask.rest['stream_options'] : {};
  return ask.wants.usageInStream || !same ? { stream_options: { ...given, include_usage: true } } : {};
}

function refuseForeign(ask: Ask): Result<null> {
  const to = 'openai.chat';
  if (ask.previousResponseId !== null) {
    const remedy = 'resolve it to the whole conversation first';
    return cannotTranslate('previous_response_id', to, 'it keeps no responses', remedy);
  }
  for (const [i, tool] of ask.tools.entries()) {
    if (tool['type'] === 'function' || tool['type'] === 'custom') continue;
    const remedy = 'offer it as a function of the harness, or use an engine that speaks the same dialect';
    return cannotTranslate(`tools[${i}]`, to, `a tool of type ${wordOf(tool['type'])} runs at the provider`, remedy);
  }
  if (isObject(ask.toolChoice) && ask.toolChoice['type'] !== 'function' && ask.toolChoice['type'] !== 'custom') {
    return cannotTranslate(
      'tool_choice',
      to,
      `it has no choice of type ${wordOf(ask.toolChoice['type'])}`,
      'use auto, required, none or one tool',
    );
  }
  if (ask.wants.logprobs) return cannotTranslate('logprobs', to, 'log-probabilities are not translated', 'ask for none');
  const refused = refuseSampling(ask.sampling, FOREIGN_SAMPLING, to);
  return refused.ok ? refuseRest(ask.rest, to) : refused;
}

const FOREIGN_SAMPLING: ReadonlySet<string> = new Set([...CHAT_SAMPLING, 'thinking']);

/** Of a request in another dialect: its parameters under chat names. */
function foreignSampling({ sampling, tools }: Ask): JsonObject {
  const named = pick({ ...sampling, ...effortOf(sampling) }, CHAT_SAMPLING);
  return tools.length > 0 ? named : without(named, new Set(['parallel_tool_calls'])); // refused without tools
}
