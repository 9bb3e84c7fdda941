/** Leases, commits and rewinds as the log tells of them: what counts and what is ignored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkEvent } from '../../events/check.ts';
import { applyDecision, type FeedEvent, type Ignored } from './apply-decision.ts';
import { newDecisions, type DecisionState } from './decision-state.ts';

const T0 = 1_750_000_000_000_000;
const id = (n: number): string => String(n).padStart(64, '0');

type Log = {
  readonly state: DecisionState;
  /** `at`: the offset whose event it is; another than the next for one that is in the log again. */
  readonly say: (type: FeedEvent['type'], data: object, time?: number, at?: number) => 'counts' | Ignored;
  readonly next: () => number;
};

function feed(more: Partial<Pick<DecisionState, 'cutAhead' | 'maxTimesTrained' | 'keepBatches'>> = {}): Log {
  const state = newDecisions({
    feed: 'f',
    project: 'default',
    spec: {},
    specHash: 's',
    created: T0,
    start: [0],
    maxTimesTrained: 1,
    keepBatches: 2,
    cutAhead: 1,
    ...more,
  });
  let offset = 10;
  return {
    state,
    next: () => offset,
    say: (type, data, time = T0, at = offset) => {
      const seed = String(at).padStart(12, '0');
      const checked = checkEvent({
        v: 1,
        id: `00000000-0000-8000-8000-${seed}`,
        type,
        project: 'default',
        run: 'r',
        time,
        data: { feed: 'f', timeline: state.timeline, ...data },
      });
      assert.ok(checked.ok, JSON.stringify(checked));
      const verdict = applyDecision(checked.value as FeedEvent, offset++, { state, floors: [] });
      return verdict.counts ? 'counts' : verdict.why;
    },
  };
}

/** Makes a group ready; returns the offset that names it. */
function ready(log: Log, group: string): number {
  const at = log.next();
  assert.equal(log.say('group.ready', { group, members: [{ rollout: `r-${group}`, trace: 't' }], rewardPositions: [100] }), 'counts');
  return at;
}

function cut(log: Log, n: number, groups: number[]): 'counts' | Ignored {
  return log.say('batch.cut', { n, batchId: id(n), previous: n === 1 ? null : id(n - 1), algorithm: 'grpo', groups });
}

const lease = (log: Log, n: number, holder: string, more: object = {}, time = T0): 'counts' | Ignored =>
  log.say('batch.leased', { n, batchId: id(n), holder, planId: 'p', step: n, expires: time + 100, ...more }, time);
const commit = (log: Log, n: number, holder: string, token: number): 'counts' | Ignored =>
  log.say('batch.committed', { n, batchId: id(n), holder, step: n, token });

test('a batch is cut once, in order, of groups that are ready and not used up', () => {
  const log = feed({ cutAhead: 2 });
  const [a, b] = [ready(log, 'a'), ready(log, 'b')];
  assert.equal(cut(log, 2, [a]), 'not_next');
  assert.equal(cut(log, 1, [a, a]), 'pool');
  assert.equal(cut(log, 1, [a, 9999]), 'pool');
  assert.equal(cut(log, 1, [a]), 'counts');
  assert.equal(cut(log, 1, [b]), 'not_next', 'the first in log order wins');
  assert.equal(log.say('batch.cut', { n: 2, batchId: id(2), previous: id(7), algorithm: 'grpo', groups: [b] }), 'chain_mismatch');
  assert.equal(cut(log, 2, [a]), 'pool');
  assert.equal(cut(log, 2, [b]), 'counts');
  assert.equal(cut(log, 3, [ready(log, 'c')]), 'cut_ahead');
});

test('a group may be in as many batches as the spec says', () => {
  const log = feed({ cutAhead: 3, maxTimesTrained: 2 });
  const a = ready(log, 'a');
  assert.deepEqual([cut(log, 1, [a]), cut(log, 2, [a]), cut(log, 3, [a])], ['counts', 'counts', 'pool']);
});

test('one lease at a time: the holder renews, others wait until it expires, a newer lease voids the older token', () => {
  const log = feed();
  cut(log, 1, [ready(log, 'a')]);
  assert.equal(lease(log, 2, 'x'), 'not_next');
  assert.equal(log.say('batch.leased', { n: 1, batchId: id(1), holder: 'x', planId: 'p', step: 2, expires: T0 }), 'not_next');
  const token = log.next();
  assert.equal(lease(log, 1, 'x'), 'counts');
  assert.equal(log.state.lease?.token, token);
  assert.equal(lease(log, 1, 'y'), 'lease_held');
  assert.equal(lease(log, 1, 'y', { renews: token }), 'stale_token');
  assert.equal(lease(log, 1, 'x', { renews: token }), 'counts');
  assert.equal(log.state.lease?.token, token, 'renewing keeps the token');
  assert.equal(commit(log, 1, 'y', token), 'stale_token');
  assert.equal(lease(log, 1, 'y', {}, T0 + 99), 'lease_held');
  const taken = log.next();
  assert.equal(lease(log, 1, 'y', {}, T0 + 100), 'counts', 'it has expired');
  assert.equal(commit(log, 1, 'x', token), 'stale_token', 'a zombie');
  assert.equal(commit(log, 1, 'y', taken), 'counts');
  assert.equal(commit(log, 1, 'y', taken), 'not_next', 'once');
});

