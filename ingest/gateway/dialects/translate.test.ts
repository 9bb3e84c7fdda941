/** What maps to what, by value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeSse } from '../sse/sse-encoder.ts';
import { continueResponse } from './continue-response.ts';
import type { Answer, Ask, Delta, DialectName, Json, JsonObject, Message } from './dialect.ts';
import { DIALECTS } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { isList } from './json.ts';
import { comparable } from './message-hash.ts';
import { eventsOf, testNaming, value } from './recorded-logs.arbitrary.ts';
import { openState, sealState } from './sealed-state.ts';

const CHAT = 'openai.chat';
const RESPONSES = 'openai.responses';
const MESSAGES = 'anthropic.messages';

function told(body: JsonObject, from: DialectName, to: DialectName): JsonObject {
  return value(dialectOf(to).writeAsk(value(dialectOf(from).parseAsk(body))));
}

/** The field that cannot be said. */
function refusal(body: JsonObject, from: DialectName, to: DialectName): string | null {
  const written = dialectOf(to).writeAsk(value(dialectOf(from).parseAsk(body)));
  if (!written.ok) assert.equal(written.error.code, 'cannot_translate');
  return written.ok ? null : (written.error.field ?? '');
}

const MESSAGES_BODY: JsonObject = {
  model: 'm',
  max_tokens: 100,
  system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }, { type: 'text', text: 'Be kind.' }],
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'Look' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }, { type: 'image', source: { type: 'url', url: 'https://e.org/a.png' } }] },
    { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm.', signature: 'tapedeck.unsigned' }, { type: 'text', text: 'I look.' }, { type: 'tool_use', id: 't1', name: 'see', input: { at: 1 } }, { type: 'tool_use', id: 't2', name: 'see', input: {} }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1', content: [{ type: 'text', text: 'ok' }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'BBBB' } }] }, { type: 'tool_result', tool_use_id: 't2', is_error: true, content: 'no file' }, { type: 'text', text: 'And?' }] },
  ],
  tools: [{ name: 'see', description: 'Sees.', input_schema: { type: 'object', properties: { at: { type: 'integer' } } }, cache_control: { type: 'ephemeral' } }],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  temperature: 0.5,
  top_k: 3,
  stop_sequences: ['END'],
  thinking: { type: 'enabled', budget_tokens: 5000 },
  metadata: { user_id: 'u' },
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
  stream: true,
}; // prettier-ignore

test('a Messages request for a chat engine', () => {
  assert.deepEqual(told(MESSAGES_BODY, MESSAGES, CHAT), {
    model: 'm',
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'Be brief.' }, { type: 'text', text: 'Be kind.' }] },
      { role: 'user', content: [{ type: 'text', text: 'Look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }, { type: 'image_url', image_url: { url: 'https://e.org/a.png' } }] },
      { role: 'assistant', content: 'I look.', reasoning_content: 'Hm.', reasoning: 'Hm.', tool_calls: [{ id: 't1', type: 'function', function: { name: 'see', arguments: '{"at":1}' } }, { id: 't2', type: 'function', function: { name: 'see', arguments: '{}' } }] },
      { role: 'tool', tool_call_id: 't1', content: [{ type: 'text', text: 'ok' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,BBBB' } }] },
      { role: 'tool', tool_call_id: 't2', content: 'Error: no file' },
      { role: 'user', content: 'And?' },
    ],
    tools: [{ type: 'function', function: { name: 'see', description: 'Sees.', parameters: { type: 'object', properties: { at: { type: 'integer' } } } } }],
    tool_choice: 'required',
    max_tokens: 100,
    temperature: 0.5,
    top_k: 3,
    stop: ['END'],
    response_format: { type: 'json_schema', json_schema: { name: 'output', schema: { type: 'object' }, strict: true } },
    parallel_tool_calls: false,
    reasoning_effort: 'medium',
    stream: true,
    stream_options: { include_usage: true },
  }); // prettier-ignore
});

const RESPONSES_BODY: JsonObject = {
  model: 'm',
  instructions: 'Be brief.',
  input: [
    { role: 'developer', content: 'Rules.' },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Look' }, { type: 'input_image', image_url: 'data:image/png;base64,AAAA', detail: 'high' }, { type: 'input_file', filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' }] },
    { type: 'reasoning', id: 'rs_1', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] },
    { type: 'message', role: 'assistant', id: 'msg_1', status: 'completed', content: [{ type: 'output_text', text: 'I look.', annotations: [] }] },
    { type: 'function_call', id: 'fc_1', call_id: 'c1', name: 'see', arguments: '{"at": 1}', status: 'completed' },
    { type: 'custom_tool_call', id: 'ct_1', call_id: 'c2', name: 'patch', input: '*** Begin' },
    { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'ok' }, { type: 'input_image', image_url: 'https://e.org/a.png' }] },
    { type: 'custom_tool_call_output', call_id: 'c2', output: 'done' },
  ],
  tools: [{ type: 'function', name: 'see', description: null, parameters: { type: 'object' }, strict: true }, { type: 'custom', name: 'patch', description: 'Patches.', format: { type: 'grammar', syntax: 'lark', definition: 'x' } }],
  tool_choice: { type: 'function', name: 'see' },
  parallel_tool_calls: true,
  max_output_tokens: 50,
  reasoning: { effort: 'low', summary: 'auto' },
  text: { format: { type: 'json_schema', name: 'out', schema: { type: 'object' }, strict: true }, verbosity: 'low' },
  include: ['reasoning.encrypted_content'],
  store: false,
  prompt_cache_key: 'k',
}; // prettier-ignore

