/** What a harness gets through the gateway, and what the log holds of it, against a real engine on a real socket. */
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../../e2e/fake-engine/engine.ts';
import type { EventOf } from '../../events/registry.ts';
import { openGateway, type Made, type TestGateway } from './gateway-under-test.ts';

const CHAT = '/v1/chat/completions';
const ask = (content: string, more: Record<string, unknown> = {}) => ({ model: 'toy', messages: [{ role: 'user', content }], ...more });
const bearer = (made: Made) => ({ authorization: `Bearer ${made.key}` });

let engine: FakeEngine;
let gateway: TestGateway;

before(async () => {
  engine = await startFakeEngine({ tellVersion: 'both', policyVersion: 4 });
  gateway = await openGateway({
    upstreams: {
      main: {
        kind: 'vllm',
        url: engine.url,
        policyVersion: { header: 'x-policy-version', field: 'policy_version' },
        price: { input: 1, output: 10 },
      },
    },
  });
});
after(async () => {
  await gateway.close();
  await engine.close();
});
beforeEach(() => engine.clearRequests());

const nodes = (made: Made) => gateway.eventsOf('node.appended', made.trace);
const calls = (made: Made) => gateway.eventsOf('call.recorded', made.trace);
const ids = (node: EventOf<'node.appended'>): number[] => [...(node.data.tokens?.ids.typed() ?? [])];

/** Concatenates the ids on the path to a node. */
function pathIds(all: readonly EventOf<'node.appended'>[], leaf: number): number[] {
  const node = all[leaf] as EventOf<'node.appended'>;
  const { parent } = node.data;
  return [...(parent === null || parent === undefined ? [] : pathIds(all, parent)), ...ids(node)];
}

async function assertTokens(made: Made): Promise<void> {
  const all = await nodes(made);
  const seen = engine.requests();
  for (const call of await calls(made)) {
    const asked = seen.find(
      (r) =>
        r.status === 200 &&
        JSON.stringify((r.body as { messages: unknown }).messages) ===
          JSON.stringify((call.data.request as { messages: unknown }).messages) &&
        r.time >= (call.data.time?.start ?? 0) &&
        r.time <= (call.data.time?.end ?? 0),
    );
    assert.ok(asked, 'the engine saw the call');
    const { node } = call.data;
    const choice = asked.choices[0];
    assert.deepEqual(pathIds(all, node as number), [...(asked.promptIds ?? []), ...(choice?.ids ?? [])]);
    assert.deepEqual(all[node as number]?.data.tokens?.logprobs?.typed(), choice?.logprobs);
  }
}