test('a lease that is in the log twice is one: the token stays, also after it was renewed or its batch was committed', () => {
  const log = feed({ cutAhead: 2 });
  cut(log, 1, [ready(log, 'a')]);
  cut(log, 2, [ready(log, 'b')]);
  const token = log.next();
  const data = { n: 1, batchId: id(1), holder: 'x', planId: 'p', step: 1, expires: T0 + 100 };
  assert.equal(log.say('batch.leased', data), 'counts');
  assert.equal(log.say('batch.leased', data, T0, token), 'repeated');
  assert.equal(log.state.lease?.token, token);
  assert.equal(commit(log, 1, 'x', token), 'counts');
  assert.equal(log.say('batch.leased', data, T0, token), 'not_next');
});

test('a commit names its holder, its batch and its token: one that fits another in part does not count', () => {
  const log = feed({ cutAhead: 2 });
  cut(log, 1, [ready(log, 'a')]);
  cut(log, 2, [ready(log, 'b')]);
  const token = log.next();
  lease(log, 1, 'x');
  assert.equal(commit(log, 1, 'y', token), 'stale_token', 'the token of another');
  assert.equal(commit(log, 1, 'x', token + 1), 'stale_token');
  assert.equal(commit(log, 1, 'x', token), 'counts');
  assert.equal(commit(log, 2, 'x', token), 'stale_token', 'the lease was of batch 1');
  assert.equal(lease(log, 2, 'x', { renews: token }), 'stale_token', 'it is not renewed for another batch');
});

test('a rewind gives checkpoints, order and groups back as they were at its batch', () => {
  const log = feed({ cutAhead: 8, maxTimesTrained: 2 });
  const [a, b] = [ready(log, 'a'), ready(log, 'b')];
  const first = log.next();
  cut(log, 1, [a]);
  const orders = (): Record<string, number> => Object.fromEntries([...log.state.groups.values()].map(({ name, order }) => [name.group, order])); // prettier-ignore
  assert.deepEqual(orders(), { a: first, b });
  cut(log, 2, [b]);
  cut(log, 3, [a]);
  for (const n of [1, 2]) {
    const token = log.next();
    lease(log, n, 'x');
    commit(log, n, 'x', token);
    assert.equal(log.say('feed.checkpointed', { n, batchId: id(n), uri: `u${n}` }), 'counts');
  }
  assert.equal(
    log.say('feed.checkpointed', { n: 1, batchId: id(1), uri: 'elsewhere' }),
    'counts',
    'one batch may have several checkpoints',
  );
  assert.equal(log.say('feed.rewound', { timeline: 1, from: 2, to: 1, mode: 'recut' }), 'counts');
  assert.deepEqual(log.state.checkpoints.map(({ uri }) => uri), ['u1', 'elsewhere']); // prettier-ignore
  assert.deepEqual(orders(), { a: first, b }, 'a stands where batch 1 put it, b where it became ready');
  assert.deepEqual([...log.state.groups.values()].map(({ name, cuts }) => [name.group, cuts]), [['a', [1]], ['b', []]]); // prettier-ignore
});

test('a second rewind gives up what the first one wanted again', () => {
  const log = feed({ cutAhead: 8 });
  const groups = ['a', 'b', 'c'].map((group) => ready(log, group));
  groups.forEach((group, i) => cut(log, i + 1, [group]));
  assert.equal(log.say('feed.rewound', { timeline: 1, from: 0, to: 0, mode: 'replay' }), 'counts');
  assert.equal(cut(log, 1, [groups[0] as number]), 'counts');
  assert.equal(log.say('feed.rewound', { timeline: 2, from: 0, to: 0, mode: 'replay' }), 'counts');
  assert.deepEqual(log.state.replay.map(({ n }) => n), [1, 2, 3], 'those not cut again yet too'); // prettier-ignore
  assert.equal(log.say('feed.rewound', { timeline: 3, from: 0, to: 0, mode: 'recut' }), 'counts');
  assert.deepEqual([log.state.replay.length, [...log.state.groups.values()].map(({ state }) => state)], [0, ['ready', 'ready', 'ready']]);
});

test('what is far below the last commit is let go, but for groups that a later batch holds', () => {
  const log = feed({ cutAhead: 8, maxTimesTrained: 2, keepBatches: 1 });
  const [a, b] = [ready(log, 'a'), ready(log, 'b')];
  cut(log, 1, [a, b]);
  cut(log, 2, [a]);
  cut(log, 3, [b]);
  const kept = [[['a', 'b'], [1, 2, 3]], [['a', 'b'], [2, 3]], [['b'], [3]]]; // prettier-ignore
  for (const n of [1, 2, 3]) {
    const token = log.next();
    lease(log, n, 'x');
    commit(log, n, 'x', token);
    assert.deepEqual([[...log.state.groups.values()].map(({ name }) => name.group), [...log.state.batches.keys()]], kept[n - 1]); // prettier-ignore
  }
});

