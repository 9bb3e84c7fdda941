/** Which node holds an id, with and without the ladder; and the faults that leave an answer without tokens. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { choiceOf, completionOf, exchangeOf, GENERATION_PROMPT, ID, promptOf, renderMessages, spansOf } from './conversation.arbitrary.ts';
import type { Choice, NodePlan } from './exchange.ts';
import {
  system,
  user,
  tool,
  assistant,
  calls,
  newTrace,
  record,
  chat,
  idsOf,
  maskOf,
  answerOf,
  rolesOf,
} from './recorded-trace.arbitrary.ts';

test('ladder on and off give the same concat; with it, messages own their ids and the answer only the generation prompt', () => {
  const [flat, ladder] = [newTrace(), newTrace()];
  const m1 = [system, user('first')];
  const m2 = [...m1, calls('c', 'x'), tool('c', 'found')];
  for (const [trace, on] of [[flat, false], [ladder, true]] as const) {
    chat(trace, m1, calls('c', 'x'), { ladder: on });
    chat(trace, m2, assistant('done'), { ladder: on });
  } // prettier-ignore
  assert.deepEqual(idsOf(ladder, 4), idsOf(flat, 4));
  assert.deepEqual(maskOf(ladder, 4), maskOf(flat, 4));
  const own = ladder.nodes.map(({ tokens }) => [...(tokens?.ids ?? [])]);
  assert.deepEqual(own, [
    renderMessages([system]),
    renderMessages([user('first')]),
    [...GENERATION_PROMPT, ...completionOf(calls('c', 'x'))],
    [ID.newline, ...renderMessages([tool('c', 'found')])],
    [...GENERATION_PROMPT, ...completionOf(assistant('done'))],
  ]);
  assert.deepEqual(ladder.nodes.map(({ attribution }) => attribution), Array(5).fill('ladder')); // prettier-ignore
});

test('an answer is only called a carrier where it carries something', () => {
  const messages = [system, user('first')];
  const prompt = renderMessages(messages); // no generation prompt
  const trace = newTrace();
  const spans = spansOf(messages, prompt);
  record(trace, exchangeOf(messages, prompt, [choiceOf(assistant('x'), [42])], { spans }));
  assert.deepEqual([trace.nodes[2]?.attribution, [...(trace.nodes[2]?.tokens?.ids ?? [])]], [null, [42]]);
  const more = promptOf(messages);
  record(trace, exchangeOf(messages, more, [choiceOf(assistant('y'), [43])]));
  assert.deepEqual([trace.nodes[3]?.attribution, trace.nodes[3]?.parent, [...(trace.nodes[3]?.tokens?.ids ?? [])]], ['ladder', 1, [...GENERATION_PROMPT, 43]]); // prettier-ignore
});

test('the ladder without some rungs: ids fall to the next message that has a span; spans that go back or too far count as none', () => {
  const messages = [system, user('a'), user('b'), user('c')];
  const prompt = promptOf(messages);
  const whole = spansOf(messages, prompt) as number[];
  for (const spans of [[whole[0], null, whole[2], null], [whole[0], whole[0], whole[2], 10_000], [whole[0], 1, whole[2], (whole[0] as number) + 1]]) {
    const trace = newTrace();
    record(trace, exchangeOf(messages, prompt, [choiceOf(assistant('x'), [42])], { spans: spans as (number | null)[] }));
    assert.deepEqual(trace.nodes.map(({ tokens }) => tokens?.ids.length), [whole[0], 0, (whole[2] as number) - (whole[0] as number), 0, prompt.length - (whole[2] as number) + 1]); // prettier-ignore
    assert.deepEqual(trace.nodes.map(({ attribution }) => attribution), ['ladder', 'none', 'ladder', 'none', 'none']); // prettier-ignore
    assert.deepEqual(idsOf(trace, 4), [...prompt, 42]);
  } // prettier-ignore
});

test('a call without the ladder re-uses what it attributed, and the other way round', () => {
  for (const [first, second] of [
    [true, false],
    [false, true],
  ] as const) {
    const trace = newTrace();
    const m1 = [system, user('first')];
    chat(trace, m1, assistant('one'), { ladder: first });
    const m2 = [...m1, assistant('one'), user('second')];
    const plan = chat(trace, m2, assistant('two'), { ladder: second });
    assert.deepEqual([plan.extends, plan.forkReason, rolesOf(plan.nodes)], [true, null, ['user', 'assistant*']]);
    assert.deepEqual(plan.nodes.map(({ attribution }) => attribution), second ? ['ladder', 'ladder'] : ['none', 'none']); // prettier-ignore
    assert.deepEqual(idsOf(trace, answerOf(plan)), [...promptOf(m2), ...completionOf(assistant('two'))]);
  }
});

test('unusable token data: the text stays, the tokens do not, the fault has a name', () => {
  const messages = [user('first')];
  const of = (choice: Partial<Choice>, prompt: readonly number[] | null = promptOf(messages)): NodePlan => {
    const trace = newTrace();
    const plan = record(
      trace,
      exchangeOf(messages, prompt, [choiceOf(assistant('one'), [50, 51], choice), choiceOf(assistant('two'), [52], { index: 1 })]),
    );
    if (prompt !== null && prompt.every((id) => id < 2 ** 31)) assert.deepEqual(idsOf(trace, 2), [...prompt, 52]); // the other choice is untouched
    assert.equal(plan.nodes[1]?.message?.['content'], 'one');
    return plan.nodes[1] as NodePlan;
  };
  const faults: [Partial<Choice>, string][] = [
    [{ ids: Uint32Array.of(50, 2 ** 31) }, 'token_id_range'],
    [{ logprobs: Float32Array.of(-1) }, 'logprobs_length'],
    [{ logprobs: Float32Array.of(-1, NaN) }, 'logprobs_not_finite'],
    [{ logprobs: Float32Array.of(-Infinity, -1) }, 'logprobs_not_finite'],
    [{ logprobs: Float32Array.of(-1, -9999) }, 'logprobs_sentinel'],
    [{ policyRuns: [{ length: 3, version: 1 }] }, 'policy_runs_length'],
    [{ policyRuns: [{ length: 2, version: 1 }, { length: 0, version: 2 }] }, 'policy_runs_length'],
    [{ ids: null, logprobs: null }, 'no_completion_ids'],
    [{ tokenError: 'malformed_token_ids' }, 'malformed_token_ids'],
  ]; // prettier-ignore
  for (const [choice, name] of faults) {
    const node = of(choice);
    assert.deepEqual([node.tokens, node.tokenError, node.attribution], [null, name, null]);
  }
  assert.equal(of({}, null).tokenError, 'no_prompt_ids');
  assert.equal(of({}, [1, 2 ** 31, 3]).tokenError, 'token_id_range');
  const largest = of({ ids: Uint32Array.of(50, 2 ** 31 - 1) });
  assert.deepEqual([largest.tokenError, largest.tokens?.ids.at(-1)], [null, 2 ** 31 - 1]);
  const silent = of({ logprobs: null });
  assert.deepEqual([silent.tokenError, silent.tokens?.logprobs, silent.tokens?.mask.at(-1)], [null, null, 1]);
  const runs = [{ length: 1, version: 4 }, { length: 1, version: 5 }]; // prettier-ignore
  assert.deepEqual(of({ policyRuns: runs }).tokens?.policyRuns, runs);
});

test('an answer without usable ids is passed by its message; the next one carries the whole prompt', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  record(trace, exchangeOf(m1, promptOf(m1), [choiceOf(assistant('one'), [50], { logprobs: Float32Array.of(NaN) })]));
  const m2 = [...m1, assistant('one'), user('second')];
  const plan = chat(trace, m2, assistant('two'));
  assert.deepEqual([plan.nodes[0]?.parent, plan.extends, plan.forkReason], [1, false, null]);
  assert.deepEqual(idsOf(trace, 3), [...promptOf(m2), ...completionOf(assistant('two'))]);
});
