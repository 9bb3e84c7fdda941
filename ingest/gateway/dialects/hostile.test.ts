/** Odd, wrong and hostile streams and bodies: named, never guessed, never falsified. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Result } from '../../../base/result.ts';
import type { Answer, AnswerFold, DialectName, Json, JsonObject } from './dialect.ts';
import { createAnswerFold, dialectOf } from './dialects.ts';
import { readJson, readStrict, writeJson } from './json.ts';
import { canonicalHash, comparable, messageHash } from './message-hash.ts';
import { eventsOf, value } from './recorded-logs.arbitrary.ts';

/** A stream of JSON values and verbatim texts as one. */
function stream(...data: (JsonObject | string)[]): Uint8Array {
  return Buffer.from(data.map((one) => `data: ${typeof one === 'string' ? one : writeJson(one)}\n\n`).join(''));
}

/** The fold after the events, and the codes of those it refused. */
function fed(dialect: DialectName, bytes: Uint8Array, n = 1): { fold: AnswerFold; codes: string[] } {
  const fold = createAnswerFold(dialect, n);
  const codes = eventsOf(bytes).flatMap((event) => {
    const step = fold.add(event);
    return step.ok ? [] : [step.error.code];
  });
  return { fold, codes };
}

const chunk = (delta: JsonObject, more: JsonObject = {}): JsonObject => ({
  id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: null, ...more }],
}); // prettier-ignore
const finish = (reason: string): JsonObject => chunk({}, { finish_reason: reason });
const call = (index: number | null, fields: JsonObject): JsonObject =>
  chunk({ tool_calls: [{ ...(index !== null && { index }), ...fields }] });
const callsOf = (answer: Answer): Json => answer.choices[0]?.message['tool_calls'] ?? null;

test('malformed events are named and leave the answer as it was', () => {
  const bad = [
    'not json', '[]', '7', '"x"', '{"choices":7}', '{"choices":[7]}', '{"choices":[{"index":0,"delta":[1]}]}', '{"choices":[{"index":0,"delta":"x"}]}', '{"a":',
  ]; // prettier-ignore
  for (const text of bad) {
    const { fold, codes } = fed('openai.chat', stream(chunk({ content: 'a' }), text, chunk({ content: 'b' }), finish('stop'), '[DONE]'));
    assert.equal(codes.length, 1, text);
    assert.match(codes[0] as string, /^(invalid_json|malformed_stream)$/, text);
    assert.equal(fold.answer().choices[0]?.message['content'], 'ab', text);
  }
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  assert.deepEqual(fed('openai.chat', stream(deep)).codes, ['malformed_stream']);
});

test('a stream cut inside an event says so; what came stays', () => {
  const bytes = stream(chunk({ content: 'Hel' }), chunk({ content: 'lo' }));
  const { fold, codes } = fed('openai.chat', bytes.slice(0, -3));
  assert.deepEqual(codes, ['sse_truncated']);
  assert.deepEqual(fold.state(), { finished: false, ended: false, error: null });
  assert.equal(fold.answer().choices[0]?.message['content'], 'Hel');
  assert.equal(fold.answer().choices[0]?.finishReason, null);
});

test('an empty stream is an answer without choices', () => {
  for (const dialect of [
    'openai.chat',
    'openai.responses',
    'anthropic.messages',
    'openai.completions',
    'vllm.generate',
    'sglang.generate',
  ] as const) {
    const { fold } = fed(dialect, Buffer.from(': hi\n\n'));
    assert.deepEqual(fold.answer(), { id: '', model: '', created: 0, choices: [], usage: null }, dialect);
    assert.equal(fold.state().finished, false);
  }
});