test('a Responses request for a chat engine', () => {
  assert.deepEqual(told(RESPONSES_BODY, RESPONSES, CHAT), {
    model: 'm',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: 'Rules.' },
      { role: 'user', content: [{ type: 'text', text: 'Look' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'high' } }, { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } }] },
      { role: 'assistant', content: 'I look.', reasoning_content: 'Hm.', reasoning: 'Hm.', tool_calls: [{ id: 'c1', type: 'function', function: { name: 'see', arguments: '{"at": 1}' } }, { id: 'c2', type: 'custom', custom: { name: 'patch', input: '*** Begin' } }] },
      { role: 'tool', tool_call_id: 'c1', content: [{ type: 'text', text: 'ok' }, { type: 'image_url', image_url: { url: 'https://e.org/a.png' } }] },
      { role: 'tool', tool_call_id: 'c2', content: 'done' },
    ],
    tools: [{ type: 'function', function: { name: 'see', parameters: { type: 'object' }, strict: true } }, { type: 'custom', custom: { name: 'patch', description: 'Patches.', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } } }],
    tool_choice: { type: 'function', function: { name: 'see' } },
    parallel_tool_calls: true,
    max_completion_tokens: 50,
    reasoning_effort: 'low',
    response_format: { type: 'json_schema', json_schema: { name: 'out', schema: { type: 'object' }, strict: true } },
    verbosity: 'low',
  }); // prettier-ignore
});

const CHAT_BODY: JsonObject = {
  model: 'm',
  messages: [
    { role: 'system', content: 'A' },
    { role: 'developer', content: 'B' },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/jpeg;base64,AAAA', detail: 'auto' } }] },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: 'not json' } }] },
    { role: 'tool', tool_call_id: 'c1', content: 'r' },
    { role: 'user', content: 'go' },
  ],
  tools: [{ type: 'function', function: { name: 'f' } }],
  tool_choice: 'auto',
  max_completion_tokens: 9,
  stop: 'END',
  n: 1,
  frequency_penalty: 0,
  reasoning_effort: 'high',
  response_format: { type: 'text' },
  user: 'u',
};