test('expiry alone does not invalidate a holder', () => {
  const log = feed();
  cut(log, 1, [ready(log, 'a')]);
  const token = log.next();
  lease(log, 1, 'x');
  assert.equal(log.say('batch.committed', { n: 1, batchId: id(1), holder: 'x', step: 1, token }, T0 + 1_000_000), 'counts');
});

test('a rewind starts a timeline: the lease is void, later batches are cut again as they were, or their groups are free again', () => {
  for (const mode of ['replay', 'recut'] as const) {
    const log = feed({ cutAhead: 3 });
    const groups = ['a', 'b', 'c'].map((group) => ready(log, group));
    groups.forEach((group, i) => assert.equal(cut(log, i + 1, [group]), 'counts'));
    const token = log.next();
    lease(log, 1, 'x');
    commit(log, 1, 'x', token);
    lease(log, 2, 'x');
    assert.equal(log.say('feed.rewound', { timeline: 1, from: 0, to: 0, mode }), 'not_next', 'it names another last commit');
    assert.equal(log.say('feed.rewound', { timeline: 2, from: 1, to: 0, mode }), 'timeline');
    assert.equal(log.say('feed.rewound', { timeline: 1, from: 1, to: 0, mode }), 'counts');
    assert.deepEqual([log.state.timeline, log.state.committed, log.state.lease, log.state.chain.length], [1, 0, null, 0]);
    assert.equal(log.say('batch.committed', { timeline: 0, n: 1, batchId: id(1), holder: 'x', step: 1, token }), 'timeline');
    if (mode === 'replay') {
      assert.equal(cut(log, 1, [groups[1] as number]), 'chain_mismatch', 'the id, but groups that were not in it');
      assert.equal(cut(log, 1, [groups[0] as number]), 'counts');
      assert.equal(
        log.say('batch.cut', { n: 2, batchId: id(9), previous: id(1), algorithm: 'grpo', groups: [groups[1]] }),
        'chain_mismatch',
      );
      assert.deepEqual(log.state.replay.map(({ n }) => n), [2, 3]); // prettier-ignore
    } else {
      assert.equal(cut(log, 1, [groups[2] as number, groups[0] as number]), 'counts');
      assert.equal(cut(log, 2, [groups[2] as number]), 'pool');
    }
  }
});

test('a checkpoint counts for what is committed; a resumed commit needs no token; a deleted feed takes nothing', () => {
  const log = feed();
  cut(log, 1, [ready(log, 'a')]);
  assert.equal(log.say('feed.checkpointed', { n: 1, batchId: id(1) }), 'not_committed');
  lease(log, 1, 'x');
  assert.equal(log.say('batch.committed', { n: 1, batchId: id(2), holder: 'x', step: 1, resumed: true }), 'chain_mismatch');
  assert.equal(log.say('batch.committed', { n: 1, batchId: id(1), holder: 'x', step: 1, resumed: true }), 'counts');
  assert.equal(log.state.lease, null, 'whoever held it must resume too');
  assert.equal(log.say('feed.checkpointed', { n: 1, batchId: id(1), uri: 'u' }), 'counts');
  assert.equal(log.say('feed.checkpointed', { n: 1, batchId: id(1), uri: 'u' }), 'repeated');
  assert.equal(log.say('batch.released', { n: 1, batchId: id(1), holder: 'x', token: 1 }), 'stale_token');
  assert.equal(log.say('feed.deleted', {}), 'counts');
  assert.equal(log.say('group.ready', { group: 'z', members: [] }), 'deleted');
});

test('groups: each once, failed ones never again, what was dropped is counted once', () => {
  const log = feed();
  const closed = (group: string, outcome: string): 'counts' | Ignored =>
    log.say('group.closed', { group, outcome, reason: 'deadline', rollouts: [{ rollout: `r-${group}`, length: 5 }] });
  assert.deepEqual(
    [closed('a', 'sealed'), closed('a', 'sealed'), closed('a', 'failed'), closed('a', 'failed')],
    ['counts', 'group_state', 'counts', 'group_state'],
  );
  assert.equal(log.say('group.ready', { group: 'a', members: [] }), 'group_state');
  assert.equal(log.state.gone.size, 1);
  const dropped = (): 'counts' | Ignored => log.say('sample.dropped', { run: 'r', rollout: 'late-one', reason: 'late', length: 9 });
  assert.deepEqual([dropped(), dropped()], ['counts', 'repeated']);
  assert.deepEqual(log.state.totals.dropped.get('late'), { rollouts: 1, tokens: 9 });
  assert.deepEqual(log.state.totals.byLength, [0, 0, 0, 1, 1]);
  const b = ready(log, 'b');
  cut(log, 1, [b]);
  assert.equal(closed('b', 'failed'), 'group_state', 'a batch holds it');
});