test('tool calls come apart by index, by id, or by order, with names that come late', () => {
  const interleaved = [
    call(1, { id: 'b', function: { name: 'two', arguments: '{"x' } }), call(0, { id: 'a', function: { name: 'one', arguments: '' } }),
    call(1, { function: { arguments: '":1}' } }), call(0, { function: { arguments: '{}' } }),
  ]; // prettier-ignore
  assert.deepEqual(callsOf(fed('openai.chat', stream(...interleaved, finish('tool_calls'))).fold.answer()), [
    { id: 'b', name: 'two', arguments: '{"x":1}' },
    { id: 'a', name: 'one', arguments: '{}' },
  ]);
  const withoutIndex = [call(null, { id: 'a', function: { name: 'one', arguments: '{' } }), call(null, { id: 'a', function: { arguments: '}' } }), call(null, { id: 'b', function: { name: 'two', arguments: '' } }), call(null, { function: { arguments: '{}' } })]; // prettier-ignore
  assert.deepEqual(callsOf(fed('openai.chat', stream(...withoutIndex, finish('tool_calls'))).fold.answer()), [
    { id: 'a', name: 'one', arguments: '{}' },
    { id: 'b', name: 'two', arguments: '{}' },
  ]);
  const late = [call(0, { id: 'a', function: { arguments: '{"a"' } }), call(0, { function: { name: 'one', arguments: ':1}' } })];
  const fold = createAnswerFold('openai.chat');
  const deltas = eventsOf(stream(...late)).flatMap((event) => [...value(fold.add(event)).deltas]);
  assert.deepEqual(deltas.filter(({ type }) => type !== 'start'), [
    { type: 'tool_call', choice: 0, call: 0, id: 'a', name: 'one', custom: false },
    { type: 'tool_arguments', choice: 0, call: 0, text: '{"a":1}' },
  ]); // prettier-ignore
});

test('pieces of reasoning details are joined until something else is said', () => {
  const piece = (text: string, more: JsonObject = {}): JsonObject =>
    chunk({ reasoning_details: [{ type: 'reasoning.text', index: 0, text, ...more }] });
  const fold = createAnswerFold('openai.chat');
  const events = stream(
    piece('a'),
    piece('b', { signature: 's1' }),
    chunk({ content: 'x' }),
    piece('c'),
    piece('', { signature: 's2' }),
    finish('stop'),
  );
  const told = eventsOf(events).flatMap((event) => [...value(fold.add(event)).deltas]).filter(({ type }) => type !== 'start'); // prettier-ignore
  assert.deepEqual(told.map((delta) => (delta.type === 'state' ? delta.state['text'] : 'text' in delta ? delta.text : delta.type)), ['a', 'b', 'ab', 'x', 'c', 'c', 'finish']); // prettier-ignore
  const { message } = fold.answer().choices[0] as Answer['choices'][0];
  assert.deepEqual(message['provider_state'], [
    { type: 'reasoning.text', index: 0, text: 'ab', signature: 's1' },
    { type: 'reasoning.text', index: 0, text: 'c', signature: 's2' },
  ]);
});

test('arguments are the text of the model: large numbers, repeated keys, surrogates, NUL, and what is no JSON', () => {
  for (const text of [
    '{"n":12345678901234567890}',
    '{"a":1,"a":2}',
    '{"s":"\\ud800\\u0000"}',
    '{"cut":',
    '\ud800',
    '\0',
    ' { "a" : 1.0 } ',
  ]) {
    const chat = fed('openai.chat', stream(call(0, { id: 'a', function: { name: 'f', arguments: text } }), finish('tool_calls'))).fold;
    assert.deepEqual(callsOf(chat.answer()), [{ id: 'a', name: 'f', arguments: text }]);
    const body = { choices: [{ index: 0, message: { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: text } }] } }] }; // prettier-ignore
    assert.deepEqual(callsOf(value(dialectOf('openai.chat').parseAnswer(value(readStrict(Buffer.from(writeJson(body)))) as JsonObject))), [
      { id: 'a', name: 'f', arguments: text },
    ]);
    const messages = fed('anthropic.messages', stream(
      { type: 'message_start', message: { id: 'm', model: 'm', content: [], usage: {} } },
      { type: 'content_block_start', index: 0, content_block: { type: 'tool_use', id: 'a', name: 'f', input: {} } },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: text } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 1 } },
    )).fold; // prettier-ignore
    assert.deepEqual(callsOf(messages.answer()), [{ id: 'a', name: 'f', arguments: text }]);
    assert.equal(messages.state().finished, true);
  }
});

