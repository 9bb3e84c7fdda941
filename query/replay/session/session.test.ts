import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PackedArray } from '../../../events/packed-array.ts';
import { createPieceWriter } from '../../../events/answer-pieces.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { canonicalRequest, type Fields } from '../request/canonical-request.ts';
import { DEFAULT_NORMALISERS } from '../request/normalise.ts';
import { tapeOf } from '../tape/tape.ts';
import { isFaithful, reportMarkdown } from './report.ts';
import { createSession, type Policy, type Session } from './session.ts';

const chat = (content: string): Fields => ({ model: 'm', messages: [{ role: 'user', content }] });

function pieces(text: string): PackedArray<'u8'> {
  const writer = createPieceWriter({ maxBytes: 1e6 });
  writer.add(Buffer.from(text), 5);
  return PackedArray.of(writer.take());
}

type CallDraft = {
  readonly index: number;
  readonly content: string;
  readonly trace?: string;
  readonly data?: Record<string, unknown>;
  readonly start?: number;
};

function events(calls: readonly CallDraft[], ended: Record<string, unknown> | null = {}): TapedeckEvent[] {
  const base = { v: 1, project: 'default', run: 'run', rollout: 'r', time: 1 };
  const made: object[] = [{ ...base, id: 's', type: 'rollout.started', data: { task: { key: 'k' } } }];
  for (const { index, content, trace = 't', data = {}, start = index } of calls) {
    const told = {
      status: 200,
      headers: { 'content-type': 'application/json' },
      pieces: pieces(`{"answer":"${content}"}`),
      ending: 'complete',
    };
    made.push({ ...base, id: `c${trace}${index}`, trace, type: 'call.recorded', data: { index, dialect: 'openai.chat', request: chat(content), told, node: 2 * index + 1, time: { start }, ...data } }); // prettier-ignore
  }
  if (ended !== null) made.push({ ...base, id: 'e', type: 'rollout.ended', data: { ok: true, ...ended } });
  return made as TapedeckEvent[];
}

const session = (calls: readonly CallDraft[], policy: Policy = 'strict', fork: { trace: string; index: number } | null = null): Session =>
  createSession(tapeOf(events(calls), { partial: false }), { policy, normalisers: DEFAULT_NORMALISERS, liveTools: false, fork });
const ask = (to: Session, content: string, isRetry = false) =>
  to.plan({ dialect: 'openai.chat', request: canonicalRequest(chat(content)), trace: null, isRetry });
const kinds = (to: Session, ...contents: string[]): string[] =>
  contents.map((content) => {
    const plan = ask(to, content);
    return plan.kind === 'answer' ? `${plan.how} ${plan.call.index}` : plan.kind === 'refuse' ? plan.code : plan.kind;
  });
const THREE: CallDraft[] = [0, 1, 2].map((index) => ({ index, content: `q${index}` }));

describe('policies', () => {
  test('strict: a divergence ends the replay', () => {
    const replay = session(THREE);
    assert.deepEqual(kinds(replay, 'q0', 'other', 'q1'), ['match 0', 'replay_diverged', 'replay_diverged']);
    const report = replay.report();
    assert.deepEqual([report.summary.served, report.summary.divergences, report.summary.unserved], [1, 1, 2]);
    assert.deepEqual(report.misses.map(({ kind }) => kind), ['divergence', 'stopped']); // prettier-ignore
    assert.equal(isFaithful(report), false);
    assert.match(reportMarkdown(report), /request 1, divergence against call 1 of t: messages\[0\]\.content at character 0/);
  });

  test('forbid-network: later requests are matched on', () => {
    assert.deepEqual(kinds(session(THREE, 'forbid-network'), 'q0', 'other', 'q2', 'q1', 'q1'), [
      'match 0',
      'replay_diverged',
      'match 2',
      'match 1',
      'replay_exhausted',
    ]);
  });

  test('ordered-fallback: the next call answers, once', () => {
    const replay = session(THREE, 'ordered-fallback');
    assert.deepEqual(kinds(replay, 'other', 'q0', 'q2'), ['fallback 0', 'fallback 1', 'match 2']);
    assert.deepEqual(replay.report().calls.map(({ verdict }) => verdict), ['divergence', 'divergence', 'match']); // prettier-ignore
  });

  test('live-on-miss: a miss goes to the model, also when nothing is left', () => {
    assert.deepEqual(kinds(session(THREE, 'live-on-miss'), 'q0', 'other', 'q1', 'q2', 'more'), [
      'match 0',
      'live',
      'match 1',
      'match 2',
      'live',
    ]);
  });

  test('everything asked, in any order: faithful', () => {
    const replay = session(THREE);
    kinds(replay, 'q2', 'q0', 'q1');
    assert.deepEqual([isFaithful(replay.report()), replay.report().summary.coverage], [true, 1]);
    assert.equal(isFaithful(session(THREE).report()), false);
  });
});

