import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import fc from 'fast-check';
import OpenAI from 'openai';
import { defaultBehaviour } from './behaviour.ts';
import { answerSpans, parsePrompt, renderPrompt, textMessage } from './chat-template.ts';
import { startFakeEngine, type FakeEngine } from './engine.ts';
import { rulesBehaviour } from './rules.ts';
import type { SeenRequest } from './seen.ts';
import { decode, o200kTokenizer } from './tokenizer.ts';

const TOOL = {
  name: 'facts_lookup',
  description: 'facts',
  input_schema: { type: 'object' as const, properties: { entity: { type: 'string' } } },
};

async function post(url: string, body: unknown): Promise<{ status: number; body: unknown; text: string }> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  const text = await answer.text();
  return { status: answer.status, text, body: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : undefined };
}

function eventsOf(text: string): unknown[] {
  return text
    .split('\n\n')
    .filter((e) => e.startsWith('data: {'))
    .map((e) => JSON.parse(e.slice(6)) as unknown);
}

describe('messages through the anthropic client', () => {
  let engine: FakeEngine;
  let client: Anthropic;
  before(async () => {
    engine = await startFakeEngine({ kind: 'anthropic', apiKey: 'secret' });
    client = new Anthropic({ baseURL: engine.url, apiKey: 'secret', maxRetries: 0 });
  });
  after(() => engine.close());

  test('an answer, its usage and its stop reasons', async () => {
    const ask = { model: 'toy', max_tokens: 100, messages: [{ role: 'user' as const, content: 'count to 20' }], system: 'Be brief.' };
    const answer = await client.messages.create(ask);
    assert.deepEqual(answer.content.map((b) => b.type), ['text']); // prettier-ignore
    assert.equal(answer.stop_reason, 'end_turn');
    const seen = engine.requests().at(-1) as SeenRequest;
    assert.equal(answer.usage.input_tokens, seen.promptIds?.length);
    assert.equal(
      (await client.messages.countTokens({ model: 'toy', messages: ask.messages, system: ask.system })).input_tokens,
      seen.promptIds?.length,
    );
    const stopped = await client.messages.create({ ...ask, stop_sequences: ['5'] });
    assert.deepEqual([stopped.stop_reason, stopped.stop_sequence], ['stop_sequence', '5']);
    assert.equal((await client.messages.create({ ...ask, max_tokens: 3 })).stop_reason, 'max_tokens');
  });

  test('a stream of thinking, text and parallel tool use ends in the same message as without', async () => {
    const messages = [{ role: 'user' as const, content: 'Look up "iron" and "tin".' }];
    const final = await client.messages.stream({ model: 'toy-thinking', max_tokens: 1000, messages, tools: [TOOL] }).finalMessage();
    assert.deepEqual(final.content.map((b) => b.type), ['thinking', 'tool_use', 'tool_use']); // prettier-ignore
    assert.deepEqual(final.content.flatMap((b) => (b.type === 'tool_use' ? [b.input] : [])), [{ entity: 'iron' }, { entity: 'tin' }]); // prettier-ignore
    assert.equal(final.stop_reason, 'tool_use');
    const results = final.content.flatMap((b) =>
      b.type === 'tool_use' ? [{ type: 'tool_result' as const, tool_use_id: b.id, content: b.name }] : [],
    );
    const next = await client.messages.create({
      model: 'toy-thinking',
      max_tokens: 1000,
      tools: [TOOL],
      messages: [...messages, { role: 'assistant', content: final.content }, { role: 'user', content: results }],
    });
    assert.deepEqual(next.content.map((b) => (b.type === 'text' ? b.text : b.type)), ['thinking', 'I found this: facts_lookup, facts_lookup']); // prettier-ignore
  });

  test('a wrong key and a bad body are refused in its own shape', async () => {
    await assert.rejects(
      new Anthropic({ baseURL: engine.url, apiKey: 'wrong', maxRetries: 0 }).messages.create({ model: 'toy', max_tokens: 1, messages: [] }),
      {
        status: 401,
        type: 'authentication_error',
      },
    );
    await assert.rejects(client.messages.create({ model: 'toy', max_tokens: 1, messages: [] }), {
      status: 400,
      type: 'invalid_request_error',
    });
  });
});