test('the input of a tool_use block keeps numbers beyond 2^53', () => {
  const wire = '{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"n":12345678901234567890,"f":0.1}}]}]}'; // prettier-ignore
  const ask = value(dialectOf('anthropic.messages').parseAsk(value(readStrict(Buffer.from(wire))) as JsonObject));
  assert.deepEqual(ask.messages[0]?.['tool_calls'], [{ id: 'a', name: 'f', arguments: '{"n":12345678901234567890,"f":0.1}' }]);
  assert.match(writeJson(value(dialectOf('anthropic.messages').writeAsk(ask))), /"n":12345678901234567890/);
});

test('n > 1: finished only when all choices are, and terminal from then on', () => {
  const fold = createAnswerFold('openai.chat', 2);
  const steps = eventsOf(stream(chunk({ content: 'a' }), finish('stop'), { ...chunk({}), choices: [{ index: 1, delta: { content: 'b' }, finish_reason: null }] }, { ...chunk({}), choices: [{ index: 1, delta: {}, finish_reason: 'length' }] }, '[DONE]')).map((event) => value(fold.add(event)).terminal); // prettier-ignore
  assert.deepEqual(steps, [false, false, false, true, true]);
  assert.deepEqual(fold.answer().choices.map(({ index, finishReason }) => [index, finishReason]), [[0, 'stop'], [1, 'length']]); // prettier-ignore
});

test('errors inside a stream are told with their status', () => {
  const cases: [DialectName, JsonObject, string, number | null][] = [
    ['openai.chat', { error: { message: 'slow down', type: 'rate_limit_error', code: null } }, 'rate_limit_error', 429],
    ['openai.chat', { error: { message: 'no', type: 'BadRequestError', code: 400 } }, 'BadRequestError', 400],
    ['openai.chat', { error: 'a text' }, 'error', null],
    ['openai.responses', { type: 'error', code: 'server_error', message: 'oops', param: null, sequence_number: 3 }, 'error', 500],
    ['openai.responses', { type: 'response.failed', response: { id: 'r', output: [], status: 'failed', error: { code: 'rate_limit_exceeded', message: 'x' } } }, 'rate_limit_exceeded', 429],
    ['anthropic.messages', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'overloaded_error', 529],
    ['openai.completions', { error: { message: 'x', type: 'server_error' } }, 'server_error', 500],
  ]; // prettier-ignore
  for (const [dialect, event, type, status] of cases) {
    const fold = createAnswerFold(dialect);
    const [step] = eventsOf(stream(event)).map((one) => value(fold.add(one)));
    assert.equal(step?.terminal, true, dialect);
    assert.deepEqual([fold.state().error?.type, fold.state().error?.status], [type, status], writeJson(event));
  }
});

test('unknown events, fields and finish reasons pass', () => {
  const anthropic = fed('anthropic.messages', stream({ type: 'message_start', message: { id: 'm', model: 'm', content: [], usage: { input_tokens: 3 } } }, { type: 'new_kind', x: 1 }, { type: 'ping' }, { type: 'message_delta', delta: { stop_reason: 'pause_turn' }, usage: {} }, { type: 'message_stop' })); // prettier-ignore
  assert.deepEqual(anthropic.codes, []);
  assert.equal(anthropic.fold.answer().choices[0]?.finishReason, 'pause_turn');
  const chat = fed('openai.chat', stream(chunk({ content: 'a', audio: { id: 'x' } }), finish('repetition')));
  assert.equal(chat.fold.answer().choices[0]?.finishReason, 'repetition');
  assert.deepEqual(chat.fold.answer().choices[0]?.message['audio'], { id: 'x' });
});

test('of several signatures of one block the last counts, as in the official clients', () => {
  const fold = createAnswerFold('anthropic.messages');
  const events = stream(
    { type: 'message_start', message: { id: 'm', model: 'm', content: [], usage: {} } },
    { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '', signature: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'a' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'b' } },
    { type: 'content_block_stop', index: 0 },
  );
  for (const event of eventsOf(events)) value(fold.add(event));
  assert.deepEqual(fold.answer().choices[0]?.message['provider_state'], [{ type: 'thinking', thinking: '', signature: 'b' }]);
});

