/**
 * The clients of OpenAI and Anthropic, unmodified, wrapped: what they get is what they would have got, and what the engine saw and gave is in the log, bit for bit.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { recordingFetch, wrapAnthropic, wrapOpenAI, type Trace } from '../../harness-sdk/index.ts';
import { collect, recorded as recordedIn, worldOfWraps, type NodeData } from './wraps-under-test.ts';

const world = worldOfWraps();
const recorded = (trace: Trace): ReturnType<typeof recordedIn> => recordedIn(world, trace);
const openai = (): OpenAI => new OpenAI({ baseURL: `${world.engine.url}/v1`, apiKey: 'x', maxRetries: 0 });
/** Its tool calls, in neutral form. */
const callsIn = (node: NodeData | undefined): { name: string; arguments: string }[] =>
  node?.message['tool_calls'] as { name: string; arguments: string }[];
/** Without what names the request, which the engine makes anew each time. */
const comparable = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, each: unknown) => (['id', 'created', '_request_id', 'created_at', 'item_id'].includes(key) ? 0 : each)),
  ) as unknown;

describe('responses', () => {
  test('a conversation that goes on from an answer by its id is one chain, streamed or not', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    await trace.run(async () => {
      const first = await client.responses.create({ model: 'toy', instructions: 'Be exact.', input: 'What is 12 + 30?' });
      assert.equal(first.output_text, '12 + 30 = 42');
      const stream = await client.responses.create({ model: 'toy', input: [{ role: 'user', content: 'What is 1 + 6?' }], previous_response_id: first.id, stream: true }); // prettier-ignore
      const events = await collect(stream);
      assert.equal((events.at(-1) as { type: string }).type, 'response.completed');
    });
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role, parent }) => [role, parent]), [['system', null], ['user', 0], ['assistant', 1], ['user', 2], ['assistant', 3]]); // prettier-ignore
    assert.deepEqual(nodes[4]?.message, { role: 'assistant', content: '1 + 6 = 7' });
    assert.deepEqual(calls.map(({ dialect, finishReason, stream }) => [dialect, finishReason, stream]), [['openai.responses', 'stop', false], ['openai.responses', 'stop', true]]); // prettier-ignore
    assert.ok((calls[1]?.usage?.['completionTokens'] ?? 0) > 0);
    trace.end();
  });

  test('function calls and their outputs', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const tools: OpenAI.Responses.Tool[] = [{ type: 'function', name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } } }, strict: false }]; // prettier-ignore
    await trace.run(async () => {
      const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Tell me about "Ada".' }];
      const first = await client.responses.create({ model: 'toy', input, tools });
      const call = first.output.find((item) => item.type === 'function_call');
      input.push(...(first.output as OpenAI.Responses.ResponseInputItem[]), { type: 'function_call_output', call_id: call?.call_id as string, output: 'a mathematician' }); // prettier-ignore
      await client.responses.create({ model: 'toy', input, tools });
    });
    const { nodes } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role, parent }) => [role, parent]), [['user', null], ['assistant', 0], ['tool', 1], ['assistant', 2]]); // prettier-ignore
    assert.deepEqual(JSON.parse(callsIn(nodes[1])[0]?.arguments ?? ''), { entity: 'Ada' });
    trace.end();
  });
});

