/** What a batch is filled with, over a real log: whole groups, oldest ready first, by each unit; batches cut together; groups trained twice; the end; the groups of another feed; who comes late. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import type { TapedeckEvent } from '../../events/registry.ts';
import type { Row } from '../cut/row.ts';
import { planRequest } from '../planner/plan-request.ts';
import { lastCut } from './decision-state.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest } from './feed-under-test.ts';
import { event, f32, T0, u32, u8 } from './feed-world.ts';
import { commitBatch, leaseBatch } from './lease.ts';
import { resumeFeed } from './resume.ts';
import type { FeedSpecInput } from './spec.ts';

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

async function start(): Promise<FeedsUnderTest> {
  const folder = temporaryFolder();
  const feeds = await feedsUnderTest(folder.path);
  closers.push(folder.remove, () => feeds.close());
  return feeds;
}

type Given = { readonly size?: number; readonly version?: number; readonly at?: number; readonly from?: number };

/** A finished group: a rollout of 2 prompt tokens and 3 sampled ones for each reward. */
function group(name: string, rewards: readonly number[], { size = rewards.length, version = 0, at = 0, from = 0 }: Given = {}): TapedeckEvent[] {
  return rewards.flatMap((score, k) => {
    const i = from + k;
    const ids = { run: 'r', group: name, rollout: `${name}-${i}` };
    const trace = { ...ids, trace: `t-${name}-${i}` };
    let time = T0 + at + i * 10;
    return [
      event('rollout.started', ids, time++, { env: { id: 'e' }, task: { key: 'k' }, group: { id: name, size }, work: { type: 'train' }, policyVersion: version }),
      event('trace.started', trace, time++, { agent: { name: 'a', trainable: true } }),
      event('node.appended', trace, time++, { index: 0, parent: null, role: 'user', sampled: false, tokens: { ids: u32([1, 2]), mask: u8([0, 0]) } }),
      event('node.appended', trace, time++, { index: 1, parent: 0, role: 'assistant', sampled: true, call: 0, tokens: { ids: u32([3, 4, 5]), mask: u8([1, 1, 1]), logprobs: f32([-1, -1, -1]) } }),
      event('call.recorded', trace, time++, { index: 0, node: 1, policyVersion: version, sampling: { temperature: 1 }, logprobsMode: 'processed' }),
      event('reward.assigned', trace, time++, { scope: 'trace', name: 'x', score }),
      event('trace.ended', trace, time++, { ok: true }),
      event('rollout.ended', ids, time++, { ok: true }),
    ];
  });
} // prettier-ignore

const ENDED = event('run.ended', { run: 'r' }, T0 + 99_000_000, { status: 'completed' });
const SPEC = {
  maxRowTokens: 16,
  batch: { by: 'groups', size: 1 },
  runs: ['r'],
  staleness: { maxOffPolicySteps: null },
} satisfies FeedSpecInput;

async function create(feeds: FeedsUnderTest, spec: Partial<FeedSpecInput>, feed = 'f'): Promise<void> {
  await feeds.directory.create({ project: 'default', feed }, { ...SPEC, ...spec });
}

/** One group after the other, each when the one before is ready: their order is known. */
async function inOrder(feeds: FeedsUnderTest, groups: readonly TapedeckEvent[][], feed = 'f'): Promise<void> {
  const before = (await feeds.until(feed, ({ fold }) => fold)).decisions.readyAt.size;
  for (const [i, events] of groups.entries()) {
    await feeds.append(events);
    await feeds.until(feed, ({ fold }) => (fold?.decisions.readyAt.size ?? 0) > before + i);
  }
}

async function rowsOf(feeds: FeedsUnderTest, n: number, feed = 'f'): Promise<readonly Row[]> {
  await feeds.until(feed, ({ fold }) => fold !== null && lastCut(fold.decisions) >= n);
  const link = feeds.engine(feed).fold?.decisions.chain[n - 1];
  const rows = link === undefined ? null : await feeds.engine(feed).rowsOf(link);
  assert.ok(rows !== null);
  return rows;
}