test('summaries and texts of reasoning are lines of their own, as they are in the whole answer', () => {
  const delta = (type: string, fields: JsonObject): JsonObject => ({ type: `response.${type}.delta`, output_index: 0, ...fields });
  const item = {
    type: 'reasoning',
    id: 'rs',
    summary: [
      { type: 'summary_text', text: 'one' },
      { type: 'summary_text', text: 'two' },
    ],
  };
  const done = { type: 'response.completed', response: { id: 'r', status: 'completed', output: [item] } };
  const events = stream(
    { type: 'response.output_item.added', output_index: 0, item: { type: 'reasoning', id: 'rs', summary: [] } },
    delta('reasoning_summary_text', { summary_index: 0, delta: 'o' }),
    delta('reasoning_summary_text', { summary_index: 0, delta: 'ne' }),
    delta('reasoning_summary_text', { summary_index: 1, delta: 'two' }),
    { type: 'response.output_item.done', output_index: 0, item },
    done,
  );
  const fold = createAnswerFold('openai.responses');
  const told = eventsOf(events).flatMap((event) => [...value(fold.add(event)).deltas]);
  assert.equal(told.map((one) => (one.type === 'reasoning' ? one.text : '')).join(''), 'one\ntwo');
  assert.equal(fold.answer().choices[0]?.message['reasoning_content'], 'one\ntwo');
});

test('blocks and items that were never opened are malformed', () => {
  const start = { type: 'message_start', message: { id: 'm', model: 'm', content: [], usage: {} } };
  const events: JsonObject[] = [
    { type: 'content_block_delta', index: 4, delta: { type: 'text_delta', text: 'x' } },
    { type: 'content_block_stop', index: 4 },
    { type: 'content_block_delta', index: -1, delta: {} },
    { type: 'content_block_start', index: 0 },
  ];
  for (const event of events)
    assert.deepEqual(fed('anthropic.messages', stream(start, event)).codes, ['malformed_stream'], writeJson(event));
  const items: JsonObject[] = [
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'x' },
    { type: 'response.output_item.added', output_index: 0 },
    { type: 'response.output_item.added', item: {} },
    { type: 'response.completed' },
  ];
  for (const event of items) assert.deepEqual(fed('openai.responses', stream(event)).codes, ['malformed_stream'], writeJson(event));
});

test('requests that cannot be read name their field', () => {
  const cases: [DialectName, JsonObject, string, string][] = [
    ['openai.chat', { messages: [] }, 'missing_field', 'model'],
    ['openai.chat', { model: 7, messages: [] }, 'wrong_type', 'model'],
    ['openai.chat', { model: 'm' }, 'missing_field', 'messages'],
    ['openai.chat', { model: 'm', messages: 'hi' }, 'wrong_type', 'messages'],
    ['openai.chat', { model: 'm', messages: [7] }, 'wrong_type', 'messages[0]'],
    ['openai.chat', { model: 'm', messages: [{ role: 'user', content: 'a' }, { content: 'b' }] }, 'wrong_type', 'messages[1].role'],
    ['openai.chat', { model: 'm', messages: [], tools: {} }, 'wrong_type', 'tools'],
    ['openai.chat', { model: 'm', messages: [], tools: [1] }, 'wrong_type', 'tools[0]'],
    ['anthropic.messages', { model: 'm', messages: [{ role: 'user', content: ['x'] }] }, 'wrong_type', 'messages[0].content[0]'],
    ['openai.responses', { model: 'm', input: 7 }, 'wrong_type', 'input'],
    ['openai.responses', { model: 'm', input: [7] }, 'wrong_type', 'input[0]'],
    ['vllm.generate', { model: 7 }, 'wrong_type', 'model'],
  ]; // prettier-ignore
  for (const [dialect, body, code, field] of cases) {
    const ask = dialectOf(dialect).parseAsk(body);
    assert.deepEqual(ask.ok ? null : [ask.error.code, ask.error.field], [code, field], writeJson(body));
  }
});

const codeOf = (read: Result<unknown>): string | null => (read.ok ? null : read.error.code);