describe('messages of Anthropic', () => {
  const anthropic = (options: Partial<ConstructorParameters<typeof Anthropic>[0]> = {}): Anthropic =>
    new Anthropic({ baseURL: world.engine.url, apiKey: 'x', maxRetries: 0, ...options });
  const TOOL: Anthropic.Tool = { name: 'facts_lookup', input_schema: { type: 'object', properties: { entity: { type: 'string' } } } };

  test('turns with tools, streamed and not, are one chain; the caller gets what it would have got', async () => {
    const plain = anthropic();
    const client = wrapAnthropic(plain);
    const trace = world.rollout.trace();
    const messages: Anthropic.MessageParam[] = [{ role: 'user', content: [{ type: 'text', text: 'Tell me about "Ada".' }] }];
    const ask = { model: 'toy', max_tokens: 1000, system: 'Be exact.', tools: [TOOL] };
    await trace.run(async () => {
      const first = await client.messages.create({ ...ask, messages });
      assert.deepEqual(
        Object.keys(comparable(first) as object),
        Object.keys(comparable(await plain.messages.create({ ...ask, messages })) as object),
      );
      const use = first.content.find((block) => block.type === 'tool_use');
      messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: use?.id as string, content: 'a mathematician' }] }); // prettier-ignore
      const final = await client.messages.stream({ ...ask, messages }).finalMessage();
      assert.match((final.content[0] as { text: string }).text, /a mathematician/);
    });
    const { nodes, calls } = await recorded(trace);
    // the plain client is another client: it is not recorded, although it ran in the trace
    assert.equal(calls.length, 2);
    assert.deepEqual(nodes.map(({ role, parent }) => [role, parent]), [['system', null], ['user', 0], ['assistant', 1], ['tool', 2], ['assistant', 3]]); // prettier-ignore
    assert.equal(nodes[1]?.message.content, 'Tell me about "Ada".');
    const [use] = callsIn(nodes[2]);
    assert.deepEqual([use?.name, JSON.parse(use?.arguments as string)], ['facts_lookup', { entity: 'Ada' }]);
    assert.deepEqual(calls.map(({ dialect, endpoint, finishReason, stream }) => [dialect, endpoint, finishReason, stream]), [['anthropic.messages', '/v1/messages', 'tool_calls', false], ['anthropic.messages', '/v1/messages', 'stop', true]]); // prettier-ignore
    assert.ok((calls[1]?.usage?.['promptTokens'] ?? 0) > 0 && (calls[1]?.usage?.['completionTokens'] ?? 0) > 0);
    trace.end();
  });

  test('thinking is kept, errors and aborts are calls, counting tokens is none', async () => {
    const client = wrapAnthropic(anthropic());
    const trace = world.rollout.trace();
    const ask = { model: 'toy-thinking', max_tokens: 1000 };
    await trace.run(async () => {
      await client.messages.create({ ...ask, messages: [{ role: 'user', content: 'What is 3 + 4?' }] });
      await client.messages.countTokens({ model: 'toy', messages: [{ role: 'user', content: 'What is 3 + 4?' }] });
      world.engine.failNext({ kind: 'status', status: 529, message: 'overloaded' });
      await assert.rejects(client.messages.create({ ...ask, messages: [{ role: 'user', content: 'What is 3 + 5?' }] }), Anthropic.APIError);
      world.engine.setPace({ tokenMs: 5 });
      const stream = client.messages.stream({ ...ask, messages: [{ role: 'user', content: 'Count to 300' }] });
      stream.on('text', (_, sofar) => void (sofar.length > 10 && stream.abort()));
      await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
      world.engine.setPace({ tokenMs: 0 });
    });
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(calls.map(({ error }) => error?.statusCode ?? error?.type), [undefined, 529, calls[2]?.error?.type]); // prettier-ignore
    assert.ok(calls[2]?.error !== undefined);
    assert.equal(typeof nodes[1]?.message['reasoning_content'], 'string');
    assert.equal(nodes[1]?.message.content, '3 + 4 = 7');
    assert.equal(nodes.at(-1)?.partial, true);
    trace.end();
  });
});

test('any program that takes a fetch can be recorded', async () => {
  const trace = world.rollout.trace();
  const fetching = recordingFetch(fetch, { trace });
  const body = JSON.stringify({ model: 'toy', messages: [{ role: 'user', content: 'What is 6 + 6?' }] });
  const response = await fetching(`${world.engine.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  assert.equal(response.url, `${world.engine.url}/v1/chat/completions`);
  assert.equal(response.status, 200);
  const answer = (await response.json()) as OpenAI.ChatCompletion;
  assert.equal(answer.choices[0]?.message.content, '6 + 6 = 12');
  assert.equal(await (await fetching(`${world.engine.url}/v1/models`)).json().then((list) => (list as { object: string }).object), 'list');
  const asked = await fetching(
    new Request(`${world.engine.url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body }),
  );
  assert.equal(((await asked.json()) as OpenAI.ChatCompletion).choices[0]?.message.content, '6 + 6 = 12');
  const { calls } = await recorded(trace);
  assert.equal(calls.length, 2);
  trace.end();
});
