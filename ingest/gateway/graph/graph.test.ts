/** How chat calls with ids become nodes, by value: chains that extend, and the reason where one does not. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { JsonObject, Message } from '../dialects/dialect.ts';
import { choiceOf, completionOf, exchangeOf, GENERATION_PROMPT, ID, promptOf, renderMessages, wordIds } from './conversation.arbitrary.ts';
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
  ones,
  zeros,
  type Trace,
} from './recorded-trace.arbitrary.ts';

test('a chain of three turns that extends: one path, the carrier holds each turn’s new prompt', () => {
  const trace = newTrace();
  const [a1, a2, a3] = [assistant('one'), assistant('two'), assistant('three')];
  const m1 = [system, user('first')];
  const m2 = [...m1, a1, user('second')];
  const m3 = [...m2, a2, user('third')];
  const plans = [chat(trace, m1, a1), chat(trace, m2, a2), chat(trace, m3, a3)];
  assert.deepEqual(rolesOf(trace.nodes), ['system', 'user', 'assistant*', 'user', 'assistant*', 'user', 'assistant*']);
  assert.deepEqual(trace.nodes.map(({ parent }) => parent), [null, 0, 1, 2, 3, 4, 5]); // prettier-ignore
  assert.deepEqual(plans.map((plan) => [plan.extends, plan.forkReason, plan.drift]), [[null, null, []], [true, null, []], [true, null, []]]); // prettier-ignore
  assert.deepEqual(idsOf(trace, 6), [...promptOf(m3), ...completionOf(a3)]);
  const [c1, c2] = [completionOf(a1), completionOf(a2)];
  const second = [ID.newline, ...renderMessages([user('second')]), ...GENERATION_PROMPT];
  assert.deepEqual([...(trace.nodes[4]?.tokens?.ids ?? [])], [...second, ...c2]);
  assert.deepEqual(maskOf(trace, 4), [...zeros(promptOf(m1)), ...ones(c1), ...zeros(second), ...ones(c2)]);
  assert.deepEqual(trace.nodes[4]?.tokens?.logprobs, choiceOf(a2, c2).logprobs);
  assert.deepEqual(trace.nodes.map(({ tokens }) => tokens?.ids.length === 0), [true, true, false, true, false, true, false]); // prettier-ignore
  assert.deepEqual(trace.nodes.map(({ attribution }) => attribution), Array(7).fill('none')); // prettier-ignore
});

test('thinking stripped at turn 3: a new chain from the last whole node, the answers stay leaves', () => {
  const trace = newTrace();
  const think = (text: string): Message => assistant(text, { reasoning_content: `why ${text} is so good and right` });
  const a1 = calls('c1', 'x');
  const thinking = { ...a1, reasoning_content: 'let us look into this matter first' };
  const [a2, a3] = [think('two'), think('three')];
  const template = { dropReasoning: true };
  const m1 = [system, user('first')];
  const m2 = [...m1, thinking, tool('c1', 'found')];
  const m3 = [...m2, a2, user('next')];
  chat(trace, m1, thinking, { template });
  const second = chat(trace, m2, a2, { template });
  assert.deepEqual([second.extends, second.forkReason], [true, null]);
  const third = chat(trace, m3, a3, { template });
  assert.deepEqual([third.extends, third.forkReason], [false, 'reasoning_dropped']);
  assert.deepEqual(rolesOf(third.nodes), ['assistant', 'tool', 'assistant', 'user', 'assistant*']);
  assert.equal(third.nodes[0]?.parent, 1); // the user's message owns no ids: the walk ends there
  assert.deepEqual(third.nodes.map(({ forkReason }) => forkReason), ['reasoning_dropped', null, null, null, null]); // prettier-ignore
  const ids = [...promptOf(m3, template), ...completionOf(a3)];
  assert.deepEqual(idsOf(trace, answerOf(third)), ids);
  assert.deepEqual(maskOf(trace, answerOf(third)), [...zeros(promptOf(m3, template)), ...ones(completionOf(a3))]);
  assert.deepEqual(idsOf(trace, answerOf(second)), [...promptOf(m2, template), ...completionOf(a2)]);
});

test('thinking that the harness does not send back is dropped reasoning too, and so is a generation prompt that opens it', () => {
  const first = [system, user('first')];
  const a1 = assistant('one', { reasoning_content: 'a long way to it of many words' });
  for (const resent of [assistant('one'), a1]) {
    const trace = newTrace();
    const prompt = [...promptOf(first), ID.think];
    chat(trace, first, a1, { prompt, completion: completionOf(a1).slice(1) });
    const history = [...first, resent, user('second')];
    const next = chat(trace, history, assistant('two'), { template: { dropReasoning: true } });
    assert.deepEqual([next.forkReason, next.extends], ['reasoning_dropped', false]);
  }
});

test('short reasoning before a long answer is dropped reasoning, not another spelling', () => {
  const a1 = assistant('one two three four five six seven eight nine ten', { reasoning_content: 'hm so r3 r4 r5 r6 r7' });
  const { reasoning_content: _, ...stripped } = a1 as JsonObject;
  for (const resent of [a1, { ...stripped, role: 'assistant' }]) {
    const trace = newTrace();
    chat(trace, [user('first')], a1);
    const plan = chat(trace, [user('first'), resent, user('second')], assistant('two'), { template: { dropReasoning: true } });
    assert.equal(plan.forkReason, 'reasoning_dropped');
  }
});

test('reasoning behind the text, not sent back: dropped, wherever it stood', () => {
  const trace = newTrace();
  const a1 = assistant('one two three four five six seven eight nine ten', { reasoning_content: 'hm so' });
  const spoken = [...completionOf(a1, false).slice(0, -1), ID.think, ...wordIds('hm so'), ID.thinkEnd, ID.end];
  chat(trace, [user('first')], a1, { completion: spoken });
  const resent = assistant('one two three four five six seven eight nine ten');
  assert.equal(chat(trace, [user('first'), resent, user('second')], assistant('two')).forkReason, 'reasoning_dropped');
});

test('an answer is compared with itself, by its words, although a newer sample stands beside it and its call ids were rewritten', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  chat(trace, m1, calls('engine-1', 'x'));
  chat(trace, m1, assistant('other'));
  const m2 = [...m1, calls('mine-1', 'x'), tool('mine-1', 'found')];
  const prompt = promptOf(m2);
  prompt.splice(prompt.indexOf(ID.call) + 1, 1, 9001, 9002);
  assert.equal(chat(trace, m2, assistant('two'), { prompt }).forkReason, 'retokenised');
});

test('a second answer that comes back in another spelling: the first is still re-used, but nothing extends', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  const m2 = [...m1, assistant('one'), user('second')];
  chat(trace, m1, assistant('one'));
  chat(trace, m2, assistant('two and more'));
  const m3 = [...m2, assistant('two and more'), user('third')];
  const prompt = promptOf(m3);
  prompt.splice(prompt.indexOf(wordIds('more')[0] as number), 1, 9001, 9002);
  const plan = chat(trace, m3, assistant('three'), { prompt });
  assert.deepEqual([plan.extends, plan.forkReason, plan.nodes[0]?.parent], [false, 'retokenised', 2]);
});

test('BPE drift inside the completion: re-tokenised, and not taken for dropped reasoning where there is some', () => {
  for (const reasoning of [null, 'r1 r2 r3 r4 r5 r6 r7 r8 r9']) {
    const trace = newTrace();
    const a1 = assistant('alpha beta gamma', reasoning === null ? {} : { reasoning_content: reasoning });
    const m1 = [user('first')];
    chat(trace, m1, a1);
    const m2 = [...m1, a1, user('second')];
    const prompt = promptOf(m2);
    const drifting = wordIds(reasoning === null ? 'beta' : 'r3')[0] as number;
    prompt.splice(prompt.indexOf(drifting), 1, 9001, 9002);
    const plan = chat(trace, m2, assistant('two'), { prompt });
    assert.deepEqual([plan.forkReason, plan.extends], ['retokenised', false]);
    assert.deepEqual(idsOf(trace, answerOf(plan)), [...prompt, ...completionOf(assistant('two'))]);
  }
});

test('an answer cut by length has no stop token: the closing token is new and the chain goes on', () => {
  const trace = newTrace();
  const cut = assistant('as long as it');
  chat(trace, [user('first')], cut, { completion: completionOf(cut).slice(0, -1) });
  const m2 = [user('first'), cut, user('go on')];
  const plan = chat(trace, m2, assistant('rest'));
  assert.deepEqual([plan.extends, plan.forkReason, rolesOf(plan.nodes)], [true, null, ['user', 'assistant*']]);
  assert.deepEqual(trace.nodes.at(-1)?.tokens?.ids[0], ID.end);
  assert.equal(trace.nodes.at(-1)?.tokens?.mask[0], 0);
});

test('a stop string that the text does not keep: re-tokenised', () => {
  const trace = newTrace();
  chat(trace, [user('first')], assistant('one'), { completion: wordIds('one STOP') });
  const plan = chat(trace, [user('first'), assistant('one'), user('second')], assistant('two'));
  assert.deepEqual([plan.extends, plan.forkReason], [false, 'retokenised']);

  const thinking = assistant('one', { reasoning_content: 'a long way to it of many more words than a head holds' });
  const other = newTrace();
  chat(other, [user('first')], thinking, { completion: [...completionOf(thinking).slice(0, -1), ...wordIds('STOP')] });
  assert.equal(chat(other, [user('first'), thinking, user('second')], assistant('two')).forkReason, 'retokenised');
});

test('n = 4, and the third is continued', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  const texts = ['w', 'x', 'y', 'z'];
  const choices = texts.map((text, index) => choiceOf(assistant(text), completionOf(assistant(text)), { index }));
  const plan = record(trace, exchangeOf(m1, promptOf(m1), choices));
  assert.deepEqual(plan.answers, [0, 1, 2, 3].map((choice) => ({ choice, node: choice + 2 }))); // prettier-ignore
  assert.deepEqual(plan.nodes.slice(2).map(({ parent, forkReason }) => [parent, forkReason]), [[1, null], [1, 'resample'], [1, 'resample'], [1, 'resample']]); // prettier-ignore
  for (const [i, text] of texts.entries()) assert.deepEqual(idsOf(trace, i + 2), [...promptOf(m1), ...completionOf(assistant(text))]);
  const next = chat(trace, [...m1, assistant('y'), user('second')], assistant('end'));
  assert.deepEqual([next.nodes[0]?.parent, next.extends, next.forkReason], [4, true, null]);
});

test('a duplicate of a continued answer does not hide the chain that goes on', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  chat(trace, m1, assistant('same'));
  const m2 = [...m1, assistant('same'), user('second')];
  const second = chat(trace, m2, assistant('two'));
  assert.equal(chat(trace, m1, assistant('same')).forkReason, 'resample');
  const third = chat(trace, [...m2, assistant('two'), user('third')], assistant('three'));
  assert.deepEqual([third.nodes[0]?.parent, third.extends, third.forkReason], [answerOf(second), true, null]);
});

test('two parallel calls from one prefix', () => {
  const trace = newTrace();
  const a1 = calls('c1', 'x');
  const m1 = [user('first')];
  chat(trace, m1, a1);
  const left = chat(trace, [...m1, a1, tool('c1', 'left')], assistant('L'), { more: { start: 9_000_000, end: 9_000_050 } });
  const right = chat(trace, [...m1, a1, tool('c1', 'right')], assistant('R'), { more: { start: 9_000_020, end: 9_000_060 } });
  assert.deepEqual([left.forkReason, left.extends], [null, true]);
  assert.deepEqual([right.forkReason, right.extends], ['parallel', true]);
  assert.deepEqual([left.nodes[0]?.parent, right.nodes[0]?.parent], [1, 1]);
  assert.deepEqual(right.nodes.map(({ forkReason }) => forkReason), ['parallel', null]); // prettier-ignore
  const later = chat(trace, [...m1, a1, tool('c1', 'later')], assistant('N'), { more: { start: 9_000_070, end: 9_000_080 } });
  assert.deepEqual([later.forkReason, later.extends], ['edited_history', true]);
});

test('parallel calls that share nothing but the system prompt ask nothing about extension', () => {
  const trace = newTrace();
  chat(trace, [system, user('left')], assistant('L'), { more: { start: 9_000_000, end: 9_000_050 } });
  const right = chat(trace, [system, user('right')], assistant('R'), { more: { start: 9_000_020, end: 9_000_060 } });
  assert.deepEqual([right.forkReason, right.extends, right.nodes[0]?.parent], ['parallel', null, 0]);
  const later = chat(trace, [system, user('later')], assistant('N'), { more: { start: 9_000_070, end: 9_000_080 } });
  assert.deepEqual([later.forkReason, later.extends], ['edited_history', false]);
});

test('parallel tool calls: one answer node, the results a chain in request order', () => {
  const trace = newTrace();
  const both = assistant('', { tool_calls: [{ id: 'p', name: 'search', arguments: '{}' }, { id: 'q', name: 'search', arguments: '{}' }] }); // prettier-ignore
  chat(trace, [user('first')], both);
  const plan = chat(trace, [user('first'), both, tool('p', 'one'), tool('q', 'two')], assistant('done'));
  assert.deepEqual(plan.nodes.map(({ parent, role }) => [parent, role]), [[1, 'tool'], [2, 'tool'], [3, 'assistant']]); // prettier-ignore
});

test('tools changed at turn 2: another root, whether the template shows them or not', () => {
  for (const shown of [true, false]) {
    const trace = newTrace();
    const [search, write] = [{ name: 'search' }, { name: 'write' }];
    const m1 = [system, user('first')];
    const prompt = (messages: readonly Message[], tools: readonly JsonObject[]): number[] => promptOf(messages, shown ? { tools } : {});
    chat(trace, m1, assistant('one'), { template: { tools: [search] }, prompt: prompt(m1, [search]) });
    const m2 = [...m1, assistant('one'), user('second')];
    const plan = chat(trace, m2, assistant('two'), { template: { tools: [search, write] }, prompt: prompt(m2, [search, write]) });
    assert.deepEqual([plan.nodes[0]?.parent, plan.forkReason, plan.extends], [null, 'template_changed', false]);
    assert.notEqual(plan.nodes[0]?.toolsHash, trace.nodes[0]?.toolsHash);
    const back = chat(trace, m2, assistant('three'), { template: { tools: [search] }, prompt: prompt(m2, [search]) });
    assert.deepEqual([back.nodes[0]?.parent, back.forkReason, back.extends], [2, null, true]);
  }
});

test('another agent with other tools and another system prompt is no template that changed', () => {
  const trace = newTrace();
  chat(trace, [system, user('first')], assistant('one'), { template: { tools: [{ name: 'search' }] } });
  const other = [{ role: 'system', content: 'you are a judge' }, user('first')];
  const plan = chat(trace, other, assistant('yes'), { template: { tools: [{ name: 'grade' }] } });
  assert.deepEqual([plan.forkReason, plan.nodes[0]?.parent], ['edited_history', null]);
});

test('call ids that a harness rewrites do not hide that the template changed', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  chat(trace, m1, calls('engine-1', 'x'), { template: { date: 'monday' } });
  const m2 = [...m1, calls('mine-1', 'x'), tool('mine-1', 'found')];
  chat(trace, m2, assistant('two'), { template: { date: 'monday' } });
  const m3 = [...m1, calls('mine-2', 'x'), tool('mine-2', 'found'), assistant('two'), user('third')];
  assert.equal(chat(trace, m3, assistant('three'), { template: { date: 'tuesday' } }).forkReason, 'template_changed');
});

test('a date in the system prompt that moves: template_changed', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  chat(trace, m1, assistant('one'), { template: { date: 'monday' } });
  const plan = chat(trace, [...m1, assistant('one'), user('second')], assistant('two'), { template: { date: 'tuesday' } });
  assert.deepEqual([plan.forkReason, plan.extends, plan.nodes[0]?.parent], ['template_changed', false, 1]);
  const again = chat(trace, m1, assistant('one'), { template: { date: 'wednesday' } });
  assert.deepEqual([again.forkReason, again.extends], ['template_changed', false]);
});

test('tool-call ids that the harness rewrites: no fork, drift by name', () => {
  const trace = newTrace();
  const m1 = [user('first')];
  chat(trace, m1, calls('engine-1', 'x'));
  const m2 = [...m1, calls('mine-1', 'x'), tool('mine-1', 'found')];
  const second = chat(trace, m2, calls('engine-2', 'y'));
  assert.deepEqual([second.forkReason, second.extends, second.drift, second.driftNodes], [null, true, ['tool_calls.id'], [1]]);
  const third = chat(trace, [...m2, calls('mine-2', 'y'), tool('mine-2', 'more')], assistant('done'));
  assert.deepEqual([third.forkReason, third.extends, third.drift, third.driftNodes], [null, true, ['tool_calls.id'], [1, 3]]);
  assert.deepEqual(rolesOf(trace.nodes), ['user', 'assistant*', 'tool', 'assistant*', 'tool', 'assistant*']);
  assert.deepEqual(trace.nodes[1]?.message, calls('engine-1', 'x')); // the node keeps what was sampled
});

test('re-sent arguments with other spaces and key order are no drift', () => {
  const trace = newTrace();
  const call = (args: string): Message => assistant('', { tool_calls: [{ id: 'c', name: 'search', arguments: args }] });
  chat(trace, [user('first')], call('{"a":1,"b":[true]}'), { completion: [77, ID.end] });
  const m2 = [user('first'), call('{ "b": [true], "a": 1.0 }'), tool('c', 'x')];
  const prompt = [...promptOf([user('first')]), 77, ID.end, ID.newline, 88];
  const plan = chat(trace, m2, assistant('y'), { prompt });
  assert.deepEqual([plan.drift, plan.extends], [[], true]);
});

test('the same prompt twice: resample, retry or parallel; each answer has its own copy', () => {
  const trace = newTrace();
  const m1 = [system, user('first')];
  chat(trace, m1, assistant('one'));
  const again = chat(trace, m1, assistant('two'));
  assert.deepEqual([again.forkReason, again.extends, rolesOf(again.nodes), again.nodes[0]?.parent], ['resample', null, ['assistant*'], 1]);
  assert.equal(again.nodes[0]?.attribution, 'none'); // it carries the ids of both messages
  assert.equal(chat(trace, m1, assistant('three'), { more: { retry: true } }).forkReason, 'retry');
  const overlapping = { start: trace.nodes.at(-1)?.time as number, end: 10_000_000 };
  assert.equal(chat(trace, m1, assistant('four'), { more: overlapping }).forkReason, 'resample'); // one begins as the other ends
  assert.equal(chat(trace, m1, assistant('five'), { more: { ...overlapping, start: 9_999_999 } }).forkReason, 'parallel');
  const behind = { start: trace.nodes.at(-1)?.time as number, end: 10_000_001 };
  chat(trace, m1, assistant('six'), { more: { start: 1, end: 2 } }); // the newest twin ended long ago, an older one has not
  assert.equal(chat(trace, m1, assistant('seven'), { more: { ...behind, start: behind.start - 1 } }).forkReason, 'parallel');
  for (const node of trace.nodes.slice(2)) {
    assert.deepEqual(idsOf(trace, node.index), [...promptOf(m1), ...completionOf(node.message as Message)]);
  }
});

test('edited system prompt, edited user message, a history that got shorter', () => {
  const start = (): Trace => {
    const trace = newTrace();
    const m1 = [system, user('first')];
    chat(trace, m1, assistant('one'));
    chat(trace, [...m1, assistant('one'), user('second')], assistant('two'));
    return trace;
  };
  const other = { role: 'system', content: 'be brief and kind' };
  const edited = chat(start(), [other, user('first'), assistant('one'), user('second'), assistant('two'), user('x')], assistant('y'));
  assert.deepEqual([edited.forkReason, edited.extends, edited.nodes[0]?.parent], ['edited_history', false, null]);
  const early = chat(start(), [system, user('first of all'), assistant('one'), user('second')], assistant('y'));
  assert.deepEqual([early.forkReason, early.nodes[0]?.parent], ['edited_history', 0]);
  const answer = chat(start(), [system, user('first'), assistant('ONE'), user('second')], assistant('y'));
  assert.deepEqual([answer.forkReason, answer.nodes[0]?.parent, answer.nodes[0]?.sampled], ['edited_history', 1, false]);
  const compacted = chat(start(), [system, user('so far so good')], assistant('y'));
  assert.deepEqual([compacted.forkReason, compacted.extends, compacted.nodes[0]?.parent], ['compaction', false, 0]);
  const longer = chat(start(), [system, user(Array.from({ length: 40 }, (_, i) => `w${i}`).join(' '))], assistant('y'));
  assert.equal(longer.forkReason, 'edited_history'); // fewer messages, but a longer prompt
  const linked = chat(start(), [system, user('so far'), assistant('one'), user('second')], assistant('y'), { more: { compaction: true } });
  assert.equal(linked.forkReason, 'compaction');
});
