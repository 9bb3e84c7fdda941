/** Rollouts that were recorded without the gateway: requests rebuilt from the graph, matched by what was said; where none can be rebuilt, the reason. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { canonicalRequest, type Fields } from '../request/canonical-request.ts';
import { DEFAULT_NORMALISERS } from '../request/normalise.ts';
import { tapeOf } from '../tape/tape.ts';
import { isFaithful, reportMarkdown } from './report.ts';
import { createSession, type Plan, type Session } from './session.ts';

const TOOL = { name: 'add', description: 'adds', parameters: { type: 'object' } };
type Event = { readonly type: string; readonly data: Fields; readonly trace?: string };

function node(index: number, message: Fields | null, more: Fields = {}): Event {
  const role = (message?.['role'] as string | undefined) ?? 'user';
  return { type: 'node.appended', data: { index, ...(index > 0 && { parent: index - 1 }), role, sampled: role === 'assistant', ...(message !== null && { message }), ...more } };
} // prettier-ignore
const call = (index: number, at: number, more: Fields = {}): Event => ({
  type: 'call.recorded',
  data: { index, node: at, model: 'toy', ...more },
});

/** As a recorder in the process, or an importer, tells it: one question, a tool call, its result, an answer. */
const ASKED = [
  node(0, { role: 'system', content: 'Be brief.' }),
  node(1, { role: 'user', content: 'On 2026-11-30: what is 1 + 1?' }),
  node(2, { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: [{ id: 'c1', name: 'add', arguments: '{"a": 1, "b": 1}' }] }),
  node(3, { role: 'tool', tool_call_id: 'c1', content: '2' }),
  node(4, { role: 'assistant', content: 'It is 2.' }),
]; // prettier-ignore
const CALLS = [
  call(0, 2, { sampling: { temperature: 0.5 }, usage: { promptTokens: 7, completionTokens: 2, cachedTokens: 3 } }),
  call(1, 4, { finishReason: 'length' }),
];

function sessionOf(events: readonly Event[], { liveTools = false, counts = true } = {}): Session {
  const base = { v: 1, project: 'default', run: 'run', rollout: 'r', time: 1_762_214_400_000_000 };
  const started: Event = { type: 'trace.started', data: { agent: {}, tools: [TOOL] } };
  const nodes = events.filter(({ type }) => type === 'node.appended').length;
  const ended: Event = { type: 'trace.ended', data: { ok: true, ...(counts && { counts: { nodes, calls: events.length - nodes } }) } };
  const made = [started, ...events, ended].map((event, i) => ({ ...base, id: `e${i}`, trace: 't', ...event }));
  const all = [...made, { ...base, id: 'end', type: 'rollout.ended', data: { ok: true } }] as unknown as TapedeckEvent[];
  const policy = 'forbid-network';
  return createSession(tapeOf(all, { partial: false }), { policy, normalisers: DEFAULT_NORMALISERS, liveTools, fork: null });
}

const SYSTEM = { role: 'system', content: 'Be brief.' };
const question = (content = 'On 2026-11-30: what is 1 + 1?'): Fields => ({ role: 'user', content });
const toolCall = {
  role: 'assistant',
  content: '',
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"b":1,"a":1}' } }],
};
const result = (content: string): Fields => ({ role: 'tool', tool_call_id: 'c1', name: 'add', content: [{ type: 'text', text: content }] });
const wireTool = { type: 'function', function: { ...TOOL, strict: true } };

function ask(to: Session, messages: readonly Fields[], more: Fields = {}, dialect = 'openai.chat'): Plan {
  return to.plan({ dialect, request: canonicalRequest({ model: 'another', messages, ...more }), trace: null, isRetry: false });
}
const kind = (plan: Plan): string =>
  plan.kind === 'answer' ? `${plan.how} ${plan.call.index}` : plan.kind === 'refuse' ? plan.code : plan.kind;
const bodyOf = (plan: Plan): string =>
  plan.kind === 'answer' ? Buffer.concat(plan.answer.pieces.map(({ bytes }) => bytes)).toString() : '';

