/** A feed that has nothing to do is quiet, whatever it waits for: deadlines that are over must not wake it again and again. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { FeedEngine } from './engine.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest, type TestOptions } from './feed-under-test.ts';
import { event, T0, world } from './feed-world.ts';
import { lastCut } from './decision-state.ts';
import { commitBatch, leaseBatch } from './lease.ts';
import { planRequest } from '../planner/plan-request.ts';

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

async function start(options: TestOptions = {}): Promise<FeedsUnderTest> {
  const folder = temporaryFolder();
  const feeds = await feedsUnderTest(folder.path, options);
  closers.push(folder.remove, () => feeds.close());
  return feeds;
}

const NAME = { project: 'default', feed: 'f' };
/** Far below the longest time that a feed sleeps, far above the shortest. */
const WATCHED_MS = 400;
const MOST_PASSES = 40;

/** How often the feed looks for work in a while. */
async function passes(engine: FeedEngine): Promise<number> {
  const before = engine.version;
  await new Promise((resolve) => setTimeout(resolve, WATCHED_MS));
  return engine.version - before;
}

test('a group that was sealed and has no rollout that may enter is given up at its deadline, and the feed sleeps', async () => {
  const feeds = await start();
  const ids = { run: 'run-1', group: 'evals', rollout: 'e-0' };
  await feeds.directory.create(NAME, { maxRowTokens: 100, batch: { by: 'rollouts', size: 8 }, group: { deadlineSeconds: 0.1 } });
  await feeds.append([
    event('rollout.started', ids, T0, { env: { id: 'toy' }, group: { id: 'evals', size: 2 }, work: { type: 'eval' } }),
    event('group.sealed', { run: 'run-1', group: 'evals' }, T0 + 1, { size: 2, reason: 'complete' }),
  ]);
  await feeds.until('f', ({ fold }) => fold?.decisions.totals.failedGroups.get('no_rollouts') === 1);
  assert.equal(feeds.engine('f').fold?.facts.groups.size, 0, 'nothing of it is kept');
  const looked = await passes(feeds.engine('f'));
  assert.ok(looked < MOST_PASSES, `it looked for work ${looked} times in ${WATCHED_MS} ms`);
  assert.deepEqual(feeds.troubles, []);
});

test('while reading pauses for a commit, a deadline that is over does not keep the feed awake; the commit wakes it', async () => {
  const feeds = await start({ limits: { leastRollouts: 4, poolBatches: 1 } });
  const open = { run: 'run-1', group: 'half', rollout: 'h-0' };
  const started = { env: { id: 'toy' }, group: { id: 'half', size: 2 }, work: { type: 'train' } };
  await feeds.append([event('rollout.started', open, T0, started), ...world({ seed: 3, groups: 12, size: 4, partitions: 3 }).flat()]);
  const spec = {
    maxRowTokens: 100,
    batch: { by: 'rollouts', size: 8 },
    group: { deadlineSeconds: 0.3 },
    dropZeroAdvantage: false,
  } as const;
  await feeds.directory.create(NAME, spec);
  const engine = feeds.engine('f');
  await feeds.until('f', ({ view }) => view.paused);
  await new Promise((resolve) => setTimeout(resolve, WATCHED_MS)); // the deadline passes
  assert.equal(engine.view.paused, true);
  const looked = await passes(engine);
  assert.ok(looked < MOST_PASSES, `it looked for work ${looked} times in ${WATCHED_MS} ms`);
  const plan = planRequest.parse({ world: 1, maxTokens: 200 });
  const leased = await leaseBatch({ holder: 't', step: 1, ttlSeconds: 60, plan, token: null }, feeds.requester('f'));
  assert.ok(leased !== null);
  await commitBatch({ n: 1, batchId: leased.lease.batchId, token: leased.lease.token, step: 1 }, feeds.requester('f'));
  await feeds.until('f', ({ fold }) => fold !== null && lastCut(fold.decisions) === 2);
  assert.deepEqual(feeds.troubles, []);
});