describe('a chat call', () => {
  test('that is not streamed: the harness sees no token data, the log holds all of it', async () => {
    const made = await gateway.rollout({ env: { id: 'sums' }, task: { key: '1' }, agent: { name: 'policy' } });
    const answer = await gateway.post(CHAT, ask('What is 2 + 3?'), bearer(made));
    assert.equal(answer.status, 200);
    const body = answer.json as {
      choices: { message: { content: string }; logprobs: unknown; token_ids?: unknown }[];
      prompt_token_ids?: unknown;
    };
    assert.equal(body.choices[0]?.message.content, '2 + 3 = 5');
    assert.equal(body.choices[0]?.logprobs, null);
    assert.ok(!('token_ids' in (body.choices[0] as object)) && !('prompt_token_ids' in body));
    await assertTokens(made);
    const [call] = await calls(made);
    assert.ok(call);
    assert.equal(call.data.policyVersion, 4);
    assert.equal(call.data.usage?.promptTokens, engine.requests()[0]?.promptIds?.length);
    assert.ok(
      Math.abs(
        (call.data.usage?.cost ?? 0) - ((call.data.usage?.promptTokens ?? 0) + 10 * (call.data.usage?.completionTokens ?? 0)) / 1e6,
      ) < 1e-12,
    );
    assert.deepEqual(call.data.request, ask('What is 2 + 3?'));
    assert.deepEqual((call.data.extra?.['sent'] as { set: unknown } | undefined)?.set, { logprobs: true, return_token_ids: true });
    assert.equal((call.data.response as { choices: { message: { content: string } }[] }).choices[0]?.message.content, '2 + 3 = 5');
    assert.deepEqual((engine.requests()[0]?.headers ?? {})['x-session-id'], made.trace);
  });

  test('that is streamed: the same events but what was not asked for, and [DONE] only when the call is durable', async () => {
    const made = await gateway.rollout();
    let isDurable = false;
    let isHeld = false;
    const { promise: seen, resolve } = Promise.withResolvers<void>();
    gateway.tap = async () => {
      isHeld = true;
      await seen;
      await new Promise((r) => setTimeout(r, 30));
      isDurable = true;
    };
    const response = await fetch(gateway.url + CHAT, {
      method: 'POST',
      body: JSON.stringify(ask('What is 20 + 22?', { stream: true })),
      headers: { 'content-type': 'application/json', ...bearer(made) },
    });
    let text = '';
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      text += Buffer.from(chunk).toString();
      if (text.includes('42') && !isDurable) resolve();
      if (text.includes('finish_reason":"stop"') || text.includes('[DONE]'))
        assert.ok(isDurable, 'the end came before the call was durable');
    }
    gateway.tap = () => {};
    assert.ok(isHeld);
    assert.ok(text.endsWith('data: [DONE]\n\n'));
    assert.ok(!text.includes('token_ids') && !text.includes('"usage"') && !text.includes('logprob":'));
    await assertTokens(made);
    const [call] = await calls(made);
    assert.ok(
      (call?.data.firstToken ?? 0) >= (call?.data.time?.start ?? Infinity) &&
        (call?.data.firstToken ?? Infinity) <= (call?.data.time?.end ?? 0),
    );
    assert.ok(((call?.data.extra?.['chunks'] as { count: number } | undefined)?.count ?? 0) >= 1);
    assert.equal(call?.data.usage?.completionTokens, engine.requests()[0]?.choices[0]?.ids.length);
  });

  test('gives what was asked for: log-probabilities, token ids, usage', async () => {
    const made = await gateway.rollout();
    const wants = { logprobs: true, top_logprobs: 2, return_token_ids: true };
    const whole = await gateway.post(CHAT, ask('What is 2 + 4?', wants), bearer(made));
    const choice = (
      whole.json as { choices: { token_ids: number[]; logprobs: { content: { logprob: number; top_logprobs: unknown[] }[] } }[] }
    ).choices[0];
    assert.deepEqual(choice?.token_ids, [...(engine.requests()[0]?.choices[0]?.ids ?? [])]);
    assert.equal(choice?.logprobs.content.length, choice?.token_ids.length);
    assert.equal(choice?.logprobs.content[0]?.top_logprobs.length, 2);
    const streamed = await gateway.post(
      CHAT,
      ask('What is 2 + 5?', { ...wants, stream: true, stream_options: { include_usage: true } }),
      bearer(made),
    );
    assert.match(streamed.text, /"prompt_token_ids":\[\d+/);
    assert.match(streamed.text, /"usage":\{"prompt_tokens":\d+/);
    assert.match(streamed.text, /"top_logprobs":\[\{/);
    await assertTokens(made);
    const [first] = await calls(made);
    assert.ok(JSON.stringify(first?.data.response).includes('top_logprobs'), 'what the nodes do not hold stays in the record');
  });

  test('n answers are n nodes below one prompt', async () => {
    const made = await gateway.rollout();
    const answer = await gateway.post(CHAT, ask('Say something', { n: 3, stream: true }), bearer(made));
    assert.equal(answer.status, 200);
    const all = await nodes(made);
    assert.deepEqual(
      all.map((n) => [n.data.role, n.data.parent ?? null]),
      [
        ['user', null],
        ['assistant', 0],
        ['assistant', 0],
        ['assistant', 0],
      ],
    );
    for (const [i, choice] of (engine.requests()[0]?.choices ?? []).entries())
      assert.deepEqual(pathIds(all, 1 + i), [...(engine.requests()[0]?.promptIds ?? []), ...choice.ids]);
    assert.deepEqual((await calls(made))[0]?.data.extra?.['nodes'], [1, 2, 3]);
  });

  test('the next turn extends the last', async () => {
    const made = await gateway.rollout();
    const first = await gateway.post(CHAT, ask('What is 1 + 1?'), bearer(made));
    const message = (first.json as { choices: { message: { content: string } }[] }).choices[0]?.message;
    const messages = [
      { role: 'user', content: 'What is 1 + 1?' },
      { role: 'assistant', content: message?.content },
      { role: 'user', content: 'And 2 + 2?' },
    ];
    await gateway.post(CHAT, { model: 'toy', messages }, bearer(made));
    assert.deepEqual(
      (await nodes(made)).map((n) => n.data.parent ?? null),
      [null, 0, 1, 2],
    );
    assert.deepEqual(
      (await calls(made)).map((c) => c.data.extends ?? null),
      [null, true],
    );
    await assertTokens(made);
  });

  test('forced values win, and what was asked stays in the record', async () => {
    const made = await gateway.rollout({ model: 'toy-thinking', sampling: { temperature: 0.25, max_tokens: 5 } });
    await gateway.post(
      CHAT,
      ask('Say hello', { model: 'gpt-4o', temperature: 1, max_completion_tokens: 99, big: 123456789012345678901234567890n.toString() }),
      bearer(made),
    );
    const sent = engine.requests()[0]?.body as Record<string, unknown>;
    assert.equal(sent['model'], 'toy-thinking');
    assert.equal(sent['temperature'], 0.25);
    assert.equal(sent['max_tokens'], 5);
    assert.ok(!('max_completion_tokens' in sent));
    const [call] = await calls(made);
    assert.equal((call?.data.request as { model: string } | undefined)?.model, 'gpt-4o');
    assert.deepEqual(call?.data.sampling, { temperature: 0.25, max_tokens: 5 });
  });

  test('two calls at once from one prefix are siblings', async () => {
    const made = await gateway.rollout();
    for (let i = 0; i < 3; i++) engine.failNext({ kind: 'slow_first_token', ms: 500 });
    await Promise.all([0, 1, 2].map(() => gateway.post(CHAT, ask('Say something nice', { stream: true }), bearer(made))));
    const all = await nodes(made);
    assert.deepEqual(
      all.map((n) => n.data.parent ?? null),
      [null, 0, 0, 0],
    );
    assert.deepEqual(
      (await calls(made)).map((c) => c.data.index).toSorted((a, b) => a - b),
      [0, 1, 2],
    );
    assert.equal(all.filter((n) => n.data.forkReason === 'parallel').length, 2);
  });

  test('weights that change under way are recorded per token', async () => {
    const made = await gateway.rollout();
    engine.failNext({ kind: 'policy_update', afterTokens: 3, version: 9 });
    await gateway.post(CHAT, ask('count to 9', { stream: true }), bearer(made));
    engine.setPolicyVersion(4);
    const [call] = await calls(made);
    assert.equal(call?.data.policyVersion, 4);
    assert.equal(call?.data.policyVersionEnd, 9);
    const runs = (await nodes(made))[1]?.data.tokens?.policyRuns;
    assert.deepEqual(runs, [
      { length: 3, version: 4 },
      { length: (engine.requests()[0]?.choices[0]?.ids.length ?? 0) - 3, version: 9 },
    ]);
  });
});

describe('what is refused', () => {
  test('a body that is no JSON, or no chat, in the shape of the dialect and naming the field', async () => {
    const made = await gateway.rollout();
    const cases: [unknown, number, RegExp][] = [
      ['{"model": ', 400, /invalid_json/],
      ['[]', 422, /must be a JSON object/],
      [{ model: 'toy' }, 422, /messages is missing/],
      [{ model: 'toy', messages: 'x' }, 422, /messages must be a list/],
      [{ model: 7, messages: [] }, 422, /model must be a text/],
      ['{"model":"toy","model":"toy","messages":[]}', 400, /duplicate_key/],
      ['', 400, /cut off/],
    ];
    for (const [body, status, message] of cases) {
      const answer = await gateway.post(CHAT, body, bearer(made));
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, message);
    }
    assert.equal((await calls(made)).length, 0);
  });

  test('a model that nobody serves', async () => {
    const other = await openGateway({
      upstreams: {
        a: { kind: 'vllm', url: engine.url, models: ['toy'] },
        b: { kind: 'vllm', url: engine.url, models: { small: 'toy-small' } },
      },
    });
    try {
      const made = await other.rollout();
      const answer = await other.post(CHAT, ask('x', { model: 'gpt-9' }), { authorization: `Bearer ${made.key}` });
      assert.equal(answer.status, 404);
      assert.match(answer.text, /model_unknown/);
      assert.match(answer.text, /toy, small/);
      assert.equal((await other.post(CHAT, ask('x', { model: 'small' }), { authorization: `Bearer ${made.key}` })).status, 200);
      assert.equal((engine.requests().at(-1)?.body as { model: string } | undefined)?.model, 'toy-small');
    } finally {
      await other.close();
    }
  });

  test('a limit, by name, once recorded, with the stop condition at the end', async () => {
    const made = await gateway.rollout({ limits: { turns: 2 } });
    for (const text of ['a', 'b']) assert.equal((await gateway.post(CHAT, ask(text), bearer(made))).status, 200);
    for (let i = 0; i < 3; i++) {
      const answer = await gateway.post(CHAT, ask('c'), bearer(made));
      assert.equal(answer.status, 400);
      assert.equal((answer.json as { error: { code: string } }).error.code, 'max_turns');
      assert.equal(answer.headers.get('x-should-retry'), 'false');
    }
    assert.deepEqual(
      (await calls(made)).map((c) => c.data.error?.type ?? null),
      [null, null, 'max_turns'],
    );
    const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, { ok: true });
    assert.equal((ended.json as { stopCondition: string }).stopCondition, 'max_turns');
  });

  for (const [limits, stop] of [
    [{ inputTokens: 5 }, 'max_input_tokens'],
    [{ outputTokens: 2 }, 'max_output_tokens'],
    [{ totalTokens: 20 }, 'max_total_tokens'],
    [{ cost: 0.00001 }, 'max_cost'],
    [{ wallSeconds: 0.001 }, 'max_wall_time'],
  ] as const) {
    test(`the limit ${stop}`, async () => {
      const made = await gateway.rollout({ limits });
      const answers = [
        await gateway.post(CHAT, ask('What is 10 + 10?'), bearer(made)),
        await gateway.post(CHAT, ask('What is 10 + 11?'), bearer(made)),
      ];
      assert.match(answers[1]?.text ?? '', new RegExp(stop));
      if (stop !== 'max_wall_time') assert.equal(answers[0]?.status, 200);
    });
  }
});

describe('the end of a rollout', () => {
  test('refuses later calls with 409 and why, counts, takes rewards, and may be sent again', async () => {
    const made = await gateway.rollout();
    await gateway.post(CHAT, ask('What is 3 + 3?'), bearer(made));
    const body = {
      ok: true,
      stopCondition: 'solved',
      rewards: [
        { name: 'correct', score: 1 },
        { name: 'style', score: null, scope: 'trace', weight: 0.5 },
      ],
    };
    const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, body);
    assert.deepEqual(ended.json, {
      rollout: made.rollout,
      ok: true,
      stopCondition: 'solved',
      traces: { [made.trace]: { nodes: 2, calls: 1 } },
    });
    assert.deepEqual((await gateway.post(`/v1/rollouts/${made.rollout}/end`, body)).json, ended.json);
    const late = await gateway.post(CHAT, ask('x'), bearer(made));
    assert.equal(late.status, 409);
    assert.match(late.text, /rollout_ended.*|solved/);
    const events = (await gateway.events()).filter((e) => e.rollout === made.rollout).map((e) => e.type);
    assert.deepEqual(events, [
      'rollout.started',
      'trace.started',
      'node.appended',
      'node.appended',
      'call.recorded',
      'reward.assigned',
      'reward.assigned',
      'trace.ended',
      'rollout.ended',
    ]);
    const [end] = await gateway.eventsOf('trace.ended', made.trace);
    assert.deepEqual(end?.data.counts, { nodes: 2, calls: 1 });
  });

  test('cancels calls that run', async () => {
    const made = await gateway.rollout();
    engine.failNext({ kind: 'stall', afterTokens: 2 });
    const running = fetch(gateway.url + CHAT, {
      method: 'POST',
      body: JSON.stringify(ask('count to 50', { stream: true })),
      headers: { 'content-type': 'application/json', ...bearer(made) },
    }).then(async (r) => r.text());
    const settled = running.then(
      (text) => text,
      (error: unknown) => String(error),
    );
    while (engine.requests()[0]?.sentTokens !== 2) await new Promise((r) => setTimeout(r, 5));
    const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, {});
    assert.equal(ended.status, 200);
    assert.ok(!(await settled).includes('[DONE]'));
    const [call] = await calls(made);
    assert.equal(call?.data.error?.type, 'rollout_ended');
    assert.equal((await nodes(made)).at(-1)?.data.partial, true);
  });

  test('a rollout that nobody knows is 404', async () => {
    assert.equal((await gateway.post('/v1/rollouts/no-such/end', {})).status, 404);
  });
});

describe('more agents of one rollout', () => {
  test('have traces, keys and limits of their own', async () => {
    const made = await gateway.rollout({ limits: { turns: 1 } });
    const judge = (
      await gateway.post(`/v1/rollouts/${made.rollout}/traces`, { agent: { name: 'judge', trainable: false }, model: 'toy-small' })
    ).json as Made;
    assert.equal(judge.rollout, made.rollout);
    await gateway.post(CHAT, ask('a'), bearer(made));
    assert.equal((await gateway.post(CHAT, ask('judge this', { model: 'whatever' }), bearer(judge))).status, 200);
    assert.equal((await gateway.post(CHAT, ask('judge that', { model: 'whatever' }), bearer(judge))).status, 200);
    const [started] = await gateway.eventsOf('trace.started', judge.trace);
    assert.deepEqual(started?.data.agent, { name: 'judge', trainable: false, model: 'toy-small' });
    const ended = await gateway.post(`/v1/rollouts/${made.rollout}/end`, {});
    assert.deepEqual(Object.keys((ended.json as { traces: object }).traces).toSorted(), [made.trace, judge.trace].toSorted());
  });
});
