/** Calls that are not a whole chat with ids: broken streams, token-in, text-only, mixed; and what the functions promise beyond nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../dialects/dialect.ts';
import { checkIdentity } from './check-identity.ts';
import { choiceOf, completionOf, exchangeOf, promptOf, wordIds } from './conversation.arbitrary.ts';
import type { Exchange, ExchangePlan } from './exchange.ts';
import { planExchange } from './plan-exchange.ts';
import {
  system,
  user,
  tool,
  assistant,
  calls,
  newTrace,
  record,
  chat,
  pathOf,
  idsOf,
  maskOf,
  answerOf,
  rolesOf,
  zeros,
} from './recorded-trace.arbitrary.ts';
import { applyNodes, graphBytes } from './trace-graph.ts';

test('a stream that breaks: the ids that arrived, flagged; a retry of it is a sibling', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  const broken = choiceOf(assistant('as lo'), wordIds('as'), { partial: true });
  const plan = record(trace, exchangeOf(m1, promptOf(m1), [broken]));
  assert.deepEqual([plan.nodes[1]?.partial, idsOf(trace, 1)], [true, [...promptOf(m1), ...wordIds('as')]]);
  const whole = chat(trace, m1, assistant('as long'), { more: { retry: true } });
  assert.deepEqual([whole.forkReason, whole.nodes[0]?.partial, whole.nodes[0]?.parent], ['retry', false, 0]);
  const next = chat(trace, [...m1, assistant('as long'), user('go')], assistant('x'));
  assert.deepEqual([next.nodes[0]?.parent, next.extends], [2, true]); // the longer of the two that match
});

test('a stream that breaks before anything is sampled holds its prompt; one that never began adds nothing', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  assert.deepEqual(record(trace, exchangeOf(m1, null, [])).nodes, []);
  const inputs = record(trace, exchangeOf(m1, promptOf(m1), []));
  assert.deepEqual([rolesOf(inputs.nodes), inputs.answers, inputs.nodes[0]?.tokens?.ids.length], [['user'], [], 0]);
  const empty = record(trace, exchangeOf(m1, promptOf(m1), [choiceOf(null, [], { partial: true })]));
  assert.deepEqual([empty.nodes[0]?.parent, empty.nodes[0]?.message, empty.nodes[0]?.tokens?.logprobs?.length], [0, null, 0]);
  assert.deepEqual(idsOf(trace, 1), promptOf(m1));
  assert.deepEqual(maskOf(trace, 1), zeros(promptOf(m1)));
  assert.equal(chat(trace, m1, assistant('one'), { more: { retry: true } }).forkReason, 'retry');
});

test('token-in calls: input nodes and answers without messages, found by ids alone', () => {
  const trace = newTrace();
  const call = (prompt: readonly number[], ids: readonly number[]): ExchangePlan =>
    record(trace, exchangeOf(null, prompt, [choiceOf(null, ids)], { tools: [{ name: 'not looked at' }] }));
  call([5, 6, 7], [8, 9]);
  const second = call([5, 6, 7, 8, 9, 10], [11]);
  assert.deepEqual(trace.nodes.map(({ parent, role, sampled, message }) => [parent, role, sampled, message]), [[null, 'input', false, null], [0, 'assistant', true, null], [1, 'input', false, null], [2, 'assistant', true, null]]); // prettier-ignore
  assert.deepEqual(trace.nodes.map(({ tokens }) => [...(tokens?.ids ?? [])]), [[5, 6, 7], [8, 9], [10], [11]]); // prettier-ignore
  assert.deepEqual([second.extends, second.forkReason], [true, null]);
  const again = call([5, 6, 7, 8, 9, 10], [12]);
  assert.deepEqual([again.extends, again.forkReason, again.nodes[0]?.parent, again.nodes.length], [null, 'resample', 2, 1]);
  const direct = call([5, 6, 7, 8, 9], [13]);
  assert.deepEqual([direct.nodes[0]?.parent, direct.nodes.length], [1, 1]);
  const inside = call([5, 6, 70], [1]);
  assert.deepEqual([inside.nodes[0]?.parent, inside.forkReason, inside.extends], [null, 'unknown', false]); // whole nodes only
  assert.deepEqual(idsOf(trace, answerOf(inside)), [5, 6, 70, 1]);
  assert.deepEqual(trace.nodes.map(({ attribution }) => attribution), Array(trace.nodes.length).fill(null)); // prettier-ignore
});

test('token-in: an answer that comes back in another spelling is re-tokenised', () => {
  const trace = newTrace();
  record(trace, exchangeOf(null, [5], [choiceOf(null, [20, 21, 22, 23, 24, 25, 26, 27, 28, 29])]));
  const respelled = record(trace, exchangeOf(null, [5, 20, 99, 22, 23, 24, 25, 26, 27, 28, 29, 3], [choiceOf(null, [1])]));
  assert.deepEqual([respelled.forkReason, respelled.extends, respelled.nodes[0]?.parent], ['retokenised', false, 0]);
});

test('a chat whose engine is then called with ids goes on where its ids end', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  const first = chat(trace, m1, assistant('one'));
  const prompt = [...promptOf(m1), ...completionOf(assistant('one')), 50];
  const plan = record(trace, exchangeOf(null, prompt, [choiceOf(null, [51])]));
  assert.deepEqual([plan.nodes[0]?.parent, plan.extends, idsOf(trace, answerOf(plan))], [answerOf(first), true, [...prompt, 51]]);
});

test('text-only calls: the graph by messages, nodes without tokens that say so', () => {
  const trace = newTrace();
  const say = (messages: readonly Message[], answer: Message, more: Partial<Exchange> = {}): ExchangePlan =>
    record(trace, exchangeOf(messages, null, [choiceOf(answer, null)], more));
  const m1 = [system, user('first')];
  say(m1, calls('c', 'x'));
  const m2 = [...m1, calls('c', 'x'), tool('c', 'found')];
  const second = say(m2, assistant('done', { reasoning_content: 'why' }));
  assert.deepEqual(rolesOf(trace.nodes), ['system', 'user', 'assistant*', 'tool', 'assistant*']);
  assert.deepEqual(trace.nodes.map(({ tokens, tokenError }) => [tokens, tokenError]), [[null, null], [null, null], [null, 'no_token_ids'], [null, null], [null, 'no_token_ids']]); // prettier-ignore
  assert.deepEqual([second.extends, second.forkReason], [null, null]);
  assert.equal(say(m2, assistant('other')).forkReason, 'resample');
  assert.equal(say([...m2, assistant('done'), user('x')], assistant('y')).forkReason, 'reasoning_dropped');
  assert.equal(say([...m2, assistant('Done'), user('x')], assistant('y')).forkReason, 'edited_history');
  assert.equal(say(m2, assistant('z'), { tools: [{ name: 'new' }] }).forkReason, 'template_changed');
  assert.equal(say([system, user('in short')], assistant('z')).forkReason, 'compaction');
});

test('a trace with and without ids: the ids of every call that has some are whole', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  record(trace, exchangeOf(m1, null, [choiceOf(assistant('one'), null)]));
  const m2 = [...m1, assistant('one'), user('second')];
  const second = chat(trace, m2, assistant('two'));
  assert.deepEqual(rolesOf(second.nodes), ['user', 'assistant*']);
  assert.deepEqual([second.extends, second.nodes[0]?.parent], [false, 2]); // nobody knows which ids the first answer was
  assert.deepEqual(idsOf(trace, 4), [...promptOf(m2), ...completionOf(assistant('two'))]);
  assert.equal(
    pathOf(trace, 4).some(({ tokens }) => tokens === null),
    true,
  ); // no_tokens for training
  const m3 = [...m2, assistant('two'), user('third')];
  record(trace, exchangeOf(m3, null, [choiceOf(assistant('three'), null)]));
  const m4 = [...m3, assistant('three'), user('fourth')];
  const fourth = chat(trace, m4, assistant('four'));
  assert.equal(fourth.nodes[0]?.parent, 6);
  assert.deepEqual(idsOf(trace, answerOf(fourth)), [...promptOf(m4), ...completionOf(assistant('four'))]);
  assert.equal(
    checkIdentity(trace.graph, answerOf(fourth), Uint32Array.from(promptOf(m4)), Uint32Array.from(completionOf(assistant('four')))),
    null,
  );
});

test('a request without messages has its answer as a root', () => {
  const trace = newTrace();
  const plan = record(trace, exchangeOf([], [1], [choiceOf(assistant('x'), [2])]));
  assert.deepEqual([plan.nodes[0]?.parent, typeof plan.nodes[0]?.toolsHash], [null, 'string']);
});

test('planning changes nothing, and the same plan twice is refused', () => {
  const trace = newTrace();
  const exchange = exchangeOf([user('first')], promptOf([user('first')]), [choiceOf(assistant('x'), [2])]);
  const plan = planExchange(trace.graph, exchange);
  assert.deepEqual(planExchange(trace.graph, exchange), plan);
  applyNodes(trace.graph, plan.nodes);
  assert.throws(() => applyNodes(trace.graph, plan.nodes), {
    code: 'internal',
    message: /node 0 does not follow: the next node of this trace is 2/,
  });
});

test('checkIdentity says what differs', () => {
  const trace = newTrace();
  chat(trace, [user('first')], assistant('one'));
  const [prompt, completion] = [Uint32Array.from(promptOf([user('first')])), Uint32Array.from(completionOf(assistant('one')))];
  const wrong = prompt.slice();
  wrong[1] = 99;
  assert.equal(checkIdentity(trace.graph, 1, prompt, completion), null);
  assert.match(checkIdentity(trace.graph, 1, wrong, completion) ?? '', /differ/);
  assert.match(checkIdentity(trace.graph, 1, prompt, completion.subarray(1)) ?? '', /holds 11 ids, the engine saw 10/);
  assert.match(checkIdentity(trace.graph, 7, prompt, completion) ?? '', /no node 7/);
  record(trace, exchangeOf([user('x')], null, [choiceOf(assistant('y'), null)]));
  assert.match(checkIdentity(trace.graph, 3, prompt, completion) ?? '', /node 3 has no tokens/);
  // a path that does not lie in one piece: another trace's answer is between
  const m2 = [user('first'), assistant('one'), user('second')];
  const plan = chat(trace, m2, assistant('two'));
  const [long, last] = [Uint32Array.from(promptOf(m2)), Uint32Array.from(completionOf(assistant('two')))];
  const other = chat(trace, [user('first')], assistant('other'));
  const next = chat(trace, [...m2, assistant('two'), user('third')], assistant('three'));
  assert.equal(checkIdentity(trace.graph, answerOf(plan), long, last), null);
  const [whole, end] = [
    Uint32Array.from(promptOf([...m2, assistant('two'), user('third')])),
    Uint32Array.from(completionOf(assistant('three'))),
  ];
  assert.equal(checkIdentity(trace.graph, answerOf(next), whole, end), null);
  whole[1] = 99;
  assert.match(checkIdentity(trace.graph, answerOf(next), whole, end) ?? '', /differ from place 0 on/);
  assert.notEqual(answerOf(other), answerOf(plan));
});

test('a plan whose path is not prompt + completion is refused by name, before anything is handed out', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  chat(trace, m1, assistant('one'));
  trace.graph.pathIds[0] = 1; // as a fault of ours would leave it: the walk now believes that the first message owns an id
  assert.throws(() => chat(trace, m1, assistant('two')), { code: 'token_identity', message: /holds 0 ids instead of 1/ });
  assert.equal(trace.graph.count, 2);
});

test('memory is counted and grows with what is held', () => {
  const trace = newTrace();
  const before = graphBytes(trace.graph);
  const long = Array.from({ length: 100_000 }, (_, i) => 1000 + (i % 500));
  record(trace, exchangeOf([user('first')], long, [choiceOf(assistant('x'), [2])]));
  const after = graphBytes(trace.graph);
  assert.ok(after - before >= 390_000 && after - before < 700_000, `${after - before}`);
});
