/**
 * The clients of OpenAI and Anthropic, unmodified, wrapped: what they get is what they would have got, and what the engine saw and gave is in the log, bit for bit.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import {
  createRecorder,
  currentTrace,
  recordingFetch,
  wrapAnthropic,
  wrapOpenAI,
  type Recorder,
  type Rollout,
  type Trace,
} from '../../harness-sdk/index.ts';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import type { PackedArray } from '../../events/packed-array.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import type { SeenRequest } from '../fake-engine/seen.ts';

type NodeData = {
  index: number; parent: number | null; role: string; message: { role: string; content: unknown; [key: string]: unknown }; sampled: boolean;
  tokens?: { ids: PackedArray<'u32'>; mask: PackedArray<'u8'>; logprobs?: PackedArray<'f32'> };
  tokenError?: string; call?: number; forkReason?: string; attribution?: string; partial?: boolean;
}; // prettier-ignore
type CallData = {
  index: number; node?: number; model?: string; dialect: string; endpoint: string; sampling: Record<string, unknown>; requestDigest: string; finishReason?: string;
  usage?: Record<string, number>; time: { start: number; end: number }; firstToken?: number; stream: boolean; retryOf?: number;
  error?: { type: string; message: string; statusCode?: number }; extra?: { responseId?: string; nodes?: number[] };
}; // prettier-ignore
type Recorded = { nodes: NodeData[]; calls: CallData[] };

const FACTS: ChatCompletionTool = {
  type: 'function',
  function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
};
/** What a trainer needs and the client's types do not know. */
const IDS = { logprobs: true, return_token_ids: true } as const;

let edge: Edge;
let engine: FakeEngine;
let recorder: Recorder;
let rollout: Rollout;
const problems: unknown[] = [];
before(async () => {
  edge = await openEdge();
  engine = await startFakeEngine({ seed: 7 });
  recorder = createRecorder({ url: edge.url, lingerMs: 1, onProblem: (problem) => problems.push(problem) });
  rollout = recorder.rollout({ env: 'wraps' });
});
afterEach(() => {
  assert.deepEqual(problems, []);
});
after(async () => {
  await recorder.close();
  await engine.close();
  await edge.close();
});

async function recorded(trace: Trace): Promise<Recorded> {
  await recorder.flush();
  const events = (await edge.stored())
    .map(({ event }) => event as { type: string; trace?: string; data: unknown })
    .filter((event) => event.trace === trace.id);
  const of = <T>(type: string): T[] => events.filter((event) => event.type === type).map(({ data }) => data as T);
  return { nodes: of<NodeData>('node.appended'), calls: of<CallData>('call.recorded') };
}

function idsOf({ tokens }: NodeData): number[] {
  return [...(tokens?.ids.typed() ?? [])];
}

/** Ids along the path to a node, with 1 for those that were sampled. */
function pathOf(nodes: readonly NodeData[], leaf: number): { ids: number[]; mask: number[]; logprobs: number[] } {
  const path: NodeData[] = [];
  for (let at: number | null = leaf; at !== null; at = (nodes[at] as NodeData).parent) path.unshift(nodes[at] as NodeData);
  return {
    ids: path.flatMap(idsOf),
    mask: path.flatMap(({ tokens }) => [...(tokens?.mask.typed() ?? [])]),
    logprobs: path.flatMap(({ tokens }) => [...(tokens?.logprobs?.typed() ?? [])]),
  };
}

/** The rule: concatenated along its path, an answer's ids are what the engine saw and sampled. */
function assertIdentity(nodes: readonly NodeData[], leaf: number, seen: SeenRequest, choice = 0): void {
  const { ids, mask } = pathOf(nodes, leaf);
  const sampled = seen.choices[choice];
  assert.deepEqual(ids, [...(seen.promptIds ?? []), ...(sampled?.ids ?? [])]);
  assert.equal(mask.length, ids.length);
  const { tokens } = nodes[leaf] as NodeData;
  assert.deepEqual([...(tokens?.ids.typed() ?? [])].slice(-(sampled?.ids.length ?? 0)), [...(sampled?.ids ?? [])]);
  assert.deepEqual(tokens?.logprobs?.typed(), sampled?.logprobs);
  assert.equal(
    [...(tokens?.mask.typed() ?? [])].reduce((sum, bit) => sum + bit, 0),
    sampled?.ids.length,
  );
}