const groupsOf = async (feeds: FeedsUnderTest, n: number, feed = 'f'): Promise<string[]> => [
  ...new Set((await rowsOf(feeds, n, feed)).map((row) => row.group)),
];

async function train(feeds: FeedsUnderTest, n: number, feed = 'f'): Promise<void> {
  await rowsOf(feeds, n, feed);
  const plan = planRequest.parse({ world: 1, maxTokens: 64 });
  const leased = await leaseBatch({ holder: 't', step: n, ttlSeconds: 60, plan, token: null }, feeds.requester(feed));
  assert.ok(leased !== null);
  const { batchId, token } = leased.lease;
  await commitBatch({ n, batchId, token, step: n }, feeds.requester(feed));
}

const settled = (feeds: FeedsUnderTest, feed = 'f'): Promise<unknown> =>
  feeds.until(feed, ({ view }) => view.caughtUp && view.wait !== null);
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `g${i}`);

describe('a batch', () => {
  for (const [by, size, expected] of [
    ['groups', 2, [['g0', 'g1'], ['g2', 'g3']]],
    ['rollouts', 4, [['g0', 'g1'], ['g2', 'g3']]],
    ['rollouts', 5, [['g0', 'g1', 'g2'], ['g3', 'g4', 'g5']]],
    ['tokens', 20, [['g0', 'g1'], ['g2', 'g3']]],
    ['tokens', 21, [['g0', 'g1', 'g2'], ['g3', 'g4', 'g5']]],
  ] as const) {
    test(`of ${size} ${by} takes whole groups, oldest ready first, and stops when it is full`, async () => {
      const feeds = await start();
      await create(feeds, { batch: { by, size }, cutAhead: 2 });
      // a group of which nothing ships counts for nothing and is listed in the next batch
      await inOrder(feeds, [group('equal', [1, 1]), ...names(6).map((name) => group(name, [1, 0]))]);
      assert.deepEqual([await groupsOf(feeds, 1), await groupsOf(feeds, 2)], expected);
      const record = feeds.engine('f').fold?.decisions.batches.get(1);
      assert.deepEqual(record?.counts.left, { zero_advantage: { rows: 2, tokens: 10 } });
    });
  } // prettier-ignore

  test('is cut together with the next ones where the spec says so, and not before there is enough for all', async () => {
    const feeds = await start();
    await create(feeds, { batch: { by: 'rollouts', size: 2 }, stepsPerCut: 2, cutAhead: 2 });
    await inOrder(feeds, [group('g0', [1, 0])]);
    await settled(feeds);
    const { view, fold } = feeds.engine('f');
    assert.deepEqual([fold?.decisions.chain.length, view.wait?.have, view.wait?.need], [0, 2, 4]);
    await inOrder(feeds, [group('g1', [1, 0])]);
    assert.deepEqual([await groupsOf(feeds, 1), await groupsOf(feeds, 2)], [['g0'], ['g1']]);
    await train(feeds, 1);
    await train(feeds, 2);
    await inOrder(feeds, [group('g2', [1, 0])]);
    await feeds.until('f', ({ view: now }) => now.wait?.n === 3 && now.wait.have === 2);
    assert.equal(feeds.engine('f').view.wait?.need, 4);
  });

  test('may hold a group again: one that was taken goes to the end of the queue', async () => {
    const feeds = await start();
    await feeds.append(names(3).flatMap((name, i) => group(name, [1, 0], { at: i * 1000 })));
    await create(feeds, { batch: { by: 'groups', size: 2 }, maxTimesTrained: 2, cutAhead: 4 }); // all are ready before the first is cut
    const batches = [await groupsOf(feeds, 1), await groupsOf(feeds, 2), await groupsOf(feeds, 3)].map((each) => each.toSorted().join()); // prettier-ignore
    assert.deepEqual(batches.toSorted(), ['g0,g1', 'g0,g2', 'g1,g2']);
    await settled(feeds);
    assert.equal(feeds.engine('f').fold?.decisions.chain.length, 3, 'each was taken twice');
  });

  test('at the end of its run holds what is left, or nothing: then that is given up by name', async () => {
    for (const flush of [true, false]) {
      const feeds = await start();
      await create(feeds, { batch: { by: 'groups', size: 2 }, flush, cutAhead: 4 });
      await inOrder(feeds, names(3).map((name) => group(name, [1, 0]))); // prettier-ignore
      await feeds.append([ENDED]);
      await feeds.until('f', ({ view }) => view.ended);
      const { decisions } = (await feeds.until('f', ({ fold }) => fold)) as never as { decisions: { chain: unknown[]; totals: { failedGroups: Map<string, number> } } }; // prettier-ignore
      assert.equal(decisions.chain.length, flush ? 2 : 1);
      if (flush) assert.deepEqual(await groupsOf(feeds, 2), ['g2']);
      assert.deepEqual([...decisions.totals.failedGroups], flush ? [] : [['end_of_run', 1]]);
    }
  });
});

