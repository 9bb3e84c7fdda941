/** What of a request maps to what, by value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DialectName, Json, JsonObject } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { value } from './recorded-logs.arbitrary.ts';

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

test('an assistant that only calls tools has no content in chat, one that says nothing has an empty text', () => {
  const assistant = (content: Json): Json =>
    (told({ model: 'm', max_tokens: 5, messages: [{ role: 'assistant', content }] }, MESSAGES, CHAT)['messages'] as JsonObject[])[0]?.[
      'content'
    ] ?? null;
  assert.equal(assistant([{ type: 'tool_use', id: 't', name: 'f', input: {} }]), null);
  assert.equal(assistant([]), '');
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

test('a history goes back to its own provider as it came', () => {
  const blocks: Json = [{ type: 'redacted_thinking', data: 'x' }, { type: 'text', text: 'a' }, { type: 'text', text: 'b' }, { type: 'tool_use', id: 't', name: 'f', input: {} }, { type: 'text', text: 'c' }]; // prettier-ignore
  for (const content of [blocks, [blocks[0] as Json, blocks[1] as Json], [blocks[1] as Json, blocks[2] as Json]]) {
    const body = { model: 'm', max_tokens: 5, messages: [{ role: 'assistant', content }] };
    assert.deepEqual(told(body, MESSAGES, MESSAGES), body);
  }
  const reasoning = { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' };
  const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
  for (const input of [
    [reasoning, call],
    [call, reasoning, { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'a' }] }],
  ]) {
    assert.deepEqual(told({ model: 'm', input }, RESPONSES, RESPONSES), { model: 'm', input });
  }
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