const openai = (options: Partial<ConstructorParameters<typeof OpenAI>[0]> = {}): OpenAI =>
  new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x', maxRetries: 0, ...options });
const last = (): SeenRequest => engine.requests().at(-1) as SeenRequest;
/** Without what names the request, which the engine makes anew each time. */
const comparable = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, each: unknown) => (['id', 'created', '_request_id', 'created_at', 'item_id'].includes(key) ? 0 : each)),
  ) as unknown;

describe('chat completions', () => {
  test('several turns are one chain, with the ids, masks and log-probabilities of the engine', async () => {
    const client = wrapOpenAI(openai());
    const trace = rollout.trace({ agent: 'solver' });
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
    const trace = rollout.trace();
    const ask = { model: 'toy-thinking', messages: [{ role: 'user' as const, content: 'Say: naïve 🤷 你好 \u{1F469}\u200D\u{1F680}' }], stream: true as const, stream_options: { include_usage: true }, n: 2, ...IDS }; // prettier-ignore
    engine.failNext({ kind: 'split', bytes: 3 }, { kind: 'crlf' });
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
    const trace = rollout.trace();
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
    const trace = rollout.trace();
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
    const trace = rollout.trace();
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
    const trace = rollout.trace();
    engine.failNext({ kind: 'status', status: 500, message: 'try later' });
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
    const trace = rollout.trace();
    for (const status of [400, 401, 404, 429, 503]) {
      const ask = { model: 'toy', messages: [{ role: 'user' as const, content: `status ${status}` }] };
      const failing = async (through: OpenAI): Promise<unknown> => {
        engine.failNext({ kind: 'status', status, message: `no: ${status}` });
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
    const trace = rollout.trace();
    engine.setPace({ tokenMs: 5 });
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
    engine.setPace({ tokenMs: 0 });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls.length, 2);
    for (const [i, call] of calls.entries()) {
      assert.ok(call.error !== undefined, JSON.stringify(call));
      const node = nodes[call.node as number] as NodeData;
      assert.equal(node.partial, true);
      assert.match(node.message.content as string, /^1 2 3/);
      const seen = engine
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
    const trace = rollout.trace();
    const ask = async (content: string): Promise<string> => {
      const stream = await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content }], stream: true, ...IDS });
      return JSON.stringify(await collect(stream));
    };
    await trace.run(async () => {
      engine.failNext({ kind: 'cut', afterTokens: 4, how: 'destroy' });
      await assert.rejects(ask('Count to 51'));
      engine.failNext({ kind: 'cut', afterTokens: 4, how: 'end' });
      await ask('Count to 52');
      engine.failNext({ kind: 'error_event', afterTokens: 4, message: 'the engine core died' });
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
    const trace = rollout.trace();
    const faults = [
      [{ kind: 'logprobs', how: 'short', at: 0 }, 'logprobs_length'],
      [{ kind: 'logprobs', how: 'sentinel', at: 1 }, 'logprobs_missing'],
      [{ kind: 'logprobs', how: 'null', at: 1 }, 'logprobs_missing'],
      [{ kind: 'token_ids', which: 'prompt', how: 'missing' }, 'no_prompt_ids'],
    ] as const;
    await trace.run(async () => {
      for (const [i, [fault]] of faults.entries()) {
        engine.failNext(fault);
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
    const trace = rollout.trace();
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Say: internationalisation of things' }];
    const requests: SeenRequest[] = [];
    await trace.run(async () => {
      for (const next of ['Say: more', 'Say: most']) {
        if (requests.length === 1) engine.failNext({ kind: 'retokenise' });
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
    const before = recorder.counters.produced;
    await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'What is 1 + 2?' }] });
    assert.equal(recorder.counters.produced, before);
    const trace = rollout.trace();
    engine.setPace({ tokenMs: 2 });
    const stream = await wrapOpenAI(openai(), { trace }).chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'Count to 100' }], stream: true }); // prettier-ignore
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 10) trace.end();
    engine.setPace({ tokenMs: 0 });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls[0]?.error?.type, 'unfinished');
    assert.equal(nodes[1]?.partial, true);
    assert.equal(calls.length, 1);
  });

  test('helpers of the client are recorded too: stream(), and tools that run', async () => {
    const client = wrapOpenAI(openai());
    const trace = rollout.trace();
    await trace.run(async () => {
      const final = await client.chat.completions
        .stream({ model: 'toy', messages: [{ role: 'user', content: 'What is 20 + 2?' }] })
        .finalContent();
      assert.equal(final, '20 + 2 = 22');
      const runner = client.chat.completions.runTools({
        model: 'toy',
        messages: [{ role: 'user', content: 'Tell me about "Alan".' }],
        tools: [{ type: 'function', function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } } }, function: (text: string) => `${(JSON.parse(text) as { entity: string }).entity} is a fact` } }], // prettier-ignore
      });
      assert.match((await runner.finalContent()) ?? '', /Alan is a fact/);
    });
    const { nodes, calls } = await recorded(trace);
    assert.equal(calls.length, 3);
    assert.deepEqual(nodes.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'tool', 'assistant']); // prettier-ignore
    trace.end();
  });
});