describe('a group', () => {
  test('of a run that is deleted is given up while it waits, and stays where a batch holds it', async () => {
    const feeds = await start();
    await create(feeds, {});
    await inOrder(feeds, [group('g0', [1, 0]), group('g1', [1, 0])]);
    assert.deepEqual(await groupsOf(feeds, 1), ['g0']);
    await feeds.append([event('run.deleted', { run: 'r' }, T0 + 50_000_000, {})]);
    await feeds.until('f', ({ fold }) => fold?.decisions.totals.failedGroups.get('run_deleted') === 1);
    assert.deepEqual(await groupsOf(feeds, 1), ['g0']);
  });

  test('does without who comes late: told with its length, never mixed in, whatever else it still says', async () => {
    const feeds = await start();
    await create(feeds, {});
    await inOrder(feeds, [group('g0', [1, 0])]);
    await feeds.append(group('g0', [1], { size: 2, from: 2, at: 1000 }));
    await feeds.until('f', ({ fold }) => fold?.decisions.totals.dropped.has('late'));
    assert.deepEqual(feeds.engine('f').fold?.decisions.totals.dropped.get('late'), { rollouts: 1, tokens: 5 });
    const late = event('reward.assigned', { run: 'r', group: 'g0', rollout: 'g0-0', trace: 't-g0-0' }, T0 + 9000, { scope: 'trace', name: 'x', score: 50 }); // prettier-ignore
    await feeds.append([late]);
    assert.deepEqual((await rowsOf(feeds, 1)).map((row) => [row.rollout, row.reward, row.advantage]), [['g0-0', 1, 0.5], ['g0-1', 0, -0.5]]); // prettier-ignore
  });
});

test('who comes while the members wait for a score is late too, though nothing was decided about rewards yet', async () => {
  const feeds = await start();
  await create(feeds, {});
  const isScore = ({ type, rollout }: TapedeckEvent): boolean => type === 'reward.assigned' && rollout === 'g0-1';
  const events = group('g0', [1, 0]);
  await feeds.append(events.filter((each) => !isScore(each)));
  await feeds.until('f', ({ fold }) => fold?.decisions.groups.values().next().value?.state === 'sealed');
  await feeds.append(group('g0', [5], { size: 2, from: 2, at: 1000 }));
  await feeds.until('f', ({ fold }) => fold?.decisions.totals.dropped.has('late'));
  await feeds.append(events.filter(isScore));
  assert.deepEqual((await rowsOf(feeds, 1)).map((row) => [row.rollout, row.advantage]), [['g0-0', 0.5], ['g0-1', -0.5]]);
}); // prettier-ignore