describe('forks', () => {
  test('the prefix from the record, then the model; a foreign request inside the prefix is refused', () => {
    assert.deepEqual(kinds(session(THREE, 'strict', { trace: 't', index: 2 }), 'q0', 'q1', 'q2', 'anything'), [
      'match 0',
      'match 1',
      'live',
      'live',
    ]);
    assert.deepEqual(kinds(session(THREE, 'strict', { trace: 't', index: 2 }), 'q0', 'other'), ['match 0', 'replay_diverged']);
    assert.deepEqual(kinds(session(THREE, 'strict', { trace: 't', index: 0 }), 'other'), ['live']);
  });

  test('parallel calls: one of behind the fork may come first', () => {
    assert.deepEqual(kinds(session(THREE, 'strict', { trace: 't', index: 2 }), 'q2', 'q1', 'q0'), ['live', 'match 1', 'match 0']);
  });

  test('of other traces, what had begun by then', () => {
    const calls = [...THREE, { index: 0, content: 'u0', trace: 'u', start: 1 }, { index: 1, content: 'u1', trace: 'u', start: 9 }];
    const replay = session(calls, 'strict', { trace: 't', index: 2 });
    assert.deepEqual(kinds(replay, 'u0', 'q0', 'q1', 'u1'), ['match 0', 'match 0', 'match 1', 'live']);
    const same = session([...THREE, { index: 0, content: 'u0', trace: 'u', start: 2 }], 'strict', { trace: 't', index: 2 });
    assert.deepEqual(kinds(same, 'q0', 'u0'), ['match 0', 'live'], 'what began with the fork had not begun before it');
    assert.throws(() => session(calls, 'strict', { trace: 't', index: 9 }), { code: 'usage', message: /has no call 9: it has 3/ });
  });
});

describe('what the record lacks', () => {
  test('a call without its bytes is refused by name; nothing playable is refused at once', () => {
    const odd = { index: 1, content: 'q1', data: { told: { status: 200, pieces: null, ending: 'complete' } } };
    const replay = session([THREE[0]!, odd], 'forbid-network');
    assert.deepEqual(kinds(replay, 'q0', 'q1'), ['match 0', 'replay_unavailable']);
    assert.match(replay.report().misses[0]?.message ?? '', /too large/);
    assert.throws(() => session([{ index: 0, content: 'a', data: { request: undefined, told: undefined } }]), {
      code: 'replay_unavailable',
    });
    const broken = {
      index: 0,
      content: 'a',
      data: { told: { status: 200, pieces: PackedArray.of(Uint8Array.of(1, 9, 9, 9)), ending: 'complete' } },
    };
    assert.throws(() => session([broken]), { code: 'replay_unavailable', message: /cannot be read/ });
  });

  test('an older record: a whole body is printed from its value; a stream is not', () => {
    const older = { index: 0, content: 'a', data: { told: undefined, response: { id: 'x', n: 2n ** 60n }, stream: false } };
    const plan = ask(session([older]), 'a');
    assert.equal(plan.kind, 'answer');
    if (plan.kind === 'answer')
      assert.deepEqual(
        [plan.answer.isExact, Buffer.from(plan.answer.pieces[0]!.bytes).toString()],
        [false, '{"id":"x","n":1152921504606846976}'],
      );
    assert.throws(() => session([{ ...older, data: { ...older.data, stream: true } }]), {
      code: 'replay_unavailable',
      message: /older gateway/,
    });
  });

  test('a request that was too large for an event is recorded as its text', () => {
    assert.deepEqual(kinds(session([{ index: 0, content: 'a', data: { request: JSON.stringify(chat('a')) } }]), 'a'), ['match 0']);
  });

  test('a limit that was reached stays reached', () => {
    const limited = { index: 1, content: 'q1', data: { error: { type: 'max_turns', message: 'enough' }, extra: { limit: 'max_turns' } } };
    assert.deepEqual(kinds(session([THREE[0]!, limited]), 'q0', 'q1', 'more', 'and more'), ['match 0', 'match 1', 'again 1', 'again 1']);
  });
});

describe('tapes', () => {
  const partial = { partial: false };
  test('running, or with events still missing: the remedy is named', () => {
    assert.throws(() => tapeOf(events(THREE, null), partial), { code: 'rollout_running', message: /has not ended.*--partial/ });
    assert.equal(tapeOf(events(THREE, null), { partial: true }).isEnded, false);
    const ended = {
      v: 1,
      id: 'x',
      type: 'trace.ended',
      run: 'run',
      rollout: 'r',
      trace: 't',
      time: 1,
      data: { ok: true, counts: { nodes: 9, calls: 5 } },
    };
    assert.throws(() => tapeOf([...events(THREE), ended as unknown as TapedeckEvent], partial), {
      code: 'rollout_running',
      message: /5 calls at its end, of which 3/,
    });
    assert.throws(() => tapeOf([], partial), { code: 'not_found' });
  });

  test('the first of an index wins; calls of a trace keep their order whatever their clocks say', () => {
    const tape = tapeOf(
      events([
        { index: 1, content: 'b', start: 1 },
        { index: 0, content: 'a', start: 5 },
        { index: 0, content: 'later', start: 0 },
        { index: 0, content: 'u', trace: 'u', start: 3 },
      ]),
      partial,
    );
    assert.deepEqual(tape.calls.map(({ trace, index }) => `${trace}${index}`), ['u0', 't0', 't1']); // prettier-ignore
  });
});