test('a chat request for an Anthropic engine', () => {
  assert.deepEqual(told(CHAT_BODY, CHAT, MESSAGES), {
    model: 'm',
    system: [{ type: 'text', text: 'A' }, { type: 'text', text: 'B' }],
    messages: [
      { role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/jpeg', data: 'AAAA' } }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'f', input: { __invalid_json__: 'not json' } }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'r' }, { type: 'text', text: 'go' }] },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
    tool_choice: { type: 'auto' },
    max_tokens: 9,
    stop_sequences: ['END'],
    output_config: { effort: 'high' },
  }); // prettier-ignore
});

test('a chat request for a Responses engine', () => {
  const { stop: _stop, ...body } = CHAT_BODY;
  assert.deepEqual(told(body, CHAT, RESPONSES), {
    model: 'm',
    store: false,
    input: [
      { role: 'system', content: 'A' },
      { role: 'developer', content: 'B' },
      { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/jpeg;base64,AAAA', detail: 'auto' }] },
      { type: 'function_call', call_id: 'c1', name: 'f', arguments: 'not json' },
      { type: 'function_call_output', call_id: 'c1', output: 'r' },
      { role: 'user', content: 'go' },
    ],
    tools: [{ type: 'function', name: 'f', parameters: null, strict: false }],
    tool_choice: 'auto',
    max_output_tokens: 9,
    reasoning: { effort: 'high' },
    text: { format: { type: 'text' } },
  });
});

test('what another dialect cannot say is refused, with its field', () => {
  const chat = (more: JsonObject, messages: Json = []): JsonObject => ({ model: 'm', messages, max_tokens: 5, ...more });
  const anthropic = (more: JsonObject): JsonObject => ({ model: 'm', messages: [], max_tokens: 5, ...more });
  const responses = (more: JsonObject): JsonObject => ({ model: 'm', input: [], ...more });
  const assistant = (fields: JsonObject): Json => [{ role: 'assistant', content: 'x', ...fields }];
  const cases: [JsonObject, DialectName, DialectName, string][] = [
    [{ model: 'm', messages: [] }, CHAT, MESSAGES, 'max_tokens'],
    [chat({ n: 2 }), CHAT, MESSAGES, 'n'],
    [chat({ n: 2 }), CHAT, RESPONSES, 'n'],
    [chat({ seed: 7 }), CHAT, MESSAGES, 'seed'],
    [chat({ stop: ['x'] }), CHAT, RESPONSES, 'stop'],
    [chat({ logprobs: true }), CHAT, MESSAGES, 'logprobs'],
    [chat({ logit_bias: { 5: 1 } }), CHAT, RESPONSES, 'logit_bias'],
    [chat({ presence_penalty: 0.5 }), CHAT, MESSAGES, 'presence_penalty'],
    [chat({ response_format: { type: 'json_object' } }), CHAT, MESSAGES, 'response_format'],
    [chat({ tools: [{ type: 'custom', custom: { name: 'x' } }] }), CHAT, MESSAGES, 'tools[0]'],
    [chat({ web_search_options: { x: 1 } }), CHAT, MESSAGES, 'web_search_options'],
    [chat({ chat_template_kwargs: { enable_thinking: false } }), CHAT, RESPONSES, 'chat_template_kwargs'],
    [chat({ modalities: ['text', 'audio'] }), CHAT, RESPONSES, 'modalities'],
    [chat({}, [{ role: 'user', content: 'a' }, { role: 'system', content: 'b' }]), CHAT, MESSAGES, 'messages[1].role'],
    [chat({}, [{ role: 'user', content: [{ type: 'input_audio', input_audio: {} }] }]), CHAT, MESSAGES, 'messages[0].content[0]'],
    [chat({}, [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png,x' } }] }]), CHAT, MESSAGES, 'messages[0].content[0].image_url.url'],
    [chat({}, [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://e.org', detail: 'low' } }] }]), CHAT, MESSAGES, 'messages[0].content[0].image_url.detail'],
    [chat({}, [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }]), CHAT, MESSAGES, 'messages[0].content[0]'],
    [chat({}, assistant({ reasoning_content: 'hm' })), CHAT, MESSAGES, 'messages[0].reasoning_content'],
    [chat({}, assistant({ reasoning_content: 'hm' })), CHAT, RESPONSES, 'messages[0].reasoning_content'],
    [chat({}, assistant({ reasoning_details: [{ type: 'reasoning.encrypted', data: 'x' }] })), CHAT, MESSAGES, 'messages[0] (reasoning.encrypted)'],
    [anthropic({ tools: [{ type: 'bash_20250124', name: 'bash' }] }), MESSAGES, CHAT, 'tools[0]'],
    [anthropic({ tools: [{ name: 'x', input_schema: {}, defer_loading: true }] }), MESSAGES, CHAT, 'tools[0]'],
    [anthropic({ mcp_servers: [{ type: 'url' }] }), MESSAGES, CHAT, 'mcp_servers'],
    [anthropic({ container: 'c' }), MESSAGES, CHAT, 'container'],
    [anthropic({ context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] } }), MESSAGES, CHAT, 'context_management'],
    [anthropic({ output_config: { task_budget: { total: 5 } } }), MESSAGES, CHAT, 'output_config'],
    [anthropic({ messages: [{ role: 'user', content: [{ type: 'document', source: { type: 'text', data: 'x' } }] }] }), MESSAGES, CHAT, 'messages[0].content[0]'],
    [anthropic({ messages: [{ role: 'assistant', content: [{ type: 'redacted_thinking', data: 'x' }] }] }), MESSAGES, CHAT, 'messages[0] (redacted_thinking)'],
    [anthropic({ messages: [{ role: 'assistant', content: [{ type: 'server_tool_use', id: 's', name: 'web_search', input: {} }] }] }), MESSAGES, CHAT, 'messages[0] (server_tool_use)'],
    [responses({ tools: [{ type: 'web_search' }] }), RESPONSES, CHAT, 'tools[0]'],
    [responses({ tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }), RESPONSES, CHAT, 'tool_choice'],
    [responses({ previous_response_id: 'r' }), RESPONSES, CHAT, 'previous_response_id'],
    [responses({ include: ['web_search_call.results'] }), RESPONSES, CHAT, 'include'],
    [responses({ include: ['message.output_text.logprobs'] }), RESPONSES, CHAT, 'logprobs'],
    [responses({ truncation: 'auto' }), RESPONSES, CHAT, 'truncation'],
    [responses({ max_tool_calls: 3 }), RESPONSES, CHAT, 'max_tool_calls'],
    [responses({ background: true }), RESPONSES, CHAT, 'background'],
    [responses({ conversation: 'c' }), RESPONSES, CHAT, 'conversation'],
    [responses({ prompt: { id: 'p' } }), RESPONSES, CHAT, 'prompt'],
    [responses({ input: [{ type: 'item_reference', id: 'x' }] }), RESPONSES, CHAT, 'messages[0] (item_reference)'],
    [responses({ input: [{ type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' }] }), RESPONSES, CHAT, 'messages[0] (reasoning)'],
    [responses({ input: [{ type: 'computer_call_output', call_id: 'c', output: {} }] }), RESPONSES, CHAT, 'messages[0] (computer_call_output)'],
    [responses({ input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] }), RESPONSES, CHAT, 'messages[0].content[0]'],
    [{ model: 'm', prompt: 'x' }, 'openai.completions', CHAT, 'nothing'],
  ]; // prettier-ignore
  for (const [body, from, to, field] of cases.slice(0, -1)) assert.equal(refusal(body, from, to), field, `${field} ${from} -> ${to}`);
  assert.equal(refusal({ model: 'm', prompt: 'x' }, 'openai.completions', 'openai.embeddings'), 'the request');
  assert.equal(refusal({ model: 'm', messages: [] }, CHAT, 'vllm.generate'), 'the request');
});

test('what asks for nothing, or changes no answer, is left out', () => {
  assert.equal(refusal({ model: 'm', messages: [], max_tokens: 5, seed: null, logprobs: false, logit_bias: {}, store: true, service_tier: 'auto', prediction: null, audio: null, modalities: ['text'] }, CHAT, MESSAGES), null); // prettier-ignore
  assert.equal(refusal({ model: 'm', input: 'x', truncation: 'disabled', background: false, metadata: { a: 'b' }, reasoning: { summary: 'auto' } }, RESPONSES, MESSAGES), 'max_tokens'); // prettier-ignore
});

const ANSWER: Answer = {
  id: 'x',
  model: 'engine-model',
  created: 5,
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hi', reasoning_content: 'Hm.', tool_calls: [{ id: 'c1', name: 'f', arguments: '{"a":1}' }, { id: 'c2', name: 'f', arguments: 'no' }] },
      finishReason: 'stop',
      nativeFinish: null,
      stopSequence: null,
    },
  ],
  usage: { promptTokens: 10, completionTokens: 4, cachedTokens: 6, cacheWriteTokens: 1, reasoningTokens: 2, cost: null },
}; // prettier-ignore

function askOf(dialect: DialectName, more: JsonObject = {}): Ask {
  return value(dialectOf(dialect).parseAsk({ model: 'm', messages: [], input: [], stream: true, max_tokens: 7, ...more }));
}

test('an answer as a Messages body', () => {
  assert.deepEqual(value(dialectOf(MESSAGES).writeAnswer(ANSWER, askOf(MESSAGES), testNaming())), {
    id: 'msg_0',
    type: 'message',
    role: 'assistant',
    model: 'engine-model',
    content: [
      { type: 'thinking', thinking: 'Hm.', signature: 'tapedeck.unsigned' },
      { type: 'text', text: 'Hi' },
      { type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 } },
      { type: 'tool_use', id: 'c2', name: 'f', input: { __invalid_json__: 'no' } },
    ],
    stop_reason: 'tool_use',
    stop_sequence: null,
    usage: { input_tokens: 3, cache_creation_input_tokens: 1, cache_read_input_tokens: 6, output_tokens: 4 },
  });
});

test('an answer as a Responses body', () => {
  const body = value(dialectOf(RESPONSES).writeAnswer(ANSWER, askOf(RESPONSES, { instructions: 'I', temperature: 0.3 }), testNaming()));
  const { output, usage, status, instructions, temperature, object, created_at, model } = body;
  assert.deepEqual(
    [status, instructions, temperature, object, created_at, model],
    ['completed', 'I', 0.3, 'response', 1_700_000_000, 'engine-model'],
  );
  assert.deepEqual(output, [
    { id: 'rs_1', type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] },
    { id: 'msg_2', type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'Hi', annotations: [], logprobs: [] }] },
    { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{"a":1}', id: 'fc_3', status: 'completed' },
    { type: 'function_call', call_id: 'c2', name: 'f', arguments: 'no', id: 'fc_4', status: 'completed' },
  ]); // prettier-ignore
  assert.deepEqual(usage, { input_tokens: 10, input_tokens_details: { cached_tokens: 6 }, output_tokens: 4, output_tokens_details: { reasoning_tokens: 2 }, total_tokens: 14 }); // prettier-ignore
});

test('stop reasons and stop sequences', () => {
  const finish = (finishReason: string, stopSequence: string | number | null = null): Answer => ({
    ...ANSWER,
    choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finishReason, nativeFinish: null, stopSequence }],
  });
  const messages = (answer: Answer): Json[] => {
    const body = dialectOf(MESSAGES).writeAnswer(answer, askOf(MESSAGES), testNaming());
    return body.ok ? [body.value['stop_reason'] ?? null, body.value['stop_sequence'] ?? null] : [body.error.code];
  };
  assert.deepEqual(messages(finish('stop')), ['end_turn', null]);
  assert.deepEqual(messages(finish('stop', 'END')), ['stop_sequence', 'END']);
  assert.deepEqual(messages(finish('stop', 151_645)), ['end_turn', null]);
  assert.deepEqual(messages(finish('length')), ['max_tokens', null]);
  assert.deepEqual(messages(finish('content_filter')), ['refusal', null]);
  assert.deepEqual(messages(finish('abort')), ['cannot_translate']);
  const responses = (answer: Answer): Json[] => {
    const body = dialectOf(RESPONSES).writeAnswer(answer, askOf(RESPONSES), testNaming());
    return body.ok ? [body.value['status'] ?? null, body.value['incomplete_details'] ?? null] : [body.error.code];
  };
  assert.deepEqual(responses(finish('stop', 'END')), ['completed', null]);
  assert.deepEqual(responses(finish('length')), ['incomplete', { reason: 'max_output_tokens' }]);
  assert.deepEqual(responses(finish('content_filter')), ['incomplete', { reason: 'content_filter' }]);
  assert.deepEqual(responses(finish('abort')), ['cannot_translate']);
  const native = value(dialectOf(MESSAGES).parseAnswer({ id: 'm', content: [], stop_reason: 'stop_sequence', stop_sequence: 'END' }))
    .choices[0];
  assert.deepEqual([native?.finishReason, native?.nativeFinish, native?.stopSequence], ['stop', 'stop_sequence', 'END']);
});

const DELTAS: readonly Delta[] = [
  { type: 'start', id: 'x', model: 'engine-model', created: 5 },
  { type: 'reasoning', choice: 0, text: 'Hm' },
  { type: 'reasoning', choice: 0, text: '.' },
  { type: 'text', choice: 0, text: 'Hi' },
  { type: 'tool_call', choice: 0, call: 0, id: 'c1', name: 'f', custom: false },
  { type: 'tool_arguments', choice: 0, call: 0, text: '{"a"' },
  { type: 'tool_call', choice: 0, call: 1, id: 'c2', name: 'f', custom: false },
  { type: 'tool_arguments', choice: 0, call: 1, text: 'no' },
  { type: 'tool_arguments', choice: 0, call: 0, text: ':1}' },
  { type: 'finish', choice: 0, finishReason: 'tool_calls', nativeFinish: null, stopSequence: null },
  { type: 'usage', usage: ANSWER.usage as NonNullable<Answer['usage']> },
]; // prettier-ignore

function framesOf(
  dialect: DialectName,
  deltas: readonly Delta[],
  more?: JsonObject,
): { name: string | null; json: JsonObject; terminal: boolean }[] {
  const writer = dialectOf(dialect).createWriter(askOf(dialect, more), testNaming());
  const frames = [...deltas.flatMap((delta) => [...value(writer.write(delta))]), ...writer.end()];
  return frames.map(({ name, data, terminal }) => ({ name, json: (data === '[DONE]' ? {} : JSON.parse(data)) as JsonObject, terminal }));
}

test('the events of a Messages stream, in order', () => {
  const frames = framesOf(MESSAGES, DELTAS);
  for (const { name, json } of frames) assert.equal(name, json['type']);
  assert.deepEqual(frames.slice(1).map(({ json }) => { const { type: _type, ...rest } = json; return rest; }), [
    { index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { index: 0, delta: { type: 'thinking_delta', thinking: 'Hm' } },
    { index: 0, delta: { type: 'thinking_delta', thinking: '.' } },
    { index: 0, delta: { type: 'signature_delta', signature: 'tapedeck.unsigned' } },
    { index: 0 },
    { index: 1, content_block: { type: 'text', text: '' } },
    { index: 1, delta: { type: 'text_delta', text: 'Hi' } },
    { index: 1 },
    { index: 2, content_block: { type: 'tool_use', id: 'c1', name: 'f', input: {} } },
    { index: 2, delta: { type: 'input_json_delta', partial_json: '' } },
    { index: 2, delta: { type: 'input_json_delta', partial_json: '{"a":1}' } },
    { index: 2 },
    { index: 3, content_block: { type: 'tool_use', id: 'c2', name: 'f', input: {} } },
    { index: 3, delta: { type: 'input_json_delta', partial_json: '' } },
    { index: 3, delta: { type: 'input_json_delta', partial_json: '{"__invalid_json__":"no"}' } },
    { index: 3 },
    { delta: { stop_reason: 'tool_use', stop_sequence: null }, usage: { input_tokens: 3, cache_creation_input_tokens: 1, cache_read_input_tokens: 6, output_tokens: 4 } },
    {},
  ]); // prettier-ignore
  assert.deepEqual(frames.filter(({ terminal }) => terminal).map(({ name }) => name), ['message_delta', 'message_stop']); // prettier-ignore
  assert.deepEqual(frames[0]?.json['message'], { id: 'msg_0', type: 'message', role: 'assistant', model: 'engine-model', content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0, output_tokens: 0 } }); // prettier-ignore
});

test('the events of a Responses stream, in order', () => {
  const frames = framesOf(RESPONSES, DELTAS);
  assert.deepEqual(frames.map(({ json }) => json['sequence_number']), frames.map((_, i) => i)); // prettier-ignore
  assert.deepEqual(
    frames.map(({ name, json }) => [name?.replace('response.', ''), json['output_index'], json['content_index'], json['delta']].filter((part) => part !== undefined).join(' ')),
    [
      'created', 'in_progress',
      'output_item.added 0', 'content_part.added 0 0', 'reasoning_text.delta 0 0 Hm', 'reasoning_text.delta 0 0 .', 'reasoning_text.done 0 0', 'content_part.done 0 0', 'output_item.done 0',
      'output_item.added 1', 'content_part.added 1 0', 'output_text.delta 1 0 Hi', 'output_text.done 1 0', 'content_part.done 1 0', 'output_item.done 1',
      'output_item.added 2', 'function_call_arguments.delta 2 {"a"', 'output_item.added 3', 'function_call_arguments.delta 3 no', 'function_call_arguments.delta 2 :1}',
      'function_call_arguments.done 2', 'output_item.done 2', 'function_call_arguments.done 3', 'output_item.done 3', 'completed',
    ],
  ); // prettier-ignore
  const last = frames.at(-1)?.json['response'] as JsonObject;
  assert.deepEqual((last['output'] as JsonObject[]).map(({ id, type }) => [id, type]), [['rs_1', 'reasoning'], ['msg_2', 'message'], ['fc_3', 'function_call'], ['fc_4', 'function_call']]); // prettier-ignore
  assert.equal(last['id'], 'resp_0');
  assert.deepEqual(frames.filter(({ terminal }) => terminal).map(({ name }) => name), ['response.completed']); // prettier-ignore
});

test('usage comes in a chat stream only when asked for', () => {
  const usages = (more?: JsonObject): Json[] => framesOf(CHAT, DELTAS, more).flatMap(({ json }) => (json['usage'] == null ? [] : [json['usage']])); // prettier-ignore
  assert.deepEqual(usages(), []);
  assert.deepEqual(usages({ stream_options: { include_usage: true } }), [{ prompt_tokens: 10, completion_tokens: 4, total_tokens: 14, prompt_tokens_details: { cached_tokens: 6 }, completion_tokens_details: { reasoning_tokens: 2 } }]); // prettier-ignore
  const frames = framesOf(CHAT, DELTAS);
  assert.deepEqual(frames.filter(({ terminal }) => terminal).map(({ json }) => (json['choices'] as JsonObject[] | undefined)?.[0]?.['finish_reason']), ['tool_calls', undefined]); // prettier-ignore
});

test('after an error nothing follows', () => {
  for (const dialect of [CHAT, RESPONSES, MESSAGES] as const) {
    const writer = dialectOf(dialect).createWriter(askOf(dialect), testNaming());
    value(writer.write({ type: 'text', choice: 0, text: 'a' }));
    const told = writer.fail(502, 'engine_error', 'it broke');
    assert.ok(told.every(({ terminal }) => terminal));
    assert.deepEqual(writer.end(), [], dialect);
    assert.deepEqual(value(writer.write({ type: 'text', choice: 0, text: 'b' })), []);
    const fold = dialectOf(dialect).createFold(1);
    for (const event of eventsOf(Buffer.concat(told.map(encodeSse)))) value(fold.add(event));
    assert.match(fold.state().error?.message ?? '', /it broke/, dialect);
  }
});

test('error bodies have the shape and the words of each API', () => {
  for (const dialect of DIALECTS) {
    for (const status of [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504]) {
      const body = dialectOf(dialect).errorBody(status, 'max_turns', 'the rollout may take 3 turns');
      const error = body['error'] as JsonObject;
      assert.match(error['message'] as string, /the rollout may take 3 turns$/);
      if (dialect === MESSAGES) assert.deepEqual([body['type'], error['message']], ['error', 'max_turns: the rollout may take 3 turns']);
      else assert.equal(error['code'], 'max_turns');
    }
  }
  const types = (dialect: DialectName): Json[] => [401, 404, 409, 429, 502, 504].map((status) => (dialectOf(dialect).errorBody(status, 'x', 'y')['error'] as JsonObject)['type'] ?? null); // prettier-ignore
  assert.deepEqual(types(CHAT), ['authentication_error', 'not_found_error', 'conflict_error', 'rate_limit_error', 'server_error', 'server_error']); // prettier-ignore
  assert.deepEqual(types(MESSAGES), ['authentication_error', 'not_found_error', 'invalid_request_error', 'rate_limit_error', 'api_error', 'timeout_error']); // prettier-ignore
});

test('signed thinking of one provider passes through harnesses of other dialects and comes back whole', () => {
  const thinking = { type: 'thinking', thinking: 'Hm.', signature: 'sig' };
  const message: Message = { role: 'assistant', content: 'Hi', reasoning_content: 'Hm.', provider_state: [thinking] };
  const answer: Answer = {
    ...ANSWER,
    choices: [{ index: 0, message, finishReason: 'stop', nativeFinish: 'end_turn', stopSequence: null }],
  };
  for (const dialect of [CHAT, RESPONSES] as const) {
    const body = value(dialectOf(dialect).writeAnswer(answer, askOf(dialect), testNaming()));
    const said =
      dialect === CHAT ? { messages: [(body['choices'] as JsonObject[])[0]?.['message'] as Json] } : { input: body['output'] as Json };
    const next = told({ model: 'm', ...(dialect === CHAT ? { max_tokens: 5 } : { max_output_tokens: 5 }), ...said }, dialect, MESSAGES);
    assert.deepEqual(next['messages'], [{ role: 'assistant', content: [thinking, { type: 'text', text: 'Hi' }] }], dialect);
  }
  const item = { type: 'reasoning', id: 'rs', summary: [{ type: 'summary_text', text: 'Hm.' }], encrypted_content: 'enc' };
  const other: Answer = { ...answer, choices: [{ ...(answer.choices[0] as Answer['choices'][0]), message: { ...message, provider_state: [item] } }] }; // prettier-ignore
  const body = value(dialectOf(MESSAGES).writeAnswer(other, askOf(MESSAGES), testNaming()));
  const next = told(
    { model: 'm', max_tokens: 5, messages: [{ role: 'assistant', content: body['content'] as Json }] },
    MESSAGES,
    RESPONSES,
  );
  assert.deepEqual(next['input'], [item, { role: 'assistant', content: 'Hi' }]);
});

test('sealed state that is not ours is left alone', () => {
  assert.equal(openState('gAAAAABp'), null);
  assert.equal(openState('tapedeck.state.%%%'), null);
  assert.equal(openState(null), null);
  const sealed = { text: '\ud800\0', state: [{ type: 'thinking', n: 12345678901234567890n }] };
  assert.deepEqual(openState(sealState(sealed)), sealed);
  const foreign = { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'tapedeck.state.%%%' };
  const ask = value(dialectOf(RESPONSES).parseAsk({ model: 'm', input: [foreign] }));
  assert.deepEqual(ask.messages[0]?.['provider_state'], [foreign]);
});

test('reasoning survives a harness that keeps only encrypted content', () => {
  const ask = askOf(RESPONSES, { include: ['reasoning.encrypted_content'] });
  const body = value(dialectOf(RESPONSES).writeAnswer(ANSWER, ask, testNaming()));
  const items = (body['output'] as JsonObject[]).map((item) => (item['type'] === 'reasoning' ? { type: 'reasoning', summary: [], encrypted_content: item['encrypted_content'] ?? null } : item)); // prettier-ignore
  const again = value(dialectOf(RESPONSES).parseAsk({ model: 'm', input: items }));
  assert.deepEqual(again.messages.map(comparable), [comparable(ANSWER.choices[0]?.message as Message)]);
});

test('previous_response_id: the conversation goes on, with instructions of its own', () => {
  const first = value(dialectOf(RESPONSES).parseAsk({ model: 'm', instructions: 'old', input: 'one' }));
  const stored = { messages: first.messages, instructions: first.instructions, answer: ANSWER };
  const next = value(dialectOf(RESPONSES).parseAsk({ model: 'm', instructions: 'new', previous_response_id: 'r', input: [{ type: 'function_call_output', call_id: 'c1', output: 'x' }] })); // prettier-ignore
  const whole = continueResponse(stored, next);
  assert.equal(whole.previousResponseId, null);
  assert.deepEqual(whole.messages, [{ role: 'system', content: 'new' }, { role: 'user', content: 'one' }, ANSWER.choices[0]?.message, { role: 'tool', tool_call_id: 'c1', content: 'x' }]); // prettier-ignore
  assert.equal(whole.instructions, 1);
  const without = continueResponse(stored, value(dialectOf(RESPONSES).parseAsk({ model: 'm', previous_response_id: 'r', input: 'two' })));
  assert.deepEqual(without.messages.map(({ role }) => role), ['user', 'assistant', 'user']); // prettier-ignore
});

test('a request of the same dialect keeps the fields that are not interpreted', () => {
  const cases: [DialectName, JsonObject][] = [
    [CHAT, { model: 'm', messages: [], stream: true, stream_options: { include_usage: true, x: 1 }, chat_template_kwargs: { a: 1 }, return_token_ids: true, seed: 1 }],
    [MESSAGES, { model: 'm', messages: [], mcp_servers: [{ a: 1 }], output_config: { effort: 'low', task_budget: { total: 1 } }, max_tokens: 1 }],
    [RESPONSES, { model: 'm', input: [], background: true, reasoning: { effort: 'low', summary: 'auto' }, text: { verbosity: 'low', x: 1 }, previous_response_id: 'r' }],
    ['openai.completions', { model: 'm', prompt: ['a', 'b'], logprobs: 2, echo: true, max_tokens: 3, stream: true }],
    ['openai.embeddings', { model: 'm', input: [1, 2], dimensions: 5 }],
    ['vllm.generate', { model: 'm', token_ids: [1, 2], sampling_params: { max_tokens: 5, logprobs: 1, temperature: 0 }, priority: 3 }],
    ['sglang.generate', { input_ids: [1, 2], sampling_params: { max_new_tokens: 5, temperature: 0 }, return_logprob: true, stream: true }],
  ]; // prettier-ignore
  for (const [dialect, body] of cases) assert.deepEqual(told(body, dialect, dialect), body, dialect);
  const forced = {
    ...value(dialectOf('sglang.generate').parseAsk({ sampling_params: { max_new_tokens: 5 } })),
    sampling: { max_tokens: 3 },
  };
  assert.deepEqual(value(dialectOf('sglang.generate').writeAsk(forced)), { sampling_params: { max_new_tokens: 3 } });
});

test('native answers of vLLM and SGLang, whole and streamed', () => {
  const vllm = value(
    dialectOf('vllm.generate').parseAnswer({
      request_id: 'r',
      choices: [{ index: 0, token_ids: [5, 6], finish_reason: 'stop', stop_reason: 6 }],
    }),
  );
  assert.deepEqual(vllm.choices, [{ index: 0, message: { role: 'assistant', content: null }, finishReason: 'stop', nativeFinish: null, stopSequence: 6 }]); // prettier-ignore
  const info = { id: 'i', prompt_tokens: 3, completion_tokens: 2, cached_tokens: 1 };
  const chunks: JsonObject[] = [
    { text: 'He', output_ids: [1], meta_info: { ...info, finish_reason: null } },
    { text: 'Hello', output_ids: [1, 2], meta_info: { ...info, finish_reason: { type: 'length', length: 2 } } },
  ];
  const fold = dialectOf('sglang.generate').createFold(1);
  const bytes = Buffer.from(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('') + 'data: [DONE]\n\n');
  for (const event of eventsOf(bytes, 7)) value(fold.add(event));
  assert.deepEqual(fold.answer().choices, [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finishReason: 'length', nativeFinish: null, stopSequence: null }]); // prettier-ignore
  assert.deepEqual([fold.answer().usage?.promptTokens, fold.answer().usage?.cachedTokens, fold.answer().id], [3, 1, 'i']);
  assert.deepEqual(value(dialectOf('sglang.generate').parseAnswer(chunks[1] as JsonObject)).choices, fold.answer().choices);
});

test('embeddings have usage and no choices', () => {
  const answer = value(
    dialectOf('openai.embeddings').parseAnswer({ object: 'list', model: 'e', data: [], usage: { prompt_tokens: 4, total_tokens: 4 } }),
  );
  assert.deepEqual([answer.choices.length, answer.usage?.promptTokens], [0, 4]);
  assert.ok(isList(answer.choices as never));
});
