import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { rolloutView, type RolloutView } from './rollout-view.ts';
import { compared, readScores, rewardData } from './scores.ts';
import { changesOf, rescoreTable } from './table.ts';

const source = { kind: 'code', name: 'judge', version: 'v2' } as const;
const base = { v: 1, project: 'default', run: 'run', rollout: 'r', time: 1 };
const node = (index: number, parent: number | null, role: string, content: string): object =>
  ({ ...base, id: `n${index}`, trace: 't', type: 'node.appended', data: { index, parent, role, sampled: role === 'assistant', message: { role, content } } }); // prettier-ignore
const reward = (id: string, data: object, trace?: string): object => ({
  ...base,
  id,
  trace,
  type: 'reward.assigned',
  data: { scope: 'rollout', ...data },
});
const EVENTS = [
  { ...base, id: 's', type: 'rollout.started', data: { task: { key: 'k' }, group: { id: 'g' } } },
  { ...base, id: 'ts', trace: 't', type: 'trace.started', data: { agent: { name: 'solver' } } },
  node(0, null, 'user', 'hi'), node(1, 0, 'assistant', 'one'), node(2, 0, 'assistant', 'two'),
  reward('r1', { name: 'ok', score: 0 }), reward('r2', { name: 'ok', score: 0.5, weight: 2, source: { kind: 'human' }, supersedes: 'r1' }),
  reward('r3', { scope: 'trace', name: 'ok', score: null }, 't'),
  { ...base, id: 'e', type: 'rollout.ended', data: { ok: true } },
] as unknown as TapedeckEvent[]; // prettier-ignore

function view(): RolloutView {
  const made = rolloutView(EVENTS);
  assert.ok(made);
  return made;
}

function rescored(value: unknown) {
  const scores = readScores(value, view());
  assert.ok(scores.ok, scores.ok ? '' : scores.error.message);
  return compared(scores.value, view(), source);
}

test('a rollout as a module gets it: conversation to the last leaf, rewards as they stand', () => {
  const { group, traces, rewards, task } = view();
  assert.deepEqual([group, task], ['g', { key: 'k' }]);
  assert.deepEqual(traces[0]?.conversation, [{ role: 'user', content: 'hi' }, { role: 'assistant', content: 'two' }]); // prettier-ignore
  assert.deepEqual(rewards.map(({ scope, name, score, event }) => [scope, name, score, event]), [['rollout', 'ok', 0.5, 'r2'], ['trace', 'ok', null, 'r3']]); // prettier-ignore
  assert.equal(rolloutView(EVENTS.slice(1)), null);
});

test('a new score supersedes the one that stands, and keeps its weight; null, NaN and 0 are three things', () => {
  const [first, second, third] = rescored([{ name: 'ok', score: 1 }, { name: 'ok', scope: 'trace', score: 0 }, { name: 'new', score: NaN, weight: 0 }]); // prettier-ignore
  assert.deepEqual(rewardData(first!, source), { scope: 'rollout', name: 'ok', score: 1, weight: 2, source, supersedes: 'r2' });
  assert.deepEqual(rewardData(second!, source), { scope: 'trace', name: 'ok', score: 0, source, supersedes: 'r3' });
  assert.deepEqual(rewardData(third!, source), { scope: 'rollout', name: 'new', score: NaN, weight: 0, source });
  assert.equal(second!.score.trace, 't');
});

test('the same score by the same version stands; by another version it is new', () => {
  const events = [...EVENTS, reward('r4', { name: 'ok', score: 1, weight: 2, source }) as TapedeckEvent];
  const now = rolloutView(events) as RolloutView;
  const isSame = (score: number, by: typeof source | { kind: 'code'; name: 'judge'; version: 'v3' }): boolean | undefined => {
    const scores = readScores({ name: 'ok', score }, now);
    return scores.ok ? compared(scores.value, now, by)[0]?.isSame : undefined;
  };
  assert.deepEqual([isSame(1, source), isSame(0.9, source), isSame(1, { ...source, version: 'v3' })], [true, false, false]);
});

test('answers that are no scores are refused by name', () => {
  for (const [value, message] of [
    [{ name: 'x', score: '1' }, /score/],
    [{ name: 'x' }, /score/],
    [{ score: 1 }, /name/],
    [{ name: 'x', score: 1, scope: 'run' }, /scope/],
    [{ name: 'x', score: 1, scope: 'node', node: 9 }, /no node 9/],
    [{ name: 'x', score: 1, scope: 'trace', trace: 'other' }, /name one of the traces/],
    [
      [
        { name: 'x', score: 1 },
        { name: 'x', score: 2 },
      ],
      /given twice/,
    ],
    [{ name: 'x', score: 1, extras: 1 }, /extras/],
  ] as const) {
    const scores = readScores(value, view());
    assert.match(scores.ok ? '' : scores.error.message, message);
  }
  assert.deepEqual(readScores(null, view()), { ok: true, value: [] });
});

test('before and after are compared over the same rollouts', () => {
  const all = rescored([{ name: 'ok', score: 1 }, { name: 'ok', scope: 'trace', score: 0.25 }, { name: 'new', score: null }]); // prettier-ignore
  assert.deepEqual(changesOf(all), [
    { name: 'ok', scored: 2, added: 0, raised: 1, lowered: 0, unchanged: 0, meanBefore: 0.5, meanAfter: 1, paired: 1 },
    { name: 'new', scored: 1, added: 1, raised: 0, lowered: 0, unchanged: 0, meanBefore: null, meanAfter: null, paired: 0 },
  ]);
  assert.match(rescoreTable(all, source), /\| r \| t \| ok \| null \| – \| 0\.25 \| changed \|/);
});