describe('responses', () => {
  test('a conversation that goes on from an answer by its id is one chain, streamed or not', async () => {
    const client = wrapOpenAI(openai());
    const trace = rollout.trace();
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
    const trace = rollout.trace();
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
    assert.deepEqual(JSON.parse((nodes[1]?.message['tool_calls'] as { arguments: string }[])[0]?.arguments as string), { entity: 'Ada' });
    trace.end();
  });
});

describe('messages of Anthropic', () => {
  const anthropic = (options: Partial<ConstructorParameters<typeof Anthropic>[0]> = {}): Anthropic =>
    new Anthropic({ baseURL: engine.url, apiKey: 'x', maxRetries: 0, ...options });
  const TOOL: Anthropic.Tool = { name: 'facts_lookup', input_schema: { type: 'object', properties: { entity: { type: 'string' } } } };

  test('turns with tools, streamed and not, are one chain; the caller gets what it would have got', async () => {
    const plain = anthropic();
    const client = wrapAnthropic(plain);
    const trace = rollout.trace();
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
    const [use] = nodes[2]?.message['tool_calls'] as { name: string; arguments: string }[];
    assert.deepEqual([use?.name, JSON.parse(use?.arguments as string)], ['facts_lookup', { entity: 'Ada' }]);
    assert.deepEqual(calls.map(({ dialect, endpoint, finishReason, stream }) => [dialect, endpoint, finishReason, stream]), [['anthropic.messages', '/v1/messages', 'tool_calls', false], ['anthropic.messages', '/v1/messages', 'stop', true]]); // prettier-ignore
    assert.ok((calls[1]?.usage?.['promptTokens'] ?? 0) > 0 && (calls[1]?.usage?.['completionTokens'] ?? 0) > 0);
    trace.end();
  });

  test('thinking is kept, errors and aborts are calls, counting tokens is none', async () => {
    const client = wrapAnthropic(anthropic());
    const trace = rollout.trace();
    const ask = { model: 'toy-thinking', max_tokens: 1000 };
    await trace.run(async () => {
      await client.messages.create({ ...ask, messages: [{ role: 'user', content: 'What is 3 + 4?' }] });
      await client.messages.countTokens({ model: 'toy', messages: [{ role: 'user', content: 'What is 3 + 4?' }] });
      engine.failNext({ kind: 'status', status: 529, message: 'overloaded' });
      await assert.rejects(client.messages.create({ ...ask, messages: [{ role: 'user', content: 'What is 3 + 5?' }] }), Anthropic.APIError);
      engine.setPace({ tokenMs: 5 });
      const stream = client.messages.stream({ ...ask, messages: [{ role: 'user', content: 'Count to 300' }] });
      stream.on('text', (_, sofar) => void (sofar.length > 10 && stream.abort()));
      await assert.rejects(stream.done(), Anthropic.APIUserAbortError);
      engine.setPace({ tokenMs: 0 });
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
  const trace = rollout.trace();
  const fetching = recordingFetch(fetch, { trace });
  const body = JSON.stringify({ model: 'toy', messages: [{ role: 'user', content: 'What is 6 + 6?' }] });
  const response = await fetching(`${engine.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  });
  assert.equal(response.url, `${engine.url}/v1/chat/completions`);
  assert.equal(response.status, 200);
  const answer = (await response.json()) as OpenAI.ChatCompletion;
  assert.equal(answer.choices[0]?.message.content, '6 + 6 = 12');
  assert.equal(await (await fetching(`${engine.url}/v1/models`)).json().then((list) => (list as { object: string }).object), 'list');
  const { calls } = await recorded(trace);
  assert.equal(calls.length, 1);
  trace.end();
});

async function collect(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const each of stream) found.push(each);
  return found;
}
