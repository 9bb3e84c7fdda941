/** Other dialects and other engines: the unmodified `@anthropic-ai/sdk` and `openai` packages in front of chat-only engines and of providers, and token-in calls. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { renderPrompt, textMessage } from '../fake-engine/chat-template.ts';
import { startFakeEngine, type FakeEngine } from '../fake-engine/engine.ts';
import { startGatewayServer, vllmUpstream, type GatewayServer, type MadeTrace } from './gateway-server.ts';
import { nodesOf, provesIdentity } from './token-identity.ts';

const TOOL = {
  name: 'facts_lookup',
  description: 'facts',
  input_schema: { type: 'object' as const, properties: { entity: { type: 'string' } } },
};
const MODEL = { maxModelLen: 32_768, thinks: false, earlierReasoning: 'keep' } as const;

describe('dialects', () => {
  let vllm: FakeEngine;
  let sglang: FakeEngine;
  let claude: FakeEngine;
  let gpt: FakeEngine;
  let gateway: GatewayServer;
  before(async () => {
    vllm = await startFakeEngine({ seed: 3, reasoningField: 'reasoning', tellVersion: 'both', policyVersion: 3 });
    sglang = await startFakeEngine({ seed: 4, kind: 'sglang', models: [{ id: 'sgl', ...MODEL }], policyVersion: 6 });
    claude = await startFakeEngine({
      seed: 5,
      kind: 'anthropic',
      models: [{ id: 'claude-toy', ...MODEL, thinks: true }],
      apiKey: 'claude-secret',
    });
    gpt = await startFakeEngine({ seed: 6, kind: 'openai', models: [{ id: 'gpt-toy', ...MODEL }], apiKey: 'gpt-secret' });
    gateway = await startGatewayServer(
      {
        vllm: vllmUpstream(vllm, {
          models: ['toy', 'toy-thinking', 'toy-small'],
          policyVersion: { header: 'x-policy-version', field: 'policy_version' },
        }),
        sglang: { kind: 'sglang', url: sglang.url, models: ['sgl'], policyVersion: { field: 'metadata.weight_version' } },
        claude: { kind: 'anthropic', url: claude.url, models: ['claude-toy'], apiKeyEnv: 'CLAUDE_KEY' },
        gpt: { kind: 'openai', url: gpt.url, models: ['gpt-toy'], apiKeyEnv: 'GPT_KEY' },
      },
      { CLAUDE_KEY: 'claude-secret', GPT_KEY: 'gpt-secret' },
    );
  });
  after(async () => {
    await gateway.stop();
    await Promise.all([vllm, sglang, claude, gpt].map((engine) => engine.close()));
  });

  const anthropicOf = (made: MadeTrace, maxRetries = 0): Anthropic =>
    new Anthropic({ baseURL: made.baseUrls.anthropic, apiKey: made.key, maxRetries });
  const openaiOf = (made: MadeTrace): OpenAI => new OpenAI({ baseURL: made.baseUrls.openai, apiKey: made.key, maxRetries: 0 });
  const ask = { max_tokens: 1000, system: 'Be brief.', tools: [TOOL] };
  const question = { role: 'user' as const, content: 'Look up "iron" and "tin".' };

  /** A tool loop of two calls, the first streamed; answers the final text. */
  const toolLoop = async (client: Anthropic, model: string): Promise<string> => {
    const first = await client.messages.stream({ ...ask, model, messages: [question] }).finalMessage();
    const uses = first.content.filter((b) => b.type === 'tool_use');
    assert.deepEqual(uses.map((b) => b.input), [{ entity: 'iron' }, { entity: 'tin' }]); // prettier-ignore
    assert.equal(first.stop_reason, 'tool_use');
    const results = uses.map((b, i) => ({ type: 'tool_result' as const, tool_use_id: b.id, content: `fact ${i}` }));
    const second = await client.messages.create({
      ...ask,
      model,
      messages: [question, { role: 'assistant', content: first.content }, { role: 'user', content: results }],
    });
    assert.equal(second.stop_reason, 'end_turn');
    assert.ok(second.usage.input_tokens > 0 && second.usage.output_tokens > 0);
    return second.content.map((b) => (b.type === 'text' ? b.text : '')).join('');
  };

  test('messages in front of a chat engine: streamed tool loop, token ids recorded', async () => {
    const made = await gateway.rollout();
    assert.equal(await toolLoop(anthropicOf(made), 'toy'), 'I found this: fact 0, fact 1');
    assert.equal(await provesIdentity(gateway, vllm.requests(), made.trace), 2);
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => [n.role, n.parent]), [['system', null], ['user', 0], ['assistant', 1], ['tool', 2], ['tool', 3], ['assistant', 4]]); // prettier-ignore
  });

  test('messages in front of a chat engine that thinks: thinking blocks go out and come back', async () => {
    const made = await gateway.rollout();
    assert.equal(await toolLoop(anthropicOf(made), 'toy-thinking'), 'I found this: fact 0, fact 1');
    assert.equal(await provesIdentity(gateway, vllm.requests(), made.trace), 2);
    const nodes = await nodesOf(gateway, made.trace);
    assert.match(nodes.find((n) => Boolean(n.sampled))?.reasoning ?? '', /I need facts_lookup/);
  });

  test("messages in front of Anthropic: relayed as they are, nodes say that they have no tokens; the key is the gateway's own", async () => {
    const made = await gateway.rollout();
    assert.equal(await toolLoop(anthropicOf(made), 'claude-toy'), 'I found this: fact 0, fact 1');
    assert.ok(claude.requests().every((r) => r.headers['x-api-key'] === 'claude-secret' && !JSON.stringify(r.headers).includes(made.key)));
    const nodes = await nodesOf(gateway, made.trace);
    assert.equal(nodes.length, 6);
    assert.ok(nodes.every((n) => n.tokens === null));
    assert.equal((await anthropicOf(made).messages.countTokens({ model: 'claude-toy', messages: [question] })).input_tokens > 5, true);
    assert.equal((await nodesOf(gateway, made.trace)).length, 6);
  });

  test('stop sequences, length, refused bodies and engine errors in the shape of Messages', async () => {
    const made = await gateway.rollout();
    const client = anthropicOf(made);
    const count = { model: 'toy', max_tokens: 100, messages: [{ role: 'user' as const, content: 'count to 20' }] };
    assert.equal((await client.messages.create({ ...count, max_tokens: 3 })).stop_reason, 'max_tokens');
    const stopped = await client.messages.create({ ...count, stop_sequences: ['5'] });
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence, stopped.content[0]?.type === 'text' && stopped.content[0].text], ['stop_sequence', '5', '1 2 3 4 ']); // prettier-ignore
    await assert.rejects(client.messages.create({ ...count, model: 'no-such' }), { status: 404, type: 'not_found_error' });
    await assert.rejects(anthropicOf({ ...made, key: 'sk-td-x.y' }).messages.create(count), { status: 401, type: 'authentication_error' });
    vllm.failNext({ kind: 'status', status: 429, message: 'slow down', retryAfter: '7', html: false });
    await assert.rejects(client.messages.create(count), (error: InstanceType<typeof Anthropic.APIError>) => {
      assert.deepEqual([error.status, error.type, error.headers?.get('retry-after')], [429, 'rate_limit_error', '7']);
      return true;
    });
    vllm.failNext({ kind: 'cut', afterTokens: 4, how: 'destroy' });
    await assert.rejects(client.messages.stream(count).finalMessage());
    assert.equal(await provesIdentity(gateway, vllm.requests(), made.trace), 2);
    assert.equal((await nodesOf(gateway, made.trace)).filter((n) => Boolean(n.partial)).length, 1);
  });

  test('chat in front of Anthropic: translated, streamed', async () => {
    const made = await gateway.rollout();
    const tools = [{ type: 'function' as const, function: { name: TOOL.name, parameters: TOOL.input_schema } }];
    const messages = [{ role: 'system' as const, content: 'Be brief.' }, question];
    const first = await openaiOf(made)
      .chat.completions.stream({ model: 'claude-toy', messages, tools, stream: true, max_tokens: 500 })
      .finalChatCompletion();
    const calls = first.choices[0]?.message.tool_calls ?? [];
    assert.deepEqual(calls.map((c) => c.type === 'function' && (JSON.parse(c.function.arguments) as unknown)), [{ entity: 'iron' }, { entity: 'tin' }]); // prettier-ignore
    const results = calls.map((c, i) => ({ role: 'tool' as const, tool_call_id: c.id, content: `fact ${i}` }));
    const second = await openaiOf(made).chat.completions.create({
      model: 'claude-toy',
      messages: [...messages, first.choices[0]!.message, ...results],
      tools,
      max_tokens: 500,
    });
    assert.equal(second.choices[0]?.message.content, 'I found this: fact 0, fact 1');
    // the client's stream helper keeps only the last piece of the reasoning, so that the answer it sends back is another one
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => [n.role, n.parent, n.fork_reason !== null]), [['system', null, false], ['user', 0, false], ['assistant', 1, false], ['assistant', 1, true], ['tool', 3, false], ['tool', 4, false], ['assistant', 5, false]]); // prettier-ignore
  });

  test('OpenAI itself: chat and responses are relayed without a field it does not know', async () => {
    const made = await gateway.rollout();
    const client = openaiOf(made);
    const chat = await client.chat.completions.create({ model: 'gpt-toy', messages: [{ role: 'user', content: '2 + 2' }] });
    assert.equal(chat.choices[0]?.message.content, '2 + 2 = 4');
    const stream = client.responses.stream({ model: 'gpt-toy', input: '3 + 3' });
    const events: string[] = [];
    for await (const event of stream) events.push(event.type);
    assert.equal(events.at(-1), 'response.completed');
    const first = await stream.finalResponse();
    assert.equal(first.output_text, '3 + 3 = 6');
    const second = await client.responses.create({ model: 'gpt-toy', input: '4 + 4', previous_response_id: first.id });
    assert.equal(second.output_text, '4 + 4 = 8');
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => [n.index, n.parent, n.text]), [[0, null, '2 + 2'], [1, 0, '2 + 2 = 4'], [2, null, '3 + 3'], [3, 2, '3 + 3 = 6'], [4, 3, '4 + 4'], [5, 4, '4 + 4 = 8']]); // prettier-ignore
    assert.ok(nodes.every((n) => n.tokens === null));
    assert.ok(gpt.requests().filter((r) => r.method === 'POST').every((r) => r.headers.authorization === 'Bearer gpt-secret')); // prettier-ignore
  });

  test('SGLang: a streamed chat has its ids all the same, and /generate is recorded to the token', async () => {
    const made = await gateway.rollout();
    const stream = await openaiOf(made).chat.completions.create({
      model: 'sgl',
      messages: [{ role: 'user', content: '5 + 5' }],
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    assert.equal(text, '5 + 5 = 10');
    assert.equal(await provesIdentity(gateway, sglang.requests(), made.trace), 1);
    const other = await gateway.rollout({ model: 'sgl' });
    const ids = renderPrompt(sglang.tokenizer, [textMessage('user', '6 + 6')], [], {
      earlierReasoning: 'keep',
      addGenerationPrompt: true,
      idsPerImage: 4,
    });
    const generate = { input_ids: ids, sampling_params: { max_new_tokens: 50 }, return_logprob: true };
    const answer = await gateway.post('/generate', generate, { authorization: `Bearer ${other.key}` });
    assert.equal((answer.json as { text: string }).text, '6 + 6 = 12');
    assert.equal(await provesIdentity(gateway, sglang.requests(), other.trace), 1);
  });

  test('vLLM token-in: the ids of the request and of the answer, whole and streamed; the next one extends', async () => {
    const made = await gateway.rollout({ model: 'toy' });
    const prompt = renderPrompt(vllm.tokenizer, [textMessage('user', '7 + 7')], [], {
      earlierReasoning: 'keep',
      addGenerationPrompt: true,
      idsPerImage: 4,
    });
    const bearer = { authorization: `Bearer ${made.key}` };
    const body = { model: 'toy', token_ids: prompt, sampling_params: { logprobs: 1, stop_token_ids: [vllm.tokenizer.markers.imEnd] } };
    const first = await gateway.post('/inference/v1/generate', body, bearer);
    const choice = (first.json as { choices: { token_ids: number[]; logprobs: { content: { token: string }[] } }[] }).choices[0]!;
    assert.deepEqual(choice.logprobs.content.map((c) => c.token), choice.token_ids.map((id) => `token_id:${id}`)); // prettier-ignore
    const next = [...prompt, ...choice.token_ids, ...vllm.tokenizer.encode('\n')];
    const answer = await fetch(`${gateway.url}/inference/v1/generate`, {
      method: 'POST',
      headers: { ...bearer, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, token_ids: next, stream: true }),
    });
    assert.match(await answer.text(), /data: \[DONE\]\n\n$/);
    assert.equal(await provesIdentity(gateway, vllm.requests(), made.trace), 2);
    const nodes = await nodesOf(gateway, made.trace);
    assert.deepEqual(nodes.map((n) => [n.role, n.parent, n.message]), [['input', null, null], ['assistant', 0, null], ['input', 1, null], ['assistant', 2, null]]); // prettier-ignore
  });

  test('the policy version as the engine says it, per token where it changes in the middle', async () => {
    const made = await gateway.rollout();
    vllm.failNext({ kind: 'policy_update', afterTokens: 3, version: 4 });
    for await (const _ of await openaiOf(made).chat.completions.create({
      model: 'toy',
      messages: [{ role: 'user', content: 'count to 9' }],
      stream: true,
    }));
    const total = vllm.requests().at(-1)!.choices[0]!.ids.length;
    type Row = { policy_version: number; policy_version_end: number; runs: string };
    const [row] = await gateway.sql<Row>(
      `SELECT toUInt32(c.policy_version) AS policy_version, toUInt32(c.policy_version_end) AS policy_version_end, toJSONString(n.policy_runs) AS runs FROM calls AS c JOIN nodes AS n ON c.trace = n.trace AND c.node = n.index WHERE c.trace = {trace:String}`,
      { trace: made.trace },
    );
    assert.deepEqual([row?.policy_version, row?.policy_version_end], [3, 4]);
    assert.deepEqual((JSON.parse(row?.runs ?? '[]') as object[]).map((r) => Object.values(r).map(Number)), [[3, 3], [total - 3, 4]]); // prettier-ignore
  });

  test('one key for a whole run: sessions by header are traces of their own', async () => {
    const made = await gateway.post('/v1/runs/run-keys/keys', { model: 'toy' });
    const { key } = made.json as { key: string };
    const client = (session: string): OpenAI =>
      new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 0, defaultHeaders: { 'X-Session-ID': session } });
    await Promise.all(
      ['a', 'b', 'a'].map((session, i) =>
        client(session).chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: `${i} + 1` }] }),
      ),
    );
    const rows = await gateway.sql<{ trace: string; calls: number }>('SELECT trace, count() AS calls FROM calls WHERE run = {run:String} GROUP BY trace ORDER BY trace', { run: 'run-keys' }); // prettier-ignore
    assert.deepEqual(rows.map((r) => [r.trace, Number(r.calls)]), [['wire:a', 2], ['wire:b', 1]]); // prettier-ignore
    await assert.rejects(new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: key, maxRetries: 0 }).chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'x' }] }), (error: { status?: number }) => (error.status ?? 0) >= 400); // prettier-ignore
  });
});
