/** The unmodified `openai` package through the gateway: what it gets is what it gets from the engine, and every exchange is recorded, to the token. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { nodesOf, pathIds, provesIdentity } from './token-identity.ts';

const FACTS: ChatCompletionTool = {
  type: 'function',
  function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
};

type CallRow = {
  index: number;
  node: number | null;
  error_type: string | null;
  finish_reason: string | null;
  stream: boolean | number;
  retry_of: number | null;
  extends: boolean | number | null;
  endpoint: string;
};

describe('openai', () => {
  let engine: FakeEngine;
  let gateway: GatewayServer;
  before(async () => {
    engine = await startFakeEngine({ seed: 11 });
    gateway = await startGatewayServer({
      vllm: vllmUpstream(engine),
      patient: vllmUpstream(engine, { stopUpstreamOnDisconnect: false, models: ['toy'] }),
    });
  });
  after(async () => {
    await gateway.stop();
    await engine.close();
  });

  const clientOf = (made: MadeTrace, options: { maxRetries?: number; timeout?: number } = {}): OpenAI =>
    new OpenAI({ baseURL: made.baseUrls.openai, apiKey: made.key, maxRetries: 0, ...options });
  const calls = (trace: string): Promise<CallRow[]> =>
    gateway.sql<CallRow>(
      'SELECT toUInt32(index) AS index, node, error_type, finish_reason, stream, retry_of, extends, endpoint FROM calls WHERE trace = {trace:String} ORDER BY index',
      { trace },
    );
  const hello: ChatCompletionMessageParam[] = [{ role: 'user', content: 'What is 2 + 3?' }];

  test('chat: the answer, without the token data that was not asked for', async () => {
    const made = await gateway.rollout();
    const answer = await clientOf(made).chat.completions.create({ model: 'toy', messages: hello });
    assert.equal(answer.choices[0]?.message.content, '2 + 3 = 5');
    assert.equal('prompt_token_ids' in answer || 'token_ids' in (answer.choices[0] as object), false);
    assert.equal(answer.choices[0].logprobs ?? null, null);
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
  });

  test('chat: with the token data that was asked for', async () => {
    const made = await gateway.rollout();
    const ask = { model: 'toy', messages: hello, logprobs: true, top_logprobs: 2, return_token_ids: true };
    const answer = await clientOf(made).chat.completions.create(ask);
    const seen = engine.requests().at(-1)!;
    const withIds = answer as unknown as { prompt_token_ids: number[]; choices: { token_ids: number[] }[] };
    assert.deepEqual(withIds.prompt_token_ids, Array.from(seen.promptIds ?? []));
    assert.deepEqual(withIds.choices[0]?.token_ids, Array.from(seen.choices[0]?.ids ?? []));
    assert.ok(answer.choices[0]?.logprobs?.content?.every((c) => c.top_logprobs.length === 2));
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
  });

  test('a streamed conversation with parallel tool calls is one chain, and each prompt extends the last', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    const messages: ChatCompletionMessageParam[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Look up "iron" and "tin".' },
    ];
    const first = await client.chat.completions.stream({ model: 'toy', messages, tools: [FACTS], stream: true }).finalChatCompletion();
    const toolCalls = first.choices[0]?.message.tool_calls ?? [];
    assert.equal(toolCalls.length, 2);
    messages.push(
      first.choices[0]!.message,
      ...toolCalls.map((c, i) => ({ role: 'tool' as const, tool_call_id: c.id, content: `fact ${i}` })),
    );
    const second = await client.chat.completions.stream({ model: 'toy', messages, tools: [FACTS], stream: true }).finalChatCompletion();
    assert.equal(second.choices[0]?.message.content, 'I found this: fact 0, fact 1');
    messages.push(second.choices[0].message, { role: 'user', content: 'What is 20 + 22?' });
    const stream = await client.chat.completions.create({
      model: 'toy',
      messages,
      tools: [FACTS],
      tool_choice: 'none',
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? '';
      usage += chunk.usage?.completion_tokens ?? 0;
    }
    assert.equal(text, '20 + 22 = 42');
    assert.equal(usage, engine.requests().at(-1)?.choices[0]?.ids.length);
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 3);
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => n.role), ['system', 'user', 'assistant', 'tool', 'tool', 'assistant', 'user', 'assistant']); // prettier-ignore
    assert.deepEqual(nodes.map((n) => n.parent), [null, 0, 1, 2, 3, 4, 5, 6]); // prettier-ignore
    assert.deepEqual((await calls(made.trace)).map((c) => [c.node, c.error_type, Boolean(c.stream), c.extends === null ? null : Boolean(c.extends)]), [[2, null, true, null], [5, null, true, true], [7, null, true, true]]); // prettier-ignore
  });

  test('a thinking template forks every turn, and both turns are whole', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    const first = await client.chat.completions.create({ model: 'toy-thinking', messages: hello });
    const messages = [...hello, first.choices[0]!.message, { role: 'user' as const, content: '4 + 4' }];
    await client.chat.completions.create({ model: 'toy-thinking', messages });
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 2);
    const nodes = await nodesOf(gateway, made.trace);
    assert.ok(nodes.some((n) => n.fork_reason === 'reasoning_dropped'), JSON.stringify(nodes.map((n) => n.fork_reason))); // prettier-ignore
    assert.deepEqual((await calls(made.trace)).map((c) => c.extends === null ? null : Boolean(c.extends)), [null, false]); // prettier-ignore
  });

  test('history that the engine tokenises another way forks; a stop string does, too', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'say: several words of an answer' }];
    const first = await client.chat.completions.create({ model: 'toy', messages });
    messages.push(first.choices[0]!.message, { role: 'user', content: 'count to 20' });
    engine.failNext({ kind: 'retokenise' });
    const second = await client.chat.completions.create({ model: 'toy', messages, stop: '5' });
    assert.equal(second.choices[0]?.message.content, '1 2 3 4 ');
    messages.push(second.choices[0].message, { role: 'user', content: '1 + 1' });
    await client.chat.completions.create({ model: 'toy', messages });
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 3);
    assert.deepEqual((await calls(made.trace)).map((c) => c.extends === null ? null : Boolean(c.extends)), [null, false, false]); // prettier-ignore
  });

  test('n = 4: four answers to one prompt, the third goes on', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    const ask: ChatCompletionMessageParam[] = [{ role: 'user', content: 'How are you?' }];
    const answer = await client.chat.completions.create({ model: 'toy', messages: ask, n: 4 });
    assert.equal(answer.choices.length, 4);
    await client.chat.completions.create({
      model: 'toy',
      messages: [...ask, answer.choices[2]!.message, { role: 'user', content: '1 + 1' }],
    });
    const stream = await client.chat.completions.create({ model: 'toy', messages: ask, n: 2, stream: true });
    const texts = ['', ''];
    for await (const chunk of stream) for (const c of chunk.choices) texts[c.index] += c.delta.content ?? '';
    assert.deepEqual(texts, engine.requests().at(-1)?.choices.map((c) => c.message.content)); // prettier-ignore
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 7);
  });

  test('the same prompt again is another sample; a retry is not', async () => {
    const made = await gateway.rollout();
    const plain = clientOf(made);
    const from = engine.requests().length;
    await plain.chat.completions.create({ model: 'toy', messages: hello });
    await plain.chat.completions.create({ model: 'toy', messages: hello });
    engine.queueFault({ faults: [{ kind: 'status', status: 500 }], times: 2 });
    await clientOf(made, { maxRetries: 2 }).chat.completions.create({ model: 'toy', messages: hello });
    assert.deepEqual(engine.requests(from).map((r) => r.status), [200, 200, 500, 500, 200]); // prettier-ignore
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 3);
    const rows = await calls(made.trace);
    assert.deepEqual(rows.map((c) => [c.error_type !== null, c.retry_of]), [[false, null], [false, null], [true, null], [true, 2], [false, 3]]); // prettier-ignore
  });

  for (const [upstream, what, outcomes] of [
    ['vllm', 'ends the call, and its retry is answered', ['client_closed', 'complete']],
    ['patient', 'leaves the call running where the engine is not stopped, and its retry joins it', ['complete']],
  ] as const) {
    test(`a timeout of the client ${what}: one answer, one chain`, async () => {
      const made = await gateway.rollout({ upstream });
      engine.failNext({ kind: 'slow_first_token', ms: 2500 });
      const answer = await clientOf(made, { maxRetries: 5, timeout: 1000 }).chat.completions.create({ model: 'toy', messages: hello });
      assert.equal(answer.choices[0]?.message.content, '2 + 3 = 5');
      const seen = engine.requests().filter((r) => r.headers['x-session-id'] === made.trace);
      assert.deepEqual(seen.map((r) => r.outcome), outcomes); // prettier-ignore
      assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
      assert.deepEqual((await calls(made.trace)).map((c) => [c.error_type, c.retry_of]), outcomes.length === 1 ? [[null, null]] : [['cancelled', null], [null, 0]]); // prettier-ignore
    });
  }

  test('abort: the engine is stopped, and what arrived is recorded as a cancelled call', async () => {
    const made = await gateway.rollout({ upstream: 'vllm' });
    engine.setPace({ tokenMs: 20 });
    const stream = await clientOf(made).chat.completions.create({
      model: 'toy',
      messages: [{ role: 'user', content: 'count to 400' }],
      stream: true,
    });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 10) break;
    const seen = await engine.ended((r) => r.headers['x-session-id'] === made.trace);
    engine.setPace({ tokenMs: 0 });
    assert.equal(seen.outcome, 'client_closed');
    await settled(async () => (await calls(made.trace)).length === 1);
    const [call] = await calls(made.trace);
    assert.notEqual(call?.error_type, null);
    const nodes = await nodesOf(gateway, made.trace);
    const partial = nodes.find((n) => Boolean(n.sampled))!;
    assert.ok(Boolean(partial.partial));
    const whole = [...(seen.promptIds ?? []), ...(seen.choices[0]?.ids ?? [])];
    const path = pathIds(nodes, partial);
    assert.ok(path.length > (seen.promptIds?.length ?? 0) && path.length < whole.length);
    assert.deepEqual(path, whole.slice(0, path.length));
  });

  test('faults of the engine reach the client as errors, never as a finished answer, and are recorded', async () => {
    const cases: { trace: string; what: string }[] = [];
    for (const [fault, expected] of [
      [{ kind: 'cut', afterTokens: 3, how: 'destroy' }, 'broken'],
      [{ kind: 'cut', afterTokens: 3, how: 'end' }, 'broken'],
      [{ kind: 'error_event', afterTokens: 3, message: 'the engine core died' }, 'broken'],
      [{ kind: 'malformed', afterTokens: 3, text: 'data: {"id": "oops\n\n' }, 'broken'],
      [{ kind: 'empty_body' }, 'broken'],
      [{ kind: 'status', status: 429, message: 'slow down', retryAfter: '3', html: false }, 429],
      [{ kind: 'status', status: 502, message: 'Bad Gateway', html: true }, 502],
    ] as const) {
      const made = await gateway.rollout({ upstream: 'vllm' });
      engine.failNext(fault);
      let finish: string | null = null;
      let failure: unknown = null;
      try {
        const stream = await clientOf(made).chat.completions.create({
          model: 'toy',
          messages: [{ role: 'user', content: 'count to 30' }],
          stream: true,
        });
        for await (const chunk of stream) finish = chunk.choices[0]?.finish_reason ?? finish;
      } catch (error) {
        failure = error;
      }
      const what = `${JSON.stringify(fault)}: ${String(failure)}, finish ${finish}`;
      assert.equal(finish, null, what);
      assert.ok(failure instanceof Error, what);
      if (typeof expected === 'number') assert.equal((failure as { status?: number }).status, expected, what);
      cases.push({ trace: made.trace, what });
    }
    for (const { trace, what } of cases) {
      const rows = await calls(trace);
      assert.equal(rows.length, 1, what);
      assert.notEqual(rows[0]?.error_type, null, what);
    }
  });

  test('an engine that a proxy reports dead: the next one that serves the model answers, and the attempt is in the record', async () => {
    const made = await gateway.rollout();
    engine.failNext({ kind: 'status', status: 502, message: 'Bad Gateway', html: true });
    const answer = await clientOf(made).chat.completions.create({ model: 'toy', messages: hello });
    assert.equal(answer.choices[0]?.message.content, '2 + 3 = 5');
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 1);
    const [body] = await gateway.sql<{ data: string }>('SELECT data FROM call_bodies WHERE trace = {trace:String}', { trace: made.trace });
    assert.match(body?.data ?? '', /"attempts":\[\{"upstream":"/);
  });

  test('streams that are odd but legal pass whole: CRLF, split bytes, unknown events and fields, comments, long lines', async () => {
    const made = await gateway.rollout();
    for (const fault of [
      { kind: 'crlf' },
      { kind: 'split', bytes: 3 },
      { kind: 'unknown_events' },
      { kind: 'keep_alive', everyTokens: 2 },
      { kind: 'long_line', afterTokens: 2, bytes: 1_000_000 },
    ] as const) {
      engine.failNext(fault);
      const stream = await clientOf(made).chat.completions.create({
        model: 'toy',
        messages: [{ role: 'user', content: 'say: naïve 你好 🤷' }],
        stream: true,
      });
      let text = '';
      let unknown = 0;
      for await (const chunk of stream) {
        text += chunk.choices[0]?.delta?.content ?? '';
        if ('x_unknown' in chunk || 'x_padding' in chunk || (chunk as { type?: string }).type === 'fake_notice') unknown++;
      }
      assert.equal(text, 'naïve 你好 🤷', fault.kind);
      assert.equal(unknown, { crlf: 0, split: 0, unknown_events: 2, keep_alive: 0, long_line: 1 }[fault.kind], fault.kind);
    }
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 5);
  });

  test('without log-probabilities the ids are kept, and say that they have none', async () => {
    const made = await gateway.rollout();
    engine.failNext({ kind: 'logprobs', how: 'missing', at: 0 });
    await clientOf(made).chat.completions.create({ model: 'toy', messages: hello });
    const sampled = (await nodesOf(gateway, made.trace)).find((n) => Boolean(n.sampled))!;
    const seen = engine.requests().at(-1)!;
    assert.deepEqual([sampled.logprobs, sampled.token_ids.length], [[], (seen.promptIds?.length ?? 0) + seen.choices[0]!.ids.length]);
    const [row] = await gateway.sql<{ streams: string[] }>('SELECT streams FROM nodes WHERE trace = {trace:String} AND sampled', { trace: made.trace }); // prettier-ignore
    assert.ok(!row?.streams.includes('logprobs'), JSON.stringify(row));
  });

  test('token data that is no good: the text is kept, the node has no tokens and says why', async () => {
    const cases: { trace: string; what: string }[] = [];
    for (const fault of [
      { kind: 'logprobs', how: 'short', at: 0 },
      { kind: 'logprobs', how: 'nan', at: 1 },
      { kind: 'logprobs', how: 'null', at: 1 },
      { kind: 'logprobs', how: 'sentinel', at: 1 },
      { kind: 'token_ids', which: 'completion', how: 'short' },
      { kind: 'token_ids', which: 'completion', how: 'missing' },
      { kind: 'token_ids', which: 'prompt', how: 'missing' },
    ] as const) {
      const made = await gateway.rollout();
      for (const stream of [false, true]) {
        engine.failNext(fault);
        const ask = { model: 'toy', messages: hello };
        if (!stream) await clientOf(made).chat.completions.create(ask);
        else for await (const _ of await clientOf(made).chat.completions.create({ ...ask, stream: true }));
      }
      cases.push({ trace: made.trace, what: JSON.stringify(fault) });
    }
    for (const { trace, what } of cases) {
      const sampled = (await nodesOf(gateway, trace)).filter((n) => Boolean(n.sampled));
      assert.deepEqual(sampled.map((n) => [n.text, n.tokens]), [['2 + 3 = 5', null], ['2 + 3 = 5', null]], what); // prettier-ignore
      assert.ok(sampled.every((n) => /token_?error/i.test(`${n.extra ?? ''}${n.rest ?? ''}`)), `${what}: ${sampled[0]?.extra ?? ''} ${sampled[0]?.rest ?? ''}`); // prettier-ignore
    }
  });

  test('responses: served by a chat engine through translation or by its own, stateless and stateful, streamed', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    const tools = [
      {
        type: 'function' as const,
        name: 'facts_lookup',
        parameters: { type: 'object', properties: { entity: { type: 'string' } } },
        strict: false,
      },
    ];
    const first = await client.responses.create({ model: 'toy', input: 'Look up "iron" and "tin".', instructions: 'Be brief.', tools });
    const asked = first.output.filter((o) => o.type === 'function_call');
    assert.deepEqual(asked.map((c) => c.arguments), ['{"entity":"iron"}', '{"entity":"tin"}']); // prettier-ignore
    const outputs = asked.map((c, i) => ({ type: 'function_call_output' as const, call_id: c.call_id, output: `fact ${i}` }));
    const streamed = client.responses.stream({
      model: 'toy',
      input: outputs,
      instructions: 'Be brief.',
      previous_response_id: first.id,
      tools,
    });
    const types: string[] = [];
    for await (const event of streamed) types.push(event.type);
    assert.equal(types.at(-1), 'response.completed');
    assert.equal((await streamed.finalResponse()).output_text, 'I found this: fact 0, fact 1');
    const stateless = await client.responses.create({
      model: 'toy',
      instructions: 'Be brief.',
      input: [{ role: 'user', content: 'Look up "iron" and "tin".' }, ...asked, ...outputs],
      tools,
    });
    assert.equal(stateless.output_text, 'I found this: fact 0, fact 1');
    const nodes = await nodesOf(gateway, made.trace);
    // the whole conversation again is the same prompt: another sample beside the one that went on by the response's id
    assert.deepEqual(nodes.map((n) => [n.role, n.parent]), [['system', null], ['user', 0], ['assistant', 1], ['tool', 2], ['tool', 3], ['assistant', 4], ['assistant', 4]]); // prettier-ignore
    assert.equal(await provesIdentity(gateway, engine.requests(), made.trace), 3);
    assert.equal((await calls(made.trace)).filter((c) => c.error_type === null).length, 3);
  });

  test('models, embeddings and plain completions pass and are recorded without nodes', async () => {
    const made = await gateway.rollout();
    const client = clientOf(made);
    assert.ok((await client.models.list()).data.some((m) => m.id === 'toy'));
    assert.equal((await client.embeddings.create({ model: 'toy', input: 'a' })).data.length, 1);
    assert.equal((await client.completions.create({ model: 'toy', prompt: '3 + 4', max_tokens: 50 })).choices[0]?.text, '3 + 4 = 7');
    assert.deepEqual(await nodesOf(gateway, made.trace), []);
    assert.deepEqual((await calls(made.trace)).map((c) => c.endpoint.split('/').at(-1)), ['embeddings', 'completions']); // prettier-ignore
  });

  test('a rollout has its limits, its end and its key', async () => {
    const made = await gateway.rollout({ limits: { turns: 2 }, sampling: { temperature: 0.25, max_tokens: 4 }, model: 'toy' });
    const client = clientOf(made);
    const cut = await client.chat.completions.create({
      model: 'another',
      messages: [{ role: 'user', content: 'count to 9' }],
      temperature: 2,
    });
    assert.equal(cut.choices[0]?.finish_reason, 'length');
    const sent = engine.requests().at(-1)?.body as Record<string, unknown>;
    assert.deepEqual([sent['model'], sent['temperature'], sent['max_tokens'] ?? sent['max_completion_tokens']], ['toy', 0.25, 4]);
    await client.chat.completions.create({ model: 'toy', messages: hello });
    await assert.rejects(client.chat.completions.create({ model: 'toy', messages: hello }), (error: Error) => /turns/.test(error.message));
    const other = await gateway.rollout();
    assert.equal(
      (await gateway.post(`/v1/rollouts/${other.rollout}/end`, { ok: true, rewards: [{ name: 'correct', score: 1 }] })).status,
      200,
    );
    await assert.rejects(clientOf(other).chat.completions.create({ model: 'toy', messages: hello }), { status: 409 });
    await assert.rejects(new OpenAI({ baseURL: made.baseUrls.openai, apiKey: `${made.key}x`, maxRetries: 0 }).models.list(), {
      status: 401,
    });
    const inPath = new OpenAI({ baseURL: other.baseUrls.withKey.openai, apiKey: 'unused', maxRetries: 0 });
    await assert.rejects(inPath.chat.completions.create({ model: 'toy', messages: hello }), { status: 409 });
    const rows = await gateway.sql<{ ok: boolean; reward: number }>('SELECT ok, reward FROM rollouts WHERE rollout = {rollout:String}', {
      rollout: other.rollout,
    });
    assert.deepEqual(rows.map((r) => [Boolean(r.ok), r.reward]), [[true, 1]]); // prettier-ignore
  });
});

async function settled(done: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 200; tries++) {
    if (await done()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.fail('it did not settle in 10 s');
}