describe('responses through the openai client', () => {
  let engine: FakeEngine;
  let client: OpenAI;
  before(async () => {
    engine = await startFakeEngine({ kind: 'openai' });
    client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x', maxRetries: 0 });
  });
  after(() => engine.close());

  test('stateless and with the response before', async () => {
    const first = await client.responses.create({ model: 'toy', input: 'What is 2 + 3?', instructions: 'Be brief.' });
    assert.equal(first.output_text, '2 + 3 = 5');
    const second = await client.responses.create({
      model: 'toy',
      input: '5 + 5',
      previous_response_id: first.id,
      instructions: 'Be brief.',
    });
    assert.equal(second.output_text, '5 + 5 = 10');
    const whole = [...(engine.requests().at(-2)?.promptIds ?? []), ...(engine.requests().at(-2)?.choices[0]?.ids ?? [])];
    assert.deepEqual(Array.from(engine.requests().at(-1)?.promptIds?.slice(0, whole.length) ?? []), whole);
    await assert.rejects(client.responses.create({ model: 'toy', input: 'x', previous_response_id: 'resp_none' }), { status: 404 });
  });

  test('a stream has all events in order and ends in the same response', async () => {
    const tools = [{ type: 'function' as const, name: 'facts_lookup', parameters: TOOL.input_schema, strict: false }];
    const stream = client.responses.stream({ model: 'toy-thinking', input: 'Look up "iron" and "tin".', tools });
    const types: string[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      types.push(event.type);
      numbers.push(event.sequence_number);
    }
    assert.deepEqual(numbers, numbers.map((_, i) => i)); // prettier-ignore
    assert.equal(types[0], 'response.created');
    assert.equal(types.at(-1), 'response.completed');
    const final = await stream.finalResponse();
    assert.deepEqual(final.output.map((o) => o.type), ['reasoning', 'function_call', 'function_call']); // prettier-ignore
    const outputs = final.output.flatMap((o) =>
      o.type === 'function_call' ? [{ type: 'function_call_output' as const, call_id: o.call_id, output: o.name }] : [],
    );
    const next = await client.responses.create({ model: 'toy', input: outputs, previous_response_id: final.id, tools });
    assert.equal(next.output_text, 'I found this: facts_lookup, facts_lookup');
  });
});