test('a rollout that its group does without and that is never heard of again is recorded and forgotten', async () => {
  const feeds = await start();
  await create(feeds, { rolloutExpirySeconds: 0.2 });
  const dead = group('g0', [1], { size: 3, from: 2 }).slice(0, 4); // it has sampled and never ends
  await feeds.append([...group('g0', [1, 0], { size: 3 }), ...dead, event('group.sealed', { run: 'r', group: 'g0' }, T0 + 1, { size: 2, reason: 'deadline' })]);
  assert.deepEqual((await rowsOf(feeds, 1)).map((row) => row.rollout), ['g0-0', 'g0-1']);
  await feeds.until('f', ({ fold }) => fold?.decisions.totals.dropped.has('late'));
  const { facts, decisions } = await feeds.until('f', ({ fold }) => fold);
  assert.deepEqual(decisions.totals.dropped.get('late'), { rollouts: 1, tokens: 5 });
  assert.deepEqual([facts.stragglers.size, [...facts.rollouts.values()].map(({ rollout }) => rollout).toSorted()], [0, ['g0-0', 'g0-1']]);
  // should it come back all the same, nobody takes notice
  await feeds.append(group('g0', [1], { size: 3, from: 2 }).slice(4));
  await feeds.until('f', ({ view }) => view.caughtUp);
  assert.equal(decisions.totals.dropped.get('late')?.rollouts, 1);
}); // prettier-ignore

describe('another feed over the same log', () => {
  test('takes the same groups in the same batches, with rewards as that one saw them, or as they are now', async () => {
    const feeds = await start();
    await create(feeds, { cutAhead: 4 });
    await inOrder(feeds, names(3).map((name) => group(name, [1, 0]))); // prettier-ignore
    await rowsOf(feeds, 3);
    const corrected = event('reward.assigned', { run: 'r', group: 'g1', rollout: 'g1-1', trace: 't-g1-1' }, T0 + 9000, { scope: 'trace', name: 'x', score: 3 }); // prettier-ignore
    await feeds.append([corrected]);
    for (const [feed, rewardsAsOf, advantages] of [['then', 'cut', [0.5, -0.5]], ['now', 'latest', [-1, 1]]] as const) {
      await create(feeds, { membership: 'as:f', rewardsAsOf, cutAhead: 4, batch: { by: 'rollouts', size: 1000 } }, feed);
      assert.deepEqual((await rowsOf(feeds, 2, feed)).map((row) => [row.group, row.advantage]), advantages.map((advantage) => ['g1', advantage]), feed);
      assert.deepEqual([await groupsOf(feeds, 1, feed), await groupsOf(feeds, 3, feed)], [['g0'], ['g2']]);
    }
    // a reward that comes after the second feed was created changes nothing there
    const later = event('reward.assigned', { run: 'r', group: 'g1', rollout: 'g1-0', trace: 't-g1-0' }, T0 + 9500, { scope: 'trace', name: 'x', score: 9 });
    await feeds.append([later, ...group('g3', [1, 0], { at: 9_000 })]);
    assert.deepEqual([await groupsOf(feeds, 4), await groupsOf(feeds, 4, 'now')], [['g3'], ['g3']]);
    assert.deepEqual((await rowsOf(feeds, 2, 'now')).map((row) => row.reward), [1, 3]);
    assert.deepEqual(feeds.troubles, []);
  }); // prettier-ignore

  test('begins where it is told: now, or at positions of the log, one for each partition', async () => {
    const feeds = await start();
    await create(feeds, { cutAhead: 8 });
    await inOrder(feeds, [group('g0', [1, 0])]);
    const positions = (await feeds.events.positions()).map(({ end }) => end);
    await inOrder(feeds, [group('g1', [1, 0])]);
    await create(feeds, { from: { positions } }, 'from-there');
    await create(feeds, { from: 'now' }, 'from-now');
    assert.deepEqual(await groupsOf(feeds, 1, 'from-there'), ['g1']);
    await assert.rejects(
      create(feeds, { from: { positions: [0] } }, 'wrong'),
      /3 partitions, 1 positions were given: give one per partition/,
    );
    await inOrder(feeds, [group('g2', [1, 0])]);
    assert.deepEqual(await groupsOf(feeds, 1, 'from-now'), ['g2']);
  });
});

