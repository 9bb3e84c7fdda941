/** What of an answer maps to what, by value: bodies, streams, errors, state. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeSse } from '../sse/sse-encoder.ts';
import { continueResponse } from './continue-response.ts';
import type { Answer, Ask, Delta, DialectName, Json, JsonObject, Message } from './dialect.ts';
import { DIALECTS } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { textOf } from './json.ts';
import { comparable } from './message-hash.ts';
import { eventsOf, testNaming, value } from './recorded-logs.arbitrary.ts';
import { openState, sealState } from './sealed-state.ts';

const CHAT = 'openai.chat';
const RESPONSES = 'openai.responses';
const MESSAGES = 'anthropic.messages';

function told(body: JsonObject, from: DialectName, to: DialectName): JsonObject {
  return value(dialectOf(to).writeAsk(value(dialectOf(from).parseAsk(body))));
}

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
    frames.map(({ name, json }) => [textOf(name)?.replace('response.', ''), ...['output_index', 'content_index', 'delta'].map((key) => json[key])].filter((part) => part !== undefined).map(String).join(' ')),
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
});
