import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import type { ChatCompletionMessageParam, ChatCompletionTool } from 'openai/resources/chat/completions';
import { startFakeEngine, type FakeEngine } from './engine.ts';
import type { SeenRequest } from './seen.ts';

type WithIds = { prompt_token_ids?: number[]; choices: { index: number; token_ids?: number[] }[] };

const FACTS: ChatCompletionTool = {
  type: 'function',
  function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
};
const IDS = { logprobs: true, return_token_ids: true };

describe('chat completions through the openai client', () => {
  let engine: FakeEngine;
  let client: OpenAI;
  before(async () => {
    engine = await startFakeEngine({ seed: 7 });
    client = new OpenAI({ baseURL: `${engine.url}/v1`, apiKey: 'x', maxRetries: 0 });
  });
  after(() => engine.close());
  const last = (): SeenRequest => engine.requests().at(-1) as SeenRequest;

  test('an answer carries ids and log-probabilities that are what the engine says it sampled', async () => {
    const answer = await client.chat.completions.create({
      model: 'toy',
      messages: [{ role: 'user', content: 'What is 12 + 30?' }],
      top_logprobs: 2,
      ...IDS,
    });
    const choice = answer.choices[0];
    assert.equal(choice?.message.content, '12 + 30 = 42');
    assert.equal(choice.finish_reason, 'stop');
    const withIds = answer as unknown as WithIds;
    assert.deepEqual(withIds.prompt_token_ids, Array.from(last().promptIds ?? []));
    assert.deepEqual(withIds.choices[0]?.token_ids, Array.from(last().choices[0]?.ids ?? []));
    const content = choice.logprobs?.content ?? [];
    assert.deepEqual(
      Float32Array.from(content, (c) => c.logprob),
      last().choices[0]?.logprobs,
    );
    assert.ok(content.every((c) => c.logprob <= 0 && Math.fround(c.logprob) === c.logprob && c.top_logprobs.length === 2));
    assert.equal(engine.tokenizer.markers.imEnd, withIds.choices[0]?.token_ids?.at(-1));
    assert.deepEqual(answer.usage?.completion_tokens, last().choices[0]?.ids.length);
  });

  test('a stream gives the prompt ids once, on the first chunk, and adds up to the same answer', async () => {
    const stream = await client.chat.completions.create({
      model: 'toy-thinking',
      messages: [{ role: 'user', content: 'Say: naïve 🤷 你好 \u{1F469}\u200D\u{1F680}' }],
      stream: true,
      stream_options: { include_usage: true },
      n: 2,
      ...IDS,
    });
    const prompts: number[] = [];
    const text = ['', ''];
    const ids: number[][] = [[], []];
    const logprobs: number[][] = [[], []];
    let chunks = 0;
    let usage = 0;
    for await (const chunk of stream) {
      if ((chunk as unknown as WithIds).prompt_token_ids !== undefined) prompts.push(chunks);
      chunks++;
      usage += chunk.usage?.completion_tokens ?? 0;
      for (const choice of chunk.choices) {
        text[choice.index] += choice.delta.content ?? '';
        ids[choice.index]?.push(...((choice as unknown as { token_ids?: number[] }).token_ids ?? []));
        logprobs[choice.index]?.push(...(choice.logprobs?.content ?? []).map((c) => c.logprob));
      }
    }
    assert.deepEqual(prompts, [0, 1]);
    const seen = last();
    assert.equal(seen.choices.length, 2);
    for (const [i, choice] of seen.choices.entries()) {
      assert.equal(text[i], 'naïve 🤷 你好 \u{1F469}\u200D\u{1F680}');
      assert.deepEqual(ids[i], Array.from(choice.ids));
      assert.deepEqual(Float32Array.from(logprobs[i] ?? []), choice.logprobs);
    }
    assert.notDeepEqual(seen.choices[0]?.logprobs, seen.choices[1]?.logprobs);
    assert.equal(usage, seen.choices[0]!.ids.length + seen.choices[1]!.ids.length);
    assert.equal(seen.sentTokens, usage);
    assert.equal(seen.outcome, 'complete');
  });

  test('token ids and log-probabilities stay out unless asked for', async () => {
    const answer = await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'hi' }] });
    assert.equal('prompt_token_ids' in answer, false);
    assert.equal('token_ids' in (answer.choices[0] as object), false);
    assert.equal(answer.choices[0]?.logprobs, null);
  });

  test('tools: parallel calls, their results, an answer from them; each prompt extends the last', async () => {
    const messages: ChatCompletionMessageParam[] = [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Look up "iron" and "tin".' },
    ];
    const first = await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], ...IDS });
    const calls = first.choices[0]?.message.tool_calls ?? [];
    assert.deepEqual(
      calls.map((c) => (c.type === 'function' ? [c.function.name, JSON.parse(c.function.arguments)] : [])),
      [
        ['facts_lookup', { entity: 'iron' }],
        ['facts_lookup', { entity: 'tin' }],
      ],
    );
    assert.equal(first.choices[0]?.finish_reason, 'tool_calls');
    const before1 = last();
    messages.push(first.choices[0].message, ...calls.map((c, i) => ({ role: 'tool' as const, tool_call_id: c.id, content: `fact ${i}` })));
    const second = await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], ...IDS });
    assert.equal(second.choices[0]?.message.content, 'I found this: fact 0, fact 1');
    assertExtends(last(), before1);
    messages.push(second.choices[0].message, { role: 'user', content: 'thanks' });
    const before2 = last();
    await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], tool_choice: 'none', ...IDS });
    assertExtends(last(), before2);
  });

  test('streamed tool calls assemble to the same calls', async () => {
    const messages: ChatCompletionMessageParam[] = [{ role: 'user', content: 'Look up "iron" and "tin".' }];
    const final = await client.chat.completions.stream({ model: 'toy', messages, tools: [FACTS], stream: true }).finalChatCompletion();
    const calls = final.choices[0]?.message.tool_calls ?? [];
    assert.deepEqual(
      calls.map((c) => (c.type === 'function' ? c.function.arguments : '')),
      ['{"entity":"iron"}', '{"entity":"tin"}'],
    );
    assert.deepEqual(
      calls.map((c) => c.id),
      last().choices[0]?.message.toolCalls.map((c) => c.id),
    );
    const one = await client.chat.completions.create({ model: 'toy', messages, tools: [FACTS], parallel_tool_calls: false });
    assert.equal(one.choices[0]?.message.tool_calls?.length, 1);
  });

  test('a thinking template drops the reasoning of earlier turns, so that the prompt no longer extends', async () => {
    const answer = await client.chat.completions.create({ model: 'toy-thinking', messages: [{ role: 'user', content: '1 + 1' }], ...IDS });
    const message = answer.choices[0]?.message as { content: string; reasoning_content?: string };
    assert.equal(message.content, '1 + 1 = 2');
    assert.match(message.reasoning_content ?? '', /get 2/);
    for (const [model, extend] of [
      ['toy-thinking', false],
      ['toy-open-thinking', true],
    ] as const) {
      const first = await client.chat.completions.create({ model, messages: [{ role: 'user', content: '1 + 1' }], ...IDS });
      const turn1 = last();
      const history = [{ role: 'user' as const, content: '1 + 1' }, first.choices[0]!.message, { role: 'user' as const, content: '2 + 2' }];
      await client.chat.completions.create({ model, messages: history, ...IDS });
      assert.equal(extendsTurn(last(), turn1), extend, model);
    }
  });

  test('a length cut ends without the stop token; a stop string keeps its ids and loses its text', async () => {
    const cut = await client.chat.completions.create({
      model: 'toy',
      messages: [{ role: 'user', content: 'count to 20' }],
      max_completion_tokens: 5,
      ...IDS,
    });
    assert.equal(cut.choices[0]?.finish_reason, 'length');
    assert.equal(last().choices[0]?.ids.length, 5);
    assert.notEqual(last().choices[0]?.ids.at(-1), engine.tokenizer.markers.imEnd);
    const stopped = await client.chat.completions.create({
      model: 'toy',
      messages: [{ role: 'user', content: 'count to 20' }],
      stop: ['4 5', '9'],
      ...IDS,
    });
    assert.equal(stopped.choices[0]?.message.content, '1 2 3 ');
    assert.equal(stopped.choices[0].finish_reason, 'stop');
    assert.equal((stopped.choices[0] as unknown as { stop_reason: string }).stop_reason, '4 5');
    const text = Buffer.concat(Array.from(last().choices[0]!.ids, (id) => engine.tokenizer.bytesOf(id))).toString();
    assert.equal(text, '1 2 3 4 5');
  });

  test('the same prompt again is a new sample, the same seed or temperature 0 the same one', async () => {
    const ask = async (more: object): Promise<Float32Array> => {
      await client.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'How are you?' }], ...more });
      return last().choices[0]!.logprobs;
    };
    assert.notDeepEqual(await ask({}), await ask({}));
    assert.deepEqual(await ask({ seed: 5 }), await ask({ seed: 5 }));
    assert.notDeepEqual(await ask({ seed: 5 }), await ask({ seed: 6 }));
    assert.deepEqual(await ask({ temperature: 0 }), await ask({ temperature: 0 }));
  });

  test('two engines of one seed give the same answers to the same calls', async () => {
    const answers = await Promise.all(
      [1, 1, 2].map(async (seed) => {
        await using own = await startFakeEngine({ seed });
        const ownClient = new OpenAI({ baseURL: `${own.url}/v1`, apiKey: 'x' });
        for (let i = 0; i < 3; i++)
          await ownClient.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'Tell me.' }] });
        const given = own.requests().map((r) => [r.promptIds, r.choices[0]!.ids, r.choices[0]!.logprobs]);
        return given;
      }),
    );
    assert.deepEqual(answers[0], answers[1]);
    assert.notDeepEqual(answers[0], answers[2]);
  });

  test('what it refuses, it refuses by name', async () => {
    await assert.rejects(client.chat.completions.create({ model: 'nope', messages: [{ role: 'user', content: 'x' }] }), { status: 404 });
    await assert.rejects(client.chat.completions.create({ model: 'toy', messages: [] }), { status: 400, message: /messages/ });
    await assert.rejects(
      client.chat.completions.create({ model: 'toy-small', messages: [{ role: 'user', content: 'word '.repeat(300) }] }),
      {
        status: 400,
        message: /maximum context length is 256/,
      },
    );
    await using openai = await startFakeEngine({ kind: 'openai' });
    const strict = new OpenAI({ baseURL: `${openai.url}/v1`, apiKey: 'x', maxRetries: 0 });
    await assert.rejects(strict.chat.completions.create({ model: 'toy', messages: [{ role: 'user', content: 'x' }], ...IDS }), {
      status: 400,
      message: /return_token_ids/,
    });
  });

  test('models and their context length', async () => {
    const models = await client.models.list();
    assert.deepEqual(models.data.map((m) => [m.id, (m as unknown as { max_model_len: number }).max_model_len]).slice(0, 2), [
      ['toy', 32_768],
      ['toy-thinking', 32_768],
    ]);
  });

  test('embeddings and plain completions', async () => {
    const embedding = await client.embeddings.create({ model: 'toy', input: ['a', 'b'] });
    assert.equal(embedding.data.length, 2);
    assert.ok(Math.abs(Math.hypot(...(embedding.data[0]?.embedding ?? [])) - 1) < 1e-6);
    const completion = await client.completions.create({
      model: 'toy',
      prompt: '<|im_start|>user\n3 + 4<|im_end|>\n<|im_start|>assistant\n',
      logprobs: 1,
      max_tokens: 50,
    });
    assert.equal(completion.choices[0]?.text, '3 + 4 = 7');
    assert.deepEqual(Float32Array.from(completion.choices[0].logprobs?.token_logprobs ?? []), last().choices[0]?.logprobs);
  });
});

function extendsTurn(next: SeenRequest, turn: SeenRequest): boolean {
  const whole = [...(turn.promptIds ?? []), ...(turn.choices[0]?.ids ?? [])];
  return whole.every((id, i) => next.promptIds?.[i] === id);
}

function assertExtends(next: SeenRequest, turn: SeenRequest): void {
  assert.ok(extendsTurn(next, turn), 'the next prompt starts with this one and its answer');
}
