/** Answers of the Responses dialect (one body, not a stream) to neutral form and back. */
import { fail, ok, type Result } from '../../../base/result.ts';
import type { Answer, Ask, Json, JsonObject, Message, Naming, Usage } from './dialect.ts';
import { fromResponses, toResponses, type Finish } from './finish.ts';
import { isList, isObject, textOf } from './json.ts';
import { isLaidOut, isThought, originOf, refuseState, stateOf } from './provider-state.ts';
import { cannotTranslate } from './refusals.ts';
import { assistantOf, callItem, typeOf } from './responses-assistant.ts';
import { writeChoice, writeTool } from './responses-request.ts';
import { sealState } from './sealed-state.ts';
import { readResponsesUsage, writeResponsesUsage } from './usage.ts';

const TO = 'openai.responses';

/** Problems: `malformed_stream` when there is no output to read. */
export function parseResponsesAnswer(body: JsonObject): Result<Answer> {
  const { output } = body;
  if (!isList(output)) return fail('malformed_stream', 'the answer has no list of output', 'output');
  const wrong = output.findIndex((item) => !isObject(item));
  if (wrong >= 0) return fail('malformed_stream', `output[${wrong}] must be an object`, `output[${wrong}]`);
  return ok(answerFrom(body, output as readonly JsonObject[]));
}

/** The answer of a response object with these items as its output. */
export function answerFrom(response: JsonObject, items: readonly JsonObject[]): Answer {
  return {
    ...responseHead(response),
    choices: [{ index: 0, message: assistantOf(items), ...finishFrom(response, items) }],
    usage: readResponsesUsage(response['usage']),
  };
}

export function responseHead(response: JsonObject): { readonly id: string; readonly model: string; readonly created: number } {
  const created = response['created_at'];
  return { id: textOf(response['id']) ?? '', model: textOf(response['model']) ?? '', created: typeof created === 'number' ? created : 0 };
}

export function finishFrom(response: JsonObject, items: readonly JsonObject[]): Finish {
  const details = response['incomplete_details'];
  const reason = isObject(details) ? textOf(details['reason']) : null;
  const hasCalls = items.some((item) => typeOf(item) === 'function_call' || typeOf(item) === 'custom_tool_call');
  return fromResponses(textOf(response['status']), reason, hasCalls);
}

export function writeResponsesAnswer(answer: Answer, ask: Ask, naming: Naming): Result<JsonObject> {
  const [choice, ...others] = answer.choices;
  if (choice === undefined || others.length > 0) return cannotTranslate('the answer', TO, 'it has exactly one', 'ask with n = 1');
  const finish = statusOf(choice);
  if (!finish.ok) return finish;
  const refused = isLaidOut(choice.message, TO) ? null : refuseState(choice.message, 'the answer', TO, true);
  if (refused !== null) return refused;
  const id = naming.newId('resp_');
  const output = outputItems(choice.message, ask, naming, finish.value.status);
  const model = answer.model === '' ? ask.model : answer.model;
  return ok(responseObject({ id, created: naming.nowSeconds(), model, ask, output, usage: answer.usage, ...finish.value }));
}

/** A status is required: a reason that has no word here is refused. */
export function statusOf(finish: Finish): Result<NonNullable<ReturnType<typeof toResponses>>> {
  const status = toResponses(finish);
  if (status !== null) return ok(status);
  return cannotTranslate(`finish reason ${String(finish.finishReason)}`, TO, 'it has no such status', 'see the recorded call');
}

export type ResponseFacts = {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly ask: Ask;
  readonly status: string;
  readonly incomplete: string | null;
  readonly output: readonly JsonObject[];
  readonly usage: Usage | null;
};

/** The response object; what the request said is echoed, as the API does. */
export function responseObject(facts: ResponseFacts): JsonObject {
  const { ask } = facts;
  const { sampling, rest } = ask;
  const echo = (key: string, otherwise: Json): Json => sampling[key] ?? rest[key] ?? otherwise;
  const format = sampling['response_format'];
  const schema = isObject(format) && isObject(format['json_schema']) ? { type: 'json_schema', ...format['json_schema'] } : format;
  return {
    id: facts.id,
    object: 'response',
    created_at: facts.created,
    status: facts.status,
    background: false,
    error: null,
    incomplete_details: facts.incomplete === null ? null : { reason: facts.incomplete },
    instructions: ask.instructions > 0 ? (ask.messages[0]?.['content'] ?? null) : null,
    max_output_tokens: sampling['max_completion_tokens'] ?? sampling['max_tokens'] ?? null,
    max_tool_calls: echo('max_tool_calls', null),
    model: facts.model,
    output: facts.output,
    parallel_tool_calls: echo('parallel_tool_calls', true),
    previous_response_id: ask.previousResponseId,
    reasoning: { effort: sampling['reasoning_effort'] ?? null, summary: null },
    store: echo('store', true),
    temperature: echo('temperature', null),
    text: { format: schema ?? { type: 'text' } },
    tool_choice: writeChoice(ask.toolChoice) ?? 'auto',
    tools: ask.tools.map(writeTool),
    top_p: echo('top_p', null),
    truncation: echo('truncation', 'disabled'),
    usage: facts.usage === null ? null : writeResponsesUsage(facts.usage),
    metadata: echo('metadata', {}),
  };
}

/** Output items of a neutral message: reasoning, message, calls. */
function outputItems(message: Message, ask: Ask, naming: Naming, status: string): readonly JsonObject[] {
  if (isLaidOut(message, TO)) return stateOf(message).filter((entry) => originOf(entry) === TO);
  const items: JsonObject[] = [];
  const reasoning = textOf(message['reasoning_content']) ?? '';
  const state = stateOf(message).filter(isThought);
  if (reasoning !== '' || state.length > 0) items.push(reasoningItem(naming.newId('rs_'), reasoning, state, ask));
  const content: JsonObject[] = textsOf(message['content']).map((text) => textPart(text));
  const refusal = textOf(message['refusal']) ?? '';
  if (refusal !== '') content.push({ type: 'refusal', refusal });
  const calls = isList(message['tool_calls']) ? message['tool_calls'].filter(isObject) : [];
  if (content.length > 0 || calls.length === 0) items.push(messageItem(naming.newId('msg_'), content, status));
  for (const call of calls)
    items.push({ ...callItem(call), id: naming.newId(call['type'] === 'custom' ? 'ctc_' : 'fc_'), status: 'completed' });
  return items;
}

function textsOf(content: Json | undefined): string[] {
  if (typeof content === 'string') return content === '' ? [] : [content];
  return (isList(content) ? content : []).flatMap((part) => (isObject(part) && typeof part['text'] === 'string' ? [part['text']] : []));
}

export function textPart(text: string): JsonObject {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

export function messageItem(id: string, content: readonly JsonObject[], status: string): JsonObject {
  return { id, type: 'message', role: 'assistant', status, content };
}

/** Harnesses that keep no server state ask for encrypted content and drop the text: then the text is sealed in it, and other dialects' state always. */
export function reasoningItem(id: string, text: string, state: readonly JsonObject[], ask: Ask): JsonObject {
  const include = ask.rest['include'];
  const isAsked = isList(include) && include.includes('reasoning.encrypted_content');
  const sealed = isAsked || state.length > 0 ? { encrypted_content: sealState({ text: text === '' ? null : text, state }) } : {};
  return { id, type: 'reasoning', summary: [], content: text === '' ? [] : [{ type: 'reasoning_text', text }], ...sealed };
}