describe('token-in calls', () => {
  const tokenizer = o200kTokenizer();
  const options = { earlierReasoning: 'keep', addGenerationPrompt: true, idsPerImage: 4 } as const;
  const prompt = renderPrompt(
    tokenizer,
    [textMessage('user', 'Look up "iron".')],
    [{ name: 'facts_lookup', parameters: TOOL.input_schema }],
    options,
  );

  test('vLLM: ids in, ids and log-probabilities out, whole and streamed', async () => {
    await using engine = await startFakeEngine();
    const ask = { model: 'toy', token_ids: prompt, sampling_params: { logprobs: 1, seed: 3, stop_token_ids: [tokenizer.markers.imEnd] } };
    const { body } = await post(`${engine.url}/inference/v1/generate`, ask);
    const choice = (
      body as { choices: { token_ids: number[]; finish_reason: string; logprobs: { content: { token: string; logprob: number }[] } }[] }
    ).choices[0]!;
    const seen = engine.requests()[0]!.choices[0]!;
    assert.deepEqual(Uint32Array.from(choice.token_ids), seen.ids);
    assert.deepEqual(choice.logprobs.content.map((c) => c.token), choice.token_ids.map((id) => `token_id:${id}`)); // prettier-ignore
    assert.deepEqual(Float32Array.from(choice.logprobs.content, (c) => c.logprob), seen.logprobs); // prettier-ignore
    assert.equal(
      decode(tokenizer, choice.token_ids),
      '<tool_call>\n{"name": "facts_lookup", "arguments": {"entity":"iron"}}\n</tool_call><|im_end|>',
    );
    const streamed = eventsOf((await post(`${engine.url}/inference/v1/generate`, { ...ask, stream: true })).text) as {
      choices: { token_ids: number[] }[];
    }[];
    assert.deepEqual(streamed.flatMap((e) => e.choices[0]!.token_ids), choice.token_ids); // prettier-ignore
    assert.equal((await post(`${engine.url}/inference/v1/generate`, { ...ask, token_ids: [4_000_000] })).status, 400);
  });

  test('SGLang: meta_info holds the ids; a stream repeats all so far', async () => {
    await using engine = await startFakeEngine({ kind: 'sglang', policyVersion: 4 });
    const ask = {
      input_ids: prompt,
      sampling_params: { max_new_tokens: 64, sampling_seed: 1 },
      return_logprob: true,
      logprob_start_len: 0,
    };
    type Output = {
      text: string;
      meta_info: {
        finish_reason: { type: string } | null;
        weight_version: string;
        input_token_logprobs: unknown[];
        output_token_logprobs: [number, number, null][];
      };
    };
    const { body } = await post(`${engine.url}/generate`, ask);
    const { meta_info: meta } = body as Output;
    const seen = engine.requests()[0]!.choices[0]!;
    assert.deepEqual(Uint32Array.from(meta.output_token_logprobs, (t) => t[1]), seen.ids); // prettier-ignore
    assert.deepEqual(Float32Array.from(meta.output_token_logprobs, (t) => t[0]), seen.logprobs); // prettier-ignore
    assert.deepEqual([meta.weight_version, meta.finish_reason?.type, meta.input_token_logprobs.length], ['4', 'stop', prompt.length]);
    const events = eventsOf((await post(`${engine.url}/generate`, { ...ask, stream: true })).text) as Output[];
    assert.deepEqual(events.map((e) => e.meta_info.output_token_logprobs.length), Array.from(seen.ids, (_, i) => i + 1)); // prettier-ignore
    assert.deepEqual(events.at(-1)?.meta_info.output_token_logprobs, meta.output_token_logprobs);
    assert.deepEqual(events.map((e) => e.meta_info.finish_reason === null), Array.from(seen.ids, (_, i) => i < seen.ids.length - 1)); // prettier-ignore
    assert.equal((await post(`${engine.url}/inference/v1/generate`, {})).status, 404);
  });

  test('SGLang: chat gives ids only in whole answers', async () => {
    await using engine = await startFakeEngine({ kind: 'sglang', policyVersion: 2 });
    const ask = {
      model: 'toy',
      messages: [{ role: 'user', content: '1 + 1' }],
      logprobs: true,
      return_prompt_token_ids: true,
      return_meta_info: true,
    };
    const { body } = await post(`${engine.url}/v1/chat/completions`, ask);
    type Answer = {
      metadata: unknown;
      choices: { prompt_token_ids: number[]; meta_info: { output_token_logprobs: [number, number][] } }[];
    };
    const seen = engine.requests()[0]!;
    const choice = (body as Answer).choices[0]!;
    assert.deepEqual(choice.prompt_token_ids, Array.from(seen.promptIds ?? []));
    assert.deepEqual(Uint32Array.from(choice.meta_info.output_token_logprobs, (t) => t[1]), seen.choices[0]!.ids); // prettier-ignore
    assert.deepEqual((body as Answer).metadata, { weight_version: '2' });
    assert.equal((await post(`${engine.url}/v1/chat/completions`, { ...ask, stream: true })).status, 400);
  });

  test('/tokenize renders messages as a chat call does, and messages before others as a prefix of it', async () => {
    await using engine = await startFakeEngine();
    const messages = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'hi' },
    ];
    type Tokens = { tokens: number[]; count: number; max_model_len: number };
    const whole = (await post(`${engine.url}/tokenize`, { model: 'toy', messages })).body as Tokens;
    await post(`${engine.url}/v1/chat/completions`, { model: 'toy', messages });
    assert.deepEqual(whole.tokens, Array.from(engine.requests().at(-1)?.promptIds ?? []));
    const first = (await post(`${engine.url}/tokenize`, { model: 'toy', messages: messages.slice(0, 1), add_generation_prompt: false }))
      .body as Tokens;
    assert.deepEqual(whole.tokens.slice(0, first.count), first.tokens);
    const back = (await post(`${engine.url}/detokenize`, { tokens: whole.tokens })).body as { prompt: string };
    assert.equal(back.prompt, '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n');
  });
});

