/**
 * The clients of OpenAI and Anthropic, unmodified, wrapped: what they get is what they would have got, and what the engine saw and gave is in the log, bit for bit.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { currentTrace, wrapOpenAI, type Trace } from '../../harness-sdk/index.ts';
import type { SeenRequest } from '../fake-engine/seen.ts';
import { assertIdentity, collect, pathOf, recorded as recordedIn, worldOfWraps, type CallData, type NodeData } from './wraps-under-test.ts';

const world = worldOfWraps();
const recorded = (trace: Trace): ReturnType<typeof recordedIn> => recordedIn(world, trace);
const FACTS: ChatCompletionTool = {
  type: 'function',
  function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
};
/** What a trainer needs and the client's types do not know. */
const IDS = { logprobs: true, return_token_ids: true } as const;

const openai = (options: Partial<ConstructorParameters<typeof OpenAI>[0]> = {}): OpenAI =>
  new OpenAI({ baseURL: `${world.engine.url}/v1`, apiKey: 'x', maxRetries: 0, ...options });
const last = (): SeenRequest => world.engine.requests().at(-1) as SeenRequest;
describe('chat completions', () => {
  test('several turns are one chain, with the ids, masks and log-probabilities of the engine', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace({ agent: 'solver' });
    const messages: ChatCompletionMessageParam[] = [
      { role: 'system', content: 'Be exact.' },
      { role: 'user', content: 'What is 12 + 30?' },
    ];
    const requests: SeenRequest[] = [];
    await trace.run(async () => {
      assert.equal(currentTrace(), trace);
      for (const next of ['What is 5 + 6?', 'And 7 + 8?', '']) {
        const answer = await client.chat.completions.create({ model: 'toy', messages, temperature: 0.5, ...IDS });
        requests.push(last());
        messages.push((answer.choices[0] as { message: ChatCompletionMessageParam }).message, { role: 'user', content: next });
      }
    });
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role }) => role), ['system', 'user', 'assistant', 'user', 'assistant', 'user', 'assistant']); // prettier-ignore
    assert.deepEqual(nodes.map(({ parent }) => parent), [null, 0, 1, 2, 3, 4, 5]); // prettier-ignore
    assert.deepEqual(nodes.map(({ forkReason }) => forkReason).filter(Boolean), []); // prettier-ignore
    for (const [i, seen] of requests.entries()) assertIdentity(nodes, (calls[i] as CallData).node as number, seen);
    assert.deepEqual(nodes[2]?.message, { role: 'assistant', content: '12 + 30 = 42' });
    const [call] = calls;
    assert.deepEqual(call?.sampling, { temperature: 0.5, logprobs: true, return_token_ids: true });
    assert.equal(call?.dialect, 'openai.chat');
    assert.equal(call?.endpoint, '/v1/chat/completions');
    assert.equal(call?.model, 'toy');
    assert.equal(call?.finishReason, 'stop');
    assert.equal(call?.usage?.['completionTokens'], requests[0]?.choices[0]?.ids.length);
    assert.ok(call !== undefined && call.time.end >= call.time.start);
    trace.end();
  });

  test('a stream gives the caller the same chunks, and the log the same nodes', async () => {
    const plain = openai();
    const client = wrapOpenAI(plain);
    const trace = world.rollout.trace();
    const ask = { model: 'toy-thinking', messages: [{ role: 'user' as const, content: 'Say: naïve 🤷 你好 \u{1F469}\u200D\u{1F680}' }], stream: true as const, stream_options: { include_usage: true }, n: 2, ...IDS }; // prettier-ignore
    world.engine.failNext({ kind: 'split', bytes: 3 }, { kind: 'crlf' });
    const chunks = await trace.run(async () => await collect(await client.chat.completions.create(ask)));
    const seen = last();
    const bare = await collect(await plain.chat.completions.create(ask));
    assert.equal(chunks.length, bare.length);
    assert.deepEqual(Object.keys(chunks[0] as object), Object.keys(bare[0] as object));
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role, parent }) => [role, parent]), [['user', null], ['assistant', 0], ['assistant', 0]]); // prettier-ignore
    assert.deepEqual(calls[0]?.extra?.nodes, [1, 2]);
    for (const choice of [0, 1]) assertIdentity(nodes, choice + 1, seen, choice);
    assert.equal(nodes[1]?.message.content, 'naïve 🤷 你好 \u{1F469}\u200D\u{1F680}');
    assert.ok(calls[0]?.stream);
    assert.ok((calls[0]?.firstToken as number) >= (calls[0]?.time.start as number));
    trace.end();
  });

  test('parallel tool calls and their results are one chain', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Tell me about "Ada" and "Grace".' }];
    await trace.run(async () => {
      const first = (await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], ...IDS })).choices[0]?.message;
      messages.push(first as ChatCompletionMessageParam);
      for (const call of first?.tool_calls ?? []) messages.push({ role: 'tool', tool_call_id: call.id, content: `facts of ${call.id}` });
      await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], ...IDS });
    });
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role }) => role), ['user', 'assistant', 'tool', 'tool', 'assistant']); // prettier-ignore
    assert.deepEqual(nodes.map(({ parent }) => parent), [null, 0, 1, 2, 3]); // prettier-ignore
    const toolCalls = nodes[1]?.message['tool_calls'] as { name: string; arguments: string }[];
    assert.deepEqual(toolCalls.map(({ name, arguments: text }) => [name, JSON.parse(text)]), [['facts_lookup', { entity: 'Ada' }], ['facts_lookup', { entity: 'Grace' }]]); // prettier-ignore
    assert.equal(calls[0]?.finishReason, 'tool_calls');
    assertIdentity(nodes, 4, last());
    trace.end();
  });

  test('what the harness recorded itself is found again, also in a nested function', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    trace.message({ role: 'system', content: 'Be brief.' });
    trace.message({ role: 'user', content: 'What is 1 + 1?' });
    const nested = async (): Promise<void> => {
      await Promise.resolve();
      await client.chat.completions.create({ model: 'toy', messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: 'What is 1 + 1?' }] }); // prettier-ignore
    };
    await trace.run(nested);
    const { nodes } = await recorded(trace);
    assert.deepEqual(nodes.map(({ role, parent }) => [role, parent]), [['system', null], ['user', 0], ['assistant', 1]]); // prettier-ignore
    assert.equal(nodes[2]?.tokens, undefined);
    trace.end();
  });

  test('forks have reasons: the same prompt again, at once, with other tools, edited, without its reasoning', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const ask = (content: string, more: object = {}): Promise<OpenAI.ChatCompletion> => client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content }], ...IDS, ...more }); // prettier-ignore
    await trace.run(async () => {
      await ask('What is 2 + 2?');
      await ask('What is 2 + 2?');
      await Promise.all([ask('What is 3 + 3?'), ask('What is 3 + 3?')]);
      await ask('What is 2 + 2?', { tools: [FACTS] });
      const thought = await client.chat.completions.create({
        model: 'toy-thinking',
        messages: [{ role: 'user', content: 'Think: 9 - 1' }],
      });
      const { content } = (thought.choices[0] as OpenAI.ChatCompletion.Choice).message;
      await client.chat.completions.create({ model: 'toy-thinking', messages: [{ role: 'user', content: 'Think: 9 - 1' }, { role: 'assistant', content }, { role: 'user', content: 'Sure?' }] }); // prettier-ignore
      await client.chat.completions.create({ model: 'toy-thinking', messages: [{ role: 'user', content: 'Think: 9 - 1' }, { role: 'assistant', content: 'It is 7' }, { role: 'user', content: 'Sure?' }] }); // prettier-ignore
    });
    const { nodes } = await recorded(trace);
    const forks = nodes.filter(({ forkReason }) => forkReason !== undefined).map(({ index, role, sampled, forkReason }) => [index, role, sampled, forkReason]); // prettier-ignore
    const reasons = forks.map(([, , , reason]) => reason);
    assert.deepEqual(reasons, ['resample', 'unknown', 'parallel', 'template_changed', 'unknown', 'reasoning_dropped', 'edited_history']);
    // the re-sent answer without its reasoning is a node of its own that nobody sampled
    assert.deepEqual(forks[5]?.slice(1, 3), ['assistant', false]);
    trace.end();
  });

  test('a retry of the client is one more call of the same request, and a failed one has its error', async () => {
    const client = wrapOpenAI(openai({ maxRetries: 2 }));
    const trace = world.rollout.trace();
    world.engine.failNext({ kind: 'status', status: 500, message: 'try later' });
    const answer = await trace.run(() => client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'What is 4 + 4?' }] })); // prettier-ignore
    assert.equal(answer.choices[0]?.message.content, '4 + 4 = 8');
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(calls.map(({ error, retryOf, node }) => [error?.statusCode, retryOf, node]), [[500, undefined, undefined], [undefined, 0, 1]]); // prettier-ignore
    assert.match(calls[0]?.error?.message ?? '', /try later/);
    assert.equal(calls[0]?.requestDigest, calls[1]?.requestDigest);
    assert.deepEqual(nodes.map(({ role }) => role), ['user', 'assistant']); // prettier-ignore
    trace.end();
  });

  test('errors reach the caller as they would without us', async () => {
    const plain = openai();
    const client = wrapOpenAI(plain);
    const trace = world.rollout.trace();
    for (const status of [400, 401, 404, 429, 503]) {
      const ask = { model: 'toy', messages: [{ role: 'user' as const, content: `status ${status}` }] };
      const failing = async (through: OpenAI): Promise<unknown> => {
        world.engine.failNext({ kind: 'status', status, message: `no: ${status}` });
        return await trace.run(() => through.chat.completions.create(ask)).then(() => 'no error', (error: unknown) => error); // prettier-ignore
      };
      const [ours, theirs] = [
        (await failing(client)) as InstanceType<typeof OpenAI.APIError>,
        (await failing(plain)) as InstanceType<typeof OpenAI.APIError>,
      ];
      assert.equal(ours.constructor, theirs.constructor);
      assert.deepEqual([ours.status, ours.message, ours.error], [theirs.status, theirs.message, theirs.error]);
    }
    await assert.rejects(trace.run(() => wrapOpenAI(openai({ baseURL: 'http://127.0.0.1:9/v1' })).chat.completions.create({ model: 'toy', messages: [] })), OpenAI.APIConnectionError); // prettier-ignore
    const { calls, nodes } = await recorded(trace);
    assert.deepEqual(calls.map(({ error }) => error?.statusCode), [400, 401, 404, 429, 503, undefined]); // prettier-ignore
    assert.deepEqual(nodes, []);
    trace.end();
  });

  test('an aborted stream is a call with what had arrived', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    world.engine.setPace({ tokenMs: 5 });
    const abort = new AbortController();
    await trace.run(async () => {
      const stream = await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'Count to 500' }], stream: true, ...IDS }, { signal: abort.signal }); // prettier-ignore
      let text = '';
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta.content ?? '';
        if (text.length > 30) abort.abort();
      }
    });
    await trace.run(async () => {
      const stream = await client.chat.completions.create({
        model: 'toy',
        messages: [{ role: 'user', content: 'Count to 600' }],
        stream: true,
        ...IDS,
      });
      for await (const chunk of stream) if ((chunk.choices[0]?.delta.content ?? '').includes('9')) break;
    });
    world.engine.setPace({ tokenMs: 0 });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls.length, 2);
    for (const [i, call] of calls.entries()) {
      assert.ok(call.error !== undefined, JSON.stringify(call));
      const node = nodes[call.node as number] as NodeData;
      assert.equal(node.partial, true);
      assert.match(node.message.content as string, /^1 2 3/);
      const seen = world.engine
        .requests()
        .find(({ body }) => JSON.stringify(body).includes(i === 0 ? 'Count to 500' : 'Count to 600')) as SeenRequest;
      const { ids } = pathOf(nodes, node.index);
      const whole = [...(seen.promptIds ?? []), ...(seen.choices[0]?.ids ?? [])];
      assert.deepEqual(ids, whole.slice(0, ids.length));
      assert.ok(ids.length > (seen.promptIds?.length ?? 0));
    }
    trace.end();
  });

  test('a stream that breaks, ends early or carries an error is told from a whole one', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const ask = async (content: string): Promise<string> => {
      const stream = await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content }], stream: true, ...IDS });
      return JSON.stringify(await collect(stream));
    };
    await trace.run(async () => {
      world.engine.failNext({ kind: 'cut', afterTokens: 4, how: 'destroy' });
      await assert.rejects(ask('Count to 51'));
      world.engine.failNext({ kind: 'cut', afterTokens: 4, how: 'end' });
      await ask('Count to 52');
      world.engine.failNext({ kind: 'error_event', afterTokens: 4, message: 'the engine core died' });
      await assert.rejects(ask('Count to 53'), /engine core died/);
    });
    const { nodes, calls } = await recorded(trace);
    assert.deepEqual(calls.map(({ error }) => error !== undefined), [true, true, true]); // prettier-ignore
    assert.equal(calls[1]?.error?.type, 'incomplete_stream');
    assert.match(calls[2]?.error?.message ?? '', /engine core died/);
    assert.ok(nodes.filter(({ sampled }) => sampled).every(({ partial, tokens }) => partial === true && (tokens?.ids.length ?? 0) > 4));
    trace.end();
  });

  test('token data that cannot be right is named, and the text is kept', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const faults = [
      [{ kind: 'logprobs', how: 'short', at: 0 }, 'logprobs_length'],
      [{ kind: 'logprobs', how: 'sentinel', at: 1 }, 'logprobs_missing'],
      [{ kind: 'logprobs', how: 'null', at: 1 }, 'logprobs_missing'],
      [{ kind: 'token_ids', which: 'prompt', how: 'missing' }, 'no_prompt_ids'],
    ] as const;
    await trace.run(async () => {
      for (const [i, [fault]] of faults.entries()) {
        world.engine.failNext(fault);
        await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: `What is ${i} + 90?` }], ...IDS });
      }
    });
    const { nodes } = await recorded(trace);
    const answers = nodes.filter(({ sampled }) => sampled);
    assert.deepEqual(answers.map(({ tokenError }) => tokenError), faults.map(([, name]) => name)); // prettier-ignore
    assert.ok(answers.every(({ tokens, message }) => tokens === undefined && String(message.content).includes('+ 90 =')));
    trace.end();
  });

  test('a re-tokenised history forks, and identity holds in both chains', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Say: internationalisation of things' }];
    const requests: SeenRequest[] = [];
    await trace.run(async () => {
      for (const next of ['Say: more', 'Say: most']) {
        if (requests.length === 1) world.engine.failNext({ kind: 'retokenise' });
        const answer = await client.chat.completions.create({ model: 'toy', messages, ...IDS });
        requests.push(last());
        messages.push((answer.choices[0] as { message: ChatCompletionMessageParam }).message, { role: 'user', content: next });
      }
    });
    const { nodes, calls } = await recorded(trace);
    for (const [i, seen] of requests.entries()) assertIdentity(nodes, calls[i]?.node as number, seen);
    const fork = nodes.find(({ forkReason }) => forkReason !== undefined);
    assert.equal(fork?.forkReason, 'retokenised');
    assert.equal(fork?.sampled, false);
    trace.end();
  });

  test('outside of a trace nothing is recorded; a trace that ends first keeps what had arrived', async () => {
    const client = wrapOpenAI(openai());
    const before = world.recorder.counters.produced;
    await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'What is 1 + 2?' }] });
    assert.equal(world.recorder.counters.produced, before);
    const trace = world.rollout.trace();
    world.engine.setPace({ tokenMs: 2 });
    const stream = await wrapOpenAI(openai(), { trace }).chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'Count to 100' }], stream: true }); // prettier-ignore
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 10) trace.end();
    world.engine.setPace({ tokenMs: 0 });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls[0]?.error?.type, 'unfinished');
    assert.equal(nodes[1]?.partial, true);
    assert.equal(calls.length, 1);
  });

  test('helpers of the client are recorded too: stream(), and tools that run', async () => {
    const client = wrapOpenAI(openai());
    const trace = world.rollout.trace();
    await trace.run(async () => {
      const final = await client.chat.completions
        .stream({ model: 'toy', messages: [{ role: 'user', content: 'What is 20 + 2?' }] })
        .finalContent();
      assert.equal(final, '20 + 2 = 22');
      const runner = client.chat.completions.runTools({
        model: 'toy',
        messages: [{ role: 'user', content: 'Tell me about "Alan".' }],
        tools: [{ type: 'function', function: { name: 'facts_lookup', description: 'looks facts up', parameters: { type: 'object', properties: { entity: { type: 'string' } } }, function: (text: string) => `${(JSON.parse(text) as { entity: string }).entity} is a fact` } }], // prettier-ignore
      });
      assert.match((await runner.finalContent()) ?? '', /Alan is a fact/);
    });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls.length, 3);
    assert.deepEqual(nodes.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'tool', 'assistant']); // prettier-ignore
    trace.end();
  });
});