test('strict reading refuses by name what would be falsified', () => {
  const cases: [string | Uint8Array, string][] = [
    ['{"a":1,"a":2}', 'duplicate_key'], ['{"a":NaN}', 'invalid_json'], ['{"a":-Infinity}', 'invalid_json'], ['{"a":1e999}', 'number_out_of_range'],
    [`${'['.repeat(300)}${']'.repeat(300)}`, 'too_deep'], [Buffer.from([0x22, 0xff, 0x22]), 'invalid_utf8'], ['', 'invalid_json'], ['{} {}', 'invalid_json'],
  ]; // prettier-ignore
  for (const [text, code] of cases) {
    const read = readStrict(Buffer.from(text));
    assert.equal(read.ok ? null : read.error.code, code, String(text));
  }
  const kept = '{"$float":"x","__proto__":{"a":1},"n":[9007199254740993,-9007199254740993,-0],"s":"\\ud800\\u0000NaN"}';
  assert.equal(writeJson(value(readStrict(Buffer.from(kept)))), kept.replace('\\u0000', '\\u0000'));
  assert.equal(writeJson(value(readJson(kept))), kept);
  for (const text of ['1e999', '[-1e400]', `${'9'.repeat(400)}.0`]) assert.equal(codeOf(readJson(text)), 'number_out_of_range');
  assert.equal(codeOf(readJson('{"a":1,"a":2}')), null);
  assert.throws(() => writeJson(Number.NaN), { code: 'wrong_type' });
});

test('equal messages have equal hashes, others have not', () => {
  const base = { role: 'assistant', content: null, tool_calls: [{ id: 'a', name: 'f', arguments: '{"x":1,"y":[1,2]}' }] };
  const same: JsonObject[] = [
    { ...base, content: '' },
    { ...base, content: [] },
    { ...base, tool_calls: [{ name: 'f', id: 'a', arguments: ' {"y":[1.0,2], "x":1e0}', cache_control: { type: 'ephemeral' } }] },
    { ...base, provider_state: [] },
    {
      ...base,
      provider_state: [
        { type: 'text', text: 'x' },
        { type: 'function_call', id: 'fc_1', status: 'completed' },
      ],
    },
    { ...base, annotations: [1], name: 'x' },
  ];
  for (const other of same) assert.equal(messageHash({ role: 'assistant', ...other }), messageHash(base), writeJson(other));
  const different: JsonObject[] = [
    { ...base, content: ' ' },
    { ...base, role: 'user' },
    { ...base, reasoning_content: 'x' },
    { ...base, refusal: 'x' },
    { ...base, tool_call_id: 'x' },
    { ...base, tool_calls: [{ id: 'b', name: 'f', arguments: '{"x":1,"y":[1,2]}' }] },
    { ...base, tool_calls: [{ id: 'a', name: 'f', arguments: '{"x":1,"y":[2,1]}' }] },
    { ...base, tool_calls: [{ id: 'a', name: 'f', arguments: '{"x":1,"x":1,"y":[1,2]}' }] },
    { ...base, provider_state: [{ type: 'thinking', thinking: 'x', signature: 's' }] },
    { ...base, provider_state: [{ type: 'web_search_call', id: 'ws', action: {} }] },
  ];
  const hashes = new Set([base, ...different].map((message) => messageHash({ role: 'assistant', ...message })));
  assert.equal(hashes.size, different.length + 1);
  const big = (digits: string): JsonObject => ({ role: 'assistant', tool_calls: [{ id: 'a', name: 'f', arguments: `{"n":${digits}}` }] });
  assert.notEqual(canonicalHash(comparable(big('9007199254740993') as never)), canonicalHash(comparable(big('9007199254740992') as never)));
  const image = { type: 'image_url', image_url: { url: 'https://e.org/a.png' } };
  const marked = { ...image, cache_control: { type: 'ephemeral' } };
  assert.equal(messageHash({ role: 'user', content: [marked, image] }), messageHash({ role: 'user', content: [image, image] }));
  const cached = { role: 'user', content: [{ type: 'text', text: 'hi', cache_control: { type: 'ephemeral' } }] };
  assert.equal(messageHash(cached), messageHash({ role: 'user', content: 'hi' }));
});