describe('the chat template', () => {
  const tokenizer = o200kTokenizer();
  const text = fc.string({ unit: 'grapheme', maxLength: 30 });
  const answer = fc.record({
    content: text,
    reasoning: text,
    toolCalls: fc.array(
      fc.record({ id: fc.constant('c'), name: fc.stringMatching(/^[a-z_]{1,12}$/), arguments: fc.json({ maxDepth: 1 }) }),
      { maxLength: 2 },
    ),
  });

  test('a prompt plus its answer is the start of the next prompt, whatever was said', () => {
    fc.assert(
      fc.property(text, answer, text, (question, said, more) => {
        const options = { earlierReasoning: 'keep', addGenerationPrompt: true, idsPerImage: 4 } as const;
        const first = renderPrompt(tokenizer, [textMessage('user', question)], [], options);
        const sampled = [...answerSpans(tokenizer, said).flatMap((s) => s.ids), tokenizer.markers.imEnd];
        const history = [textMessage('user', question), { ...textMessage('assistant', said.content), ...said }, textMessage('user', more)];
        const next = renderPrompt(tokenizer, history, [], options);
        assert.deepEqual(next.slice(0, first.length + sampled.length), [...first, ...sampled]);
      }),
      { numRuns: 200 },
    );
  });

  test('retokenised history has other ids and the same text', () => {
    const history = [textMessage('user', 'a'), textMessage('assistant', 'several words of an answer'), textMessage('user', 'b')];
    const options = { earlierReasoning: 'keep', addGenerationPrompt: true, idsPerImage: 4 } as const;
    const plain = renderPrompt(tokenizer, history, [], options);
    const other = renderPrompt(tokenizer, history, [], { ...options, retokeniseAnswers: true });
    assert.ok(other.length > plain.length);
    assert.equal(decode(tokenizer, other), decode(tokenizer, plain));
  });

  test('a rendered prompt is read back', () => {
    const messages = [
      textMessage('system', 'Be brief.'),
      textMessage('user', 'a\nb'),
      textMessage('assistant', 'c'),
      textMessage('tool', 'd'),
      textMessage('tool', 'e'),
    ];
    const tools = [{ name: 'f', parameters: { type: 'object' } }];
    const ids = renderPrompt(tokenizer, messages, tools, { earlierReasoning: 'keep', addGenerationPrompt: true, idsPerImage: 4 });
    const back = parsePrompt(tokenizer, ids);
    assert.deepEqual(back.messages.slice(1), messages.slice(1));
    assert.deepEqual(back.tools, tools);
  });
});

test('rules answer before the built-in behaviour', async () => {
  const rules = [
    { when: { last: 'weather in (\\w+)', tool: 'weather' }, reply: { toolCalls: [{ name: 'weather', arguments: { city: '$1' } }] } },
    { when: { role: 'tool', last: '(.+)' }, reply: { content: 'It is $1.', reasoning: 'easy' } },
  ];
  await using engine = await startFakeEngine({ behaviour: rulesBehaviour(rules, defaultBehaviour()) });
  const client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x' });
  const tools = [{ type: 'function' as const, function: { name: 'weather', parameters: {} } }];
  const say = (messages: OpenAI.ChatCompletionMessageParam[]): Promise<OpenAI.ChatCompletion> =>
    client.chat.completions.create({ model: 'toy', messages, tools });
  const first = await say([{ role: 'user', content: 'What is the weather in Oslo?' }]);
  const call = first.choices[0]?.message.tool_calls?.[0];
  assert.equal(call?.type === 'function' && call.function.arguments, '{"city":"Oslo"}');
  const second = await say([
    { role: 'user', content: 'x' },
    first.choices[0]!.message,
    { role: 'tool', tool_call_id: call?.id ?? '', content: 'cold' },
  ]);
  assert.equal(second.choices[0]?.message.content, 'It is cold.');
});