describe('a rollout recorded without the gateway', () => {
  test('is served by messages, whatever their wire form; the report says so', () => {
    const replay = sessionOf([...ASKED, ...CALLS]);
    const first = ask(replay, [SYSTEM, question()], { tools: [wireTool], temperature: 0.5, max_tokens: 9 });
    assert.equal(kind(first), 'match 0');
    assert.deepEqual(JSON.parse(bodyOf(first)), {
      id: 'chatcmpl-t-0', object: 'chat.completion', created: 1_762_214_400, model: 'toy',
      choices: [{ index: 0, finish_reason: 'tool_calls', logprobs: null, message: { role: 'assistant', content: null, reasoning_content: 'hm', tool_calls: [{ id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1, "b": 1}' } }] } }],
      usage: { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12, prompt_tokens_details: { cached_tokens: 3 } },
    });
    const second = ask(replay, [SYSTEM, question(), toolCall, result('2')]);
    assert.equal(kind(second), 'match 1');
    const { choices } = JSON.parse(bodyOf(second)) as { choices: { finish_reason: string; message: { content: string } }[] };
    assert.deepEqual([choices[0]?.message.content, choices[0]?.finish_reason], ['It is 2.', 'length']);
    const report = replay.report();
    assert.ok(isFaithful(report));
    assert.deepEqual(report.calls.map(({ matchedBy, isExact }) => [matchedBy, isExact]), [['messages', false], ['messages', false]]);
    assert.match(reportMarkdown(report), /2 of 2 calls were recorded without the gateway: they are matched by messages, not by a captured request/);
  }); // prettier-ignore

  test('a client that asks for a stream gets one', () => {
    const plan = ask(sessionOf([...ASKED, ...CALLS]), [SYSTEM, question()], { stream: true });
    assert.ok(plan.kind === 'answer' && String(plan.answer.headers['content-type']).startsWith('text/event-stream'));
    const data = bodyOf(plan).split('\n\n').filter(Boolean).map((event) => event.replace(/^data: /, '')); // prettier-ignore
    assert.equal(data.at(-1), '[DONE]');
    const chunks = data.slice(0, -1).map((text) => JSON.parse(text) as { choices: { delta: Fields; finish_reason: string | null }[]; usage?: unknown }); // prettier-ignore
    assert.deepEqual(chunks[0]?.choices[0]?.delta['tool_calls'], [{ index: 0, ...toolCall.tool_calls[0], function: { name: 'add', arguments: '{"a": 1, "b": 1}' } }]); // prettier-ignore
    assert.deepEqual([chunks[1]?.choices[0]?.finish_reason, chunks[2]?.choices], ['tool_calls', []]);
  });

  test('conversations alone are enough: each sampled node is a call', () => {
    const replay = sessionOf(ASKED);
    assert.deepEqual([kind(ask(replay, [SYSTEM, question()])), kind(ask(replay, [SYSTEM, question(), toolCall, result('2')]))], ['match 0', 'match 1']); // prettier-ignore
    assert.equal(kind(ask(replay, [SYSTEM])), 'replay_exhausted');
  });

  test('drift, divergence and live tools are as with captured requests', () => {
    const drifted = sessionOf([...ASKED, ...CALLS]);
    assert.equal(kind(ask(drifted, [SYSTEM, question('On 2027-01-02: what is 1 + 1?')])), 'drift 0');
    assert.deepEqual(drifted.report().calls[0]?.drifts.map(({ path, rules }) => [path, rules]), [['messages[1].content', ['dates']]]); // prettier-ignore
    const differs = (messages: readonly Fields[], more: Fields = {}): string | undefined => {
      const replay = sessionOf([...ASKED, ...CALLS]);
      assert.equal(kind(ask(replay, messages, more)), 'replay_diverged');
      return replay.report().misses[0]?.difference?.path;
    };
    assert.equal(differs([SYSTEM, question('On 2026-11-30: what is 1 + 2?')]), 'messages[1].content');
    assert.equal(differs([SYSTEM, question()], { temperature: 1 }), 'temperature');
    assert.match(
      differs([SYSTEM, question()], { tools: [{ ...wireTool, function: { ...TOOL, name: 'sub' } }] }) ?? '',
      /^tools\[0\]\.name/,
    );
    const live = sessionOf([...ASKED, ...CALLS], { liveTools: true });
    ask(live, [SYSTEM, question()]);
    assert.equal(kind(ask(live, [SYSTEM, question(), toolCall, result('3')])), 'match 1');
    assert.deepEqual(live.report().summary.tools, { compared: 1, different: 1 });
  });
});

describe('what cannot be rebuilt is refused by name', () => {
  const why = (events: readonly Event[], pattern: RegExp): void => {
    assert.throws(() => sessionOf(events), { code: 'replay_unavailable', message: pattern });
  };
  test('another API, a failed call, an answer that broke off, messages that are missing', () => {
    const [first] = [ASKED.slice(0, 3)];
    why([...first, call(0, 2, { dialect: 'anthropic.messages' })], /cannot be rebuilt: it was one of anthropic\.messages; only those of openai\.chat are/);
    why([...first, call(0, 2, { node: null, error: { type: 'timeout', message: 'x' } })], /no node holds its answer/);
    why([...first, call(0, 2, { error: { type: 'timeout', message: 'x' } })], /failed or broke off/);
    why([...ASKED.slice(0, 2), node(2, { role: 'assistant', content: 'It' }, { partial: true }), call(0, 2)], /failed or broke off/);
    why([...ASKED.slice(0, 2), node(2, null, { role: 'assistant', sampled: true }), call(0, 2)], /node 2, its answer, has no message/);
    why([node(0, null), node(1, { role: 'assistant', content: 'x' }), call(0, 1)], /node 0 before its answer has no message/);
    why([node(0, { role: 'assistant', content: 'x' }), call(0, 0)], /no message before its answer/);
  }); // prettier-ignore

  test('one such call among others is refused when it is next; a request of another API is a divergence', () => {
    const replay = sessionOf([...ASKED, call(0, 2, { error: { type: 'timeout', message: 'x' } }), call(1, 4)]);
    assert.equal(kind(ask(replay, [SYSTEM, question()])), 'replay_diverged');
    assert.match(replay.report().misses[0]?.message ?? '', /cannot be rebuilt/);
    assert.equal(kind(ask(replay, [SYSTEM, question(), toolCall, result('2')])), 'match 1');
    const other = sessionOf([...ASKED, ...CALLS]);
    assert.equal(kind(ask(other, [SYSTEM, question()], {}, 'anthropic.messages')), 'replay_diverged');
    assert.equal(other.report().misses[0]?.difference?.path, 'dialect');
  });
});
