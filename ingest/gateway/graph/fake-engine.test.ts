/** Whole conversations with an engine: what it rendered and sampled, turn by turn, is what the paths of the graph hold, bit for bit. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startFakeEngine, type FakeEngine } from '../../../e2e/fake-engine/engine.ts';
import type { SeenRequest } from '../../../e2e/fake-engine/seen.ts';
import type { JsonObject, Message } from '../dialects/dialect.ts';
import { chat as chatDialect } from '../dialects/chat.ts';
import { checkIdentity } from './check-identity.ts';
import { exchangeOf } from './conversation.arbitrary.ts';
import type { Choice, ExchangePlan } from './exchange.ts';
import { newTrace, pathOf, record, type Trace } from './recorded-trace.arbitrary.ts';

let engine: FakeEngine;
before(async () => {
  engine = await startFakeEngine({ seed: 11 });
});
after(() => engine.close());

const TOOLS = [
  {
    type: 'function',
    function: { name: 'facts_lookup', parameters: { type: 'object', properties: { entity: { type: 'string' } }, required: ['entity'] } },
  },
];

/** Sends a chat request, records the exchange from the body alone, and gives the plan beside what the engine says it saw. */
async function ask(trace: Trace, body: JsonObject): Promise<{ plan: ExchangePlan; seen: SeenRequest; answer: Message }> {
  const from = (engine.requests().at(-1)?.n ?? -1) + 1;
  const response = await fetch(`${engine.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ...body, logprobs: true, return_token_ids: true }),
  });
  const answered = (await response.json()) as JsonObject;
  const seen = engine.requests(from)[0] as SeenRequest;
  const request = chatDialect.parseAsk(body);
  const parsed = chatDialect.parseAnswer(answered);
  assert.ok(request.ok && parsed.ok);
  const raw = answered as unknown as {
    prompt_token_ids: number[];
    choices: { token_ids: number[]; logprobs: { content: { logprob: number }[] } }[];
  };
  const choices = parsed.value.choices.map(({ index, message }, i): Choice => {
    const { token_ids: ids, logprobs } = raw.choices[i] as (typeof raw.choices)[number];
    const values = Float32Array.from(logprobs.content, ({ logprob }) => logprob);
    return { index, message, ids: Uint32Array.from(ids), logprobs: values, policyRuns: null, partial: false, tokenError: null };
  });
  const { messages, tools } = request.value;
  const plan = record(trace, exchangeOf(messages, raw.prompt_token_ids, choices, { tools }));
  for (const [i, { node }] of plan.answers.entries()) {
    const sampled = seen.choices[i] as SeenRequest['choices'][number];
    assert.equal(checkIdentity(trace.graph, node, seen.promptIds as Uint32Array, sampled.ids), null);
    assert.deepEqual(trace.nodes[node]?.tokens?.logprobs, sampled.logprobs);
    const mask = pathOf(trace, node).flatMap(({ tokens }) => [...(tokens?.mask ?? [])]);
    assert.deepEqual(mask.slice(-sampled.ids.length), [...sampled.ids].map(() => 1)); // prettier-ignore
  }
  const { message } = (answered as unknown as { choices: { message: Message }[] }).choices[0] as { message: Message };
  return { plan, seen, answer: message };
}

test('a tool loop extends, call after call', async () => {
  const trace = newTrace();
  const body = { model: 'toy', tools: TOOLS };
  const messages: JsonObject[] = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Look up "Oslo", then "Bergen".' },
  ];
  const extended: (boolean | null)[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const { plan, answer } = await ask(trace, { ...body, messages: [...messages] });
    extended.push(plan.extends);
    assert.deepEqual([plan.forkReason, plan.drift], [null, []]);
    messages.push(answer);
    const calls = (answer['tool_calls'] ?? []) as { id: string }[];
    for (const { id } of calls) messages.push({ role: 'tool', tool_call_id: id, content: 'a city in Norway' });
    if (calls.length === 0) messages.push({ role: 'user', content: 'And "Bergen"?' });
  }
  assert.deepEqual(extended, [null, true, true]);
  assert.equal(new Set(trace.nodes.map(({ parent }) => parent)).size, trace.nodes.length); // one chain
});

test('a template that drops earlier reasoning forks at the next user message, and says why', async () => {
  const trace = newTrace();
  const messages: JsonObject[] = [{ role: 'user', content: 'What is 12 + 30?' }];
  const first = await ask(trace, { model: 'toy-thinking', messages });
  assert.match(first.answer['reasoning_content'] as string, /./);
  const second = await ask(trace, {
    model: 'toy-thinking',
    messages: [...messages, first.answer, { role: 'user', content: 'And 1 + 1?' }],
  });
  assert.deepEqual([second.plan.extends, second.plan.forkReason], [false, 'reasoning_dropped']);
  const open = newTrace();
  const kept = await ask(open, { model: 'toy-open-thinking', messages });
  const next = await ask(open, {
    model: 'toy-open-thinking',
    messages: [...messages, kept.answer, { role: 'user', content: 'And 1 + 1?' }],
  });
  assert.deepEqual([next.plan.extends, next.plan.forkReason], [true, null]);
});

test('a history that comes back in other ids forks as re-tokenised; one prompt asked again is a new sample', async () => {
  const trace = newTrace();
  const messages: JsonObject[] = [{ role: 'user', content: 'Say: several plain words in a row' }];
  const first = await ask(trace, { model: 'toy', messages });
  const again = await ask(trace, { model: 'toy', messages, n: 3 });
  assert.deepEqual([again.plan.forkReason, again.plan.answers.length, again.plan.extends], ['resample', 3, null]);
  const history = [...messages, first.answer, { role: 'user', content: 'Say: more' }];
  engine.failNext({ kind: 'retokenise' });
  const second = await ask(trace, { model: 'toy', messages: history });
  assert.deepEqual([second.plan.extends, second.plan.forkReason], [false, 'retokenised']);
  const third = await ask(trace, { model: 'toy', messages: history });
  assert.deepEqual([third.plan.extends, third.plan.nodes[0]?.role], [true, 'user']); // back on the first chain
});