test('a feed that began in the middle of a rollout gives up the groups of another feed that hold it, and goes on', async () => {
  const feeds = await start();
  await create(feeds, { cutAhead: 4 });
  const events = group('g0', [1, 0]);
  const half = events.findIndex(({ type }) => type === 'reward.assigned');
  await feeds.until('f', ({ view }) => view.caughtUp);
  await feeds.append(events.slice(0, half));
  await create(feeds, { membership: 'as:f', from: 'now', cutAhead: 4 }, 'half');
  await feeds.append(events.slice(half));
  assert.deepEqual(await groupsOf(feeds, 1), ['g0']);
  await feeds.until('half', ({ fold }) => fold?.decisions.totals.failedGroups.get('not_admitted') === 1);
  await feeds.until('half', ({ view }) => /this feed ends at batch 0/.test(view.wait?.waitsFor ?? ''));
  assert.deepEqual(feeds.troubles, []);
});

describe('after a rollback with recut', () => {
  test('a batch that was cut and never committed is given up too, and its groups are cut again with what came meanwhile', async () => {
    const feeds = await start();
    await create(feeds, { batch: { by: 'groups', size: 2 }, cutAhead: 2 });
    await inOrder(feeds, names(2).map((name) => group(name, [1, 0]))); // prettier-ignore
    await train(feeds, 1);
    const first = feeds.engine('f').fold?.decisions.chain[0]?.batchId as string;
    await inOrder(feeds, ['g2', 'g3'].map((name) => group(name, [1, 0]))); // prettier-ignore
    assert.deepEqual(await groupsOf(feeds, 2), ['g2', 'g3']);
    const checkpoint = { timeline: 0, n: 1, batchId: first };
    const resume = (mode: 'recut' | 'replay') => resumeFeed({ holder: 't', checkpoint, mode, restart: false }, feeds.requester('f'));
    const same = await resume('replay');
    assert.deepEqual([same.rewound, same.timeline, same.next], [false, 0, 2], 'nothing was trained beyond the checkpoint');
    const anew = await resume('recut');
    assert.deepEqual([anew.rewound, anew.timeline, anew.next], [true, 1, 2]);
    assert.deepEqual(await groupsOf(feeds, 2), ['g2', 'g3']);
    await train(feeds, 2);
  });

  test('what was sampled by weights that were given up counts as the last weights both histories share', async () => {
    const feeds = await start();
    await create(feeds, { staleness: { maxOffPolicySteps: 8 }, cutAhead: 1 });
    await inOrder(feeds, [group('g0', [1, 0])]);
    await train(feeds, 1);
    const first = feeds.engine('f').fold?.decisions.chain[0]?.batchId as string;
    await inOrder(feeds, [group('g1', [1, 0], { version: 1 })]);
    await train(feeds, 2);
    // version 2 is of the stretch that is given up now
    await inOrder(feeds, [group('g2', [1, 0], { version: 2 })]);
    await rowsOf(feeds, 3);
    await resumeFeed(
      { holder: 't', checkpoint: { timeline: 0, n: 1, batchId: first }, mode: 'recut', restart: false },
      feeds.requester('f'),
    );
    await train(feeds, 2);
    const rows = await rowsOf(feeds, 3);
    assert.deepEqual(rows.map((row) => [row.group, row.policyVersionMin, row.staleness]), [['g2', 1, 1], ['g2', 1, 1]]); // prettier-ignore
    await train(feeds, 3);
    await inOrder(feeds, [group('g3', [1, 0], { version: 2 })]);
    assert.deepEqual((await rowsOf(feeds, 4)).map((row) => [row.group, row.staleness]), [['g3', 1], ['g3', 1]], 'sampled on the new timeline'); // prettier-ignore
  });
});
