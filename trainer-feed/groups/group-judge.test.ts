/** When a group is ready, sealed or given up: each exit of each state. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TapedeckEvent } from '../../events/registry.ts';
import { event, f32, T0, u32, u8 } from '../feed/feed-world.ts';
import { memoryColumns } from '../feed/memory-columns.ts';
import { NO_TEACHER, type Admission } from './admission.ts';
import { applyEvent, newFacts, type Decided, type FeedFacts } from './group-facts.ts';
import { judgeGroup, NOTHING_OWED, type Circumstances, type GroupPolicy, type Owed, type Verdict } from './group-judge.ts';
import { GROUP_STATES, nextState, type GroupSignal } from './group-states.ts';
import { groupKey } from './keys.ts';

const ADMISSION: Admission = {
  project: 'default',
  runs: null,
  envs: null,
  work: 'train',
  unlabelled: 'skip',
  ...NO_TEACHER,
};
const POLICY: GroupPolicy = {
  size: null, minGroupSize: 1, redundant: 'first', deadline: 1000, scoringDeadline: 500, unscored: 'exclude', requiredRewards: [], needsRewards: true,
}; // prettier-ignore
const NOBODY: Decided = { group: () => ({ kind: 'none' }), isClosed: () => false };

type Given = {
  readonly size?: number | null;
  readonly ends?: 'ok' | 'failed' | 'cancelled' | 'superseded' | 'running';
  readonly score?: number | null | 'none';
  readonly at?: number;
  readonly attempt?: number;
  readonly work?: 'train' | 'eval' | 'none';
  readonly name?: string;
  readonly mirrorOf?: string;
};

function rollout(
  id: string,
  { size = 2, ends = 'ok', score = 1, at = 0, attempt = 0, work = 'train', name = 'correct', mirrorOf }: Given = {},
): TapedeckEvent[] {
  const ids = { run: 'r', group: 'g', rollout: id };
  const trace = { ...ids, trace: `t-${id}` };
  let time = T0 + at;
  const labelled = work === 'none' ? {} : { work: { type: work } };
  const started = {
    env: { id: 'e' },
    group: size === null ? { id: 'g' } : { id: 'g', size },
    attempt,
    ...labelled,
    ...(mirrorOf === undefined ? {} : { mirrorOf }),
  };
  const events = [
    event('rollout.started', ids, time++, started),
    event('trace.started', trace, time++, { agent: { name: 'a' } }),
    event('node.appended', trace, time++, {
      index: 0,
      role: 'assistant',
      sampled: true,
      tokens: { ids: u32([1]), mask: u8([1]), logprobs: f32([-1]) },
    }),
  ];
  if (score !== 'none') events.push(event('reward.assigned', trace, time++, { scope: 'trace', name, score }));
  if (ends === 'ok' || ends === 'failed') events.push(event('rollout.ended', ids, time++, { ok: ends === 'ok' }));
  if (ends === 'cancelled') events.push(event('rollout.cancelled', ids, time++, { reason: 'user' }));
  if (ends === 'superseded') events.push(event('rollout.cancelled', ids, time++, { reason: 'superseded' }));
  return events;
}

const SEALED = (size: number, reason = 'complete'): TapedeckEvent[] => [
  event('group.sealed', { run: 'r', group: 'g' }, T0 + 50, { size, reason }),
];

function facts(...lists: TapedeckEvent[][]): FeedFacts {
  const found = newFacts(ADMISSION, [0]);
  const columns = memoryColumns();
  lists.flat().forEach((each, offset) => applyEvent(each, { partition: 0, offset }, { facts: found, decided: NOBODY, columns, now: T0 }));
  return found;
}

function judge(found: FeedFacts, policy: Partial<GroupPolicy> = {}, at: Partial<Circumstances> = {}): Verdict {
  const group = found.groups.get(groupKey({ run: 'r', group: 'g', solo: false }));
  assert.ok(group !== undefined);
  const usual: Circumstances = {
    now: T0 + 100,
    caughtUp: true,
    runEnded: false,
    runDeleted: false,
    since: T0,
    isSealed: false,
    sealReason: null,
    owed: () => NOTHING_OWED,
    failure: null,
  };
  return judgeGroup(group, { ...POLICY, ...policy }, { ...usual, ...at }, (key) => found.rollouts.get(key));
}

const traces = (verdict: Verdict): string[] => (verdict.kind === 'ready' ? verdict.members.map(({ trace }) => trace) : []);
const told = (verdict: Verdict): string =>
  verdict.kind === 'wait' ? `wait ${verdict.waitsFor.join()}` : `${verdict.kind} ${verdict.reason}`;

describe('an open group', () => {
  test('is ready when it is complete and scored, members in the order in which they started', () => {
    const verdict = judge(facts(rollout('b', { at: 5 }), rollout('a', { at: 1 })));
    assert.deepEqual([told(verdict), traces(verdict)], ['ready complete', ['t-a', 't-b']]);
  });

  test('counts failed and cancelled rollouts towards its size; failed ones stay as members without a say', () => {
    const verdict = judge(
      facts(
        rollout('a', { size: 3 }),
        rollout('b', { size: 3, ends: 'failed', score: 'none' }),
        rollout('c', { size: 3, ends: 'cancelled' }),
      ),
    );
    assert.deepEqual([told(verdict), traces(verdict)], ['ready complete', ['t-a', 't-b']]);
  });

  test('does not count what was superseded or tried again', () => {
    assert.match(told(judge(facts(rollout('a'), rollout('b', { ends: 'superseded' })))), /^wait 1 of 2 rollouts/);
    const tried = facts(
      rollout('a'),
      rollout('b', { ends: 'failed', score: 'none' }),
      rollout('c', { attempt: 1, ends: 'running', score: 'none' }),
    );
    assert.match(told(judge(tried)), /^wait 1 of 2 rollouts/);
  });

  test('fails when too few are usable, or none', () => {
    assert.equal(told(judge(facts(rollout('a', { ends: 'failed' }), rollout('b', { ends: 'failed' })))), 'fail too_small');
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { ends: 'failed' })), { minGroupSize: 2 })), 'fail too_small');
  });

  test('waits for the rest until the deadline, then takes what is there or fails; only when the log was read to its end', () => {
    const half = facts(rollout('a'), rollout('b', { ends: 'running', score: 'none' }));
    assert.match(told(judge(half)), /^wait 1 of 2 rollouts to end \(1 running\)/);
    assert.equal(told(judge(half, {}, { now: T0 + 1000 })), 'ready deadline');
    assert.match(told(judge(half, {}, { now: T0 + 1000, caughtUp: false })), /^wait/);
    assert.equal(told(judge(half, { minGroupSize: 2 }, { now: T0 + 1000 })), 'fail deadline');
    assert.equal(told(judge(half, {}, { now: T0 + 999 })).startsWith('wait'), true);
  });

  test('of unknown size waits for group.sealed or the deadline', () => {
    const unknown = [rollout('a', { size: null }), rollout('b', { size: null })];
    assert.match(told(judge(facts(...unknown))), /^wait group.sealed or the deadline/);
    assert.equal(told(judge(facts(...unknown, SEALED(2)))), 'ready complete');
    assert.match(told(judge(facts(...unknown, SEALED(3)))), /^wait 1 of 3/);
    assert.equal(told(judge(facts(...unknown), { size: 2 })), 'ready complete');
    assert.equal(told(judge(facts(...unknown), {}, { now: T0 + 1000 })), 'ready deadline');
    assert.equal(told(judge(facts(...unknown, SEALED(2, 'cancelled')))), 'fail cancelled');
  });

  test('with more rollouts than its size takes those that ended first, or all', () => {
    const three = [rollout('a', { at: 20 }), rollout('b', { at: 0 }), rollout('c', { at: 40 })];
    assert.deepEqual(traces(judge(facts(...three))), ['t-b', 't-a']);
    assert.deepEqual(traces(judge(facts(...three), { redundant: 'all' })), ['t-b', 't-a', 't-c']);
  });

  test('ends with its run when nobody runs any more', () => {
    const half = facts(rollout('a', { size: 5 }));
    assert.equal(told(judge(half, {}, { runEnded: true })), 'ready run_ended');
    assert.match(told(judge(half, {}, { runEnded: true, caughtUp: false })), /^wait/);
    assert.match(
      told(judge(facts(rollout('a', { size: 5 }), rollout('b', { size: 5, ends: 'running' })), {}, { runEnded: true })),
      /^wait/,
    );
    assert.equal(told(judge(half, {}, { runDeleted: true })), 'fail run_deleted');
  });

  test('that was sealed and has no rollout that may enter is given up at its deadline or with its run: nobody ends it otherwise', () => {
    const evals = facts(SEALED(2), rollout('a', { work: 'eval' }), rollout('b', { work: 'eval' }));
    assert.match(told(judge(evals)), /^wait 2 of 2 rollouts/);
    assert.equal(told(judge(evals, {}, { now: T0 + 1000 })), 'fail no_rollouts');
    assert.match(told(judge(evals, {}, { now: T0 + 1000, caughtUp: false })), /^wait/);
    assert.equal(told(judge(evals, {}, { runEnded: true })), 'fail no_rollouts');
    const selves = facts(rollout('a', { mirrorOf: 'b' }), rollout('b', { mirrorOf: 'a' }));
    assert.equal(told(judge(selves, {}, { now: T0 + 1000 })), 'fail no_rollouts');
  });

  test('leaves a mirror out as soon as its original is there', () => {
    const verdict = judge(facts(rollout('a'), rollout('b'), rollout('m', { mirrorOf: 'a' })), { redundant: 'all' });
    assert.deepEqual(traces(verdict), ['t-a', 't-b']);
    assert.match(told(judge(facts(rollout('a'), rollout('m', { mirrorOf: 'a' })))), /^wait 1 of 2/);
  });

  test('never takes evals, nor rollouts that do not say what they are for', () => {
    const found = facts(rollout('a', { work: 'eval' }), rollout('b', { work: 'none' }), rollout('c'));
    assert.deepEqual([found.rollouts.size, found.skipped.work, found.skipped.unlabelled], [1, 1, 1]);
    assert.match(told(judge(found)), /^wait 1 of 2/);
  });

  test('is sealed while scores are missing, null is missing and 0 is not', () => {
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { score: 'none' })))), 'seal complete');
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { score: null })))), 'seal complete');
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { score: 0 })))), 'ready complete');
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { name: 'other' })), { requiredRewards: ['correct'] })), 'seal complete');
    assert.equal(told(judge(facts(rollout('a'), rollout('b', { score: 'none' })), { needsRewards: false })), 'ready complete');
    assert.equal(
      told(judge(facts(rollout('a'), rollout('b')), {}, { owed: () => ({ ...NOTHING_OWED, rewards: ['judge'] }) })),
      'seal complete',
    );
  });
});

describe('a sealed group', () => {
  const at = { since: T0 + 100, isSealed: true, sealReason: 'deadline' };
  const half = (): FeedFacts => facts(rollout('a'), rollout('b', { score: 'none' }));

  test('waits for scores, then is ready for the reason it was sealed for', () => {
    assert.equal(told(judge(half(), {}, at)), 'wait reward any reward');
    assert.equal(told(judge(half(), { requiredRewards: ['correct', 'style'] }, at)), 'wait reward style,reward correct');
    assert.equal(told(judge(facts(rollout('a'), rollout('b')), {}, at)), 'ready deadline');
    assert.equal(
      told(judge(facts(rollout('a'), rollout('b')), {}, { ...at, owed: () => ({ ...NOTHING_OWED, rewards: ['the judge'] }) })),
      'wait the judge',
    );
  });

  test('gives reducers and teachers as long again as the members had, then fails for a comparison and goes on without a teacher', () => {
    const whole = facts(rollout('a'), rollout('b'));
    const owes = (owed: Partial<Owed>, now: number, more: Partial<Circumstances> = {}, policy: Partial<GroupPolicy> = {}): string =>
      told(judge(whole, policy, { ...at, owed: () => ({ ...NOTHING_OWED, ...owed }), now: T0 + now, ...more }));
    const [judged, taught] = [{ rewards: ['judge'] }, { references: ['teacher'] }];
    // since T0 + 100, twice 500
    assert.deepEqual([owes(judged, 600), owes(judged, 1099), owes(judged, 1100)], ['wait judge', 'wait judge', 'fail group_reward_late']);
    assert.deepEqual([owes(taught, 1099), owes(taught, 1100)], ['wait teacher', 'ready deadline']);
    assert.equal(owes(taught, 1100, {}, { unscored: 'fail' }), 'fail reference_late');
    assert.equal(owes(taught, 1100, { caughtUp: false }), 'wait teacher');
    // what will never come is not waited for
    assert.equal(owes(judged, 101, { failure: 'judge_unclear' }), 'fail judge_unclear');
    assert.equal(owes(taught, 101, { failure: 'teacher_answer' }), 'ready deadline');
    const waiting = judge(whole, {}, { ...at, owed: () => ({ ...NOTHING_OWED, ...judged }), now: T0 + 600 });
    assert.equal(waiting.kind === 'wait' ? waiting.until : null, T0 + 1100);
  });

  test('at its deadline leaves the unscored out, or fails', () => {
    const late = { ...at, now: T0 + 600 };
    assert.deepEqual(traces(judge(half(), {}, late)), ['t-a']);
    assert.equal(told(judge(half(), { unscored: 'fail' }, late)), 'fail unscored');
    assert.equal(told(judge(half(), { minGroupSize: 2 }, late)), 'fail unscored');
    assert.match(told(judge(half(), {}, { ...late, caughtUp: false })), /^wait/);
  });
});

test('a score sent again after its correction does not undo it', () => {
  const sent = rollout('a', { score: 0.25 });
  const [first] = sent.filter(({ type }) => type === 'reward.assigned') as [TapedeckEvent];
  const corrected = event('reward.assigned', { run: 'r', group: 'g', rollout: 'a', trace: 't-a' }, T0 + 40, {
    scope: 'trace',
    name: 'correct',
    score: 1,
  });
  const found = facts(sent, [corrected, first]);
  const [only] = [...found.rollouts.values()];
  assert.deepEqual(only?.rewards.map(({ score }) => score), [0.25, 1]); // prettier-ignore
});

test('every state but the last two has a way out that needs no producer', () => {
  for (const state of GROUP_STATES) {
    const out = (['ready', 'fail'] satisfies GroupSignal[]).filter((signal) => nextState(state, signal) !== null);
    assert.deepEqual(out.length > 0, !['cut', 'failed'].includes(state), state);
  }
  assert.equal(nextState('cut', 'return'), 'ready');
  assert.equal(nextState('cut', 'fail'), null, 'what a batch holds is never given up');
});
