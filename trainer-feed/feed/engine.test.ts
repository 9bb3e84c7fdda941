/** The running feed over a real log: batches are cut, leased, committed; restarts, rewinds and lost caches change nothing. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { isTapedeckError, type ErrorCode } from '../../base/errors.ts';
import { planRequest } from '../planner/plan-request.ts';
import { awaitFeed } from './await-feed.ts';
import { linkOf, lastCut } from './decision-state.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest, type TestOptions } from './feed-under-test.ts';
import { world } from './feed-world.ts';
import { commitBatch, leaseBatch, markCheckpoint, releaseLease, type Leased } from './lease.ts';
import { resumeFeed } from './resume.ts';
import type { FeedSpecInput } from './spec.ts';
import { stateBytes } from './state-codec.ts';

const folders: { remove(): void }[] = [];
const open: FeedsUnderTest[] = [];
after(async () => {
  for (const feeds of open) await feeds.close();
  for (const folder of folders) folder.remove();
});

async function start(options: TestOptions = {}): Promise<FeedsUnderTest> {
  const folder = options.folder === undefined ? temporaryFolder() : { path: options.folder, remove: () => {} };
  folders.push(folder);
  const feeds = await feedsUnderTest(folder.path, options);
  open.push(feeds);
  return feeds;
}

const SPEC: FeedSpecInput = { maxRowTokens: 100, batch: { by: 'rollouts', size: 8 }, runs: ['run-1'] };
const PLAN = planRequest.parse({ world: 2, maxTokens: 200 });
const NAME = { project: 'default', feed: 'f' };

async function lease(
  feeds: FeedsUnderTest,
  step: number,
  more: { holder?: string; token?: number; ttlSeconds?: number; world?: number } = {},
): Promise<Leased> {
  await feeds.until('f', ({ fold }) => fold !== null && lastCut(fold.decisions) >= step);
  const plan = planRequest.parse({ ...PLAN, world: more.world ?? PLAN.world });
  const request = { holder: more.holder ?? 'trainer', step, ttlSeconds: more.ttlSeconds ?? 60, plan, token: more.token ?? null };
  const leased = await awaitFeed(feeds.engine('f'), systemClock, 10_000, () => leaseBatch(request, feeds.requester('f')));
  assert.ok(leased !== null, `the rows of batch ${step} are not at hand`);
  return leased;
}

async function train(feeds: FeedsUnderTest, step: number): Promise<string> {
  const { lease: held } = await lease(feeds, step);
  await commitBatch({ n: step, batchId: held.batchId, token: held.token, step }, feeds.requester('f'));
  return held.batchId;
}

async function refused(code: ErrorCode, pattern: RegExp, work: Promise<unknown>): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(isTapedeckError(error, code), String(error));
    assert.match(error.message, pattern);
    return true;
  });
}

async function ids(feeds: FeedsUnderTest, n: number): Promise<string[]> {
  const link = feeds.engine('f').fold?.decisions.chain[n - 1];
  assert.ok(link !== undefined);
  const rows = await feeds.engine('f').rowsOf(link);
  return (rows ?? []).map(({ rowId }) => rowId);
}

describe('a feed over a real log', () => {
  test('cuts, leases and commits batches, each rollout once; a restart from a checkpoint and one from nothing know the same', async () => {
    const feeds = await start({ limits: { checkpointMs: 0 } });
    await feeds.append(world({ seed: 1, groups: 12, size: 4, partitions: 3 }).flat());
    assert.equal((await feeds.directory.create(NAME, SPEC)).made, true);
    const batchIds = [await train(feeds, 1), await train(feeds, 2), await train(feeds, 3)];
    await feeds.until('f', ({ fold, view }) => fold !== null && lastCut(fold.decisions) === 4 && view.caughtUp);
    const seen = (await Promise.all([1, 2, 3, 4].map((n) => ids(feeds, n)))).flat();
    assert.equal(new Set(seen).size, seen.length);
    assert.equal(seen.length >= 32, true);
    const before = Buffer.from(stateBytes(feeds.engine('f').fold as never)).toString('hex');
    await feeds.close();
    for (const lose of [[], ['checkpoints'], ['rows'], ['batches', 'rows', 'checkpoints']]) {
      const [feed] = (await import('node:fs')).readdirSync(join(feeds.folder, 'feeds')) as [string];
      for (const part of lose) rmSync(join(feeds.folder, 'feeds', feed, part), { recursive: true });
      const again = await start({ folder: feeds.folder });
      await again.until('f', ({ fold, view }) => fold !== null && view.caughtUp && lastCut(fold.decisions) === 4);
      assert.equal(Buffer.from(stateBytes(again.engine('f').fold as never)).toString('hex'), before, `without ${lose.join()}`);
      assert.deepEqual(again.engine('f').fold?.decisions.chain.slice(0, 3).map(({ batchId }) => batchId), batchIds); // prettier-ignore
      const rows = await again.until('f', () => true).then(() => ids(again, 4));
      assert.ok(rows.length > 0, 'the rows of the batch to be leased are made again');
      assert.deepEqual(again.troubles, []);
      await again.close();
    }
  });

  test('rows made again from the log are those that were cut', async () => {
    const feeds = await start();
    await feeds.append(world({ seed: 2, groups: 4, size: 4, partitions: 3 }).flat());
    await feeds.directory.create(NAME, SPEC);
    await lease(feeds, 1);
    const link = feeds.engine('f').fold?.decisions.chain[0];
    assert.ok(link !== undefined);
    const cut = await feeds.engine('f').rowsOf(link);
    await feeds.close();
    const [feed] = (await import('node:fs')).readdirSync(join(feeds.folder, 'feeds')) as [string];
    rmSync(join(feeds.folder, 'feeds', feed), { recursive: true });
    const again = await start({ folder: feeds.folder });
    await again.until('f', ({ view }) => view.caughtUp);
    assert.deepEqual(await again.engine('f').rowsOf(link), cut);
  });

  test('a trainer is told what is wrong and what to do', async () => {
    const feeds = await start();
    await feeds.append(world({ seed: 3, groups: 12, size: 4, partitions: 3 }).flat());
    await feeds.directory.create(NAME, { ...SPEC, cutAhead: 2 });
    const from = (): ReturnType<FeedsUnderTest['requester']> => feeds.requester('f');
    const first = await lease(feeds, 1, { holder: 'a' });
    const { batchId } = first.lease;
    const plan = PLAN;
    await refused(
      'step_mismatch',
      /trains step 1 next.*resume from your checkpoint/,
      leaseBatch({ holder: 'a', step: 2, ttlSeconds: 60, plan, token: null }, from()),
    );
    await refused(
      'lease_held',
      /leased to a for \d+ s more.*release it/,
      leaseBatch({ holder: 'b', step: 1, ttlSeconds: 60, plan, token: null }, from()),
    );
    await refused('lease_held', /leased to a/, resumeFeed({ holder: 'b', checkpoint: null, mode: null, restart: false }, from()));
    await refused(
      'row_exceeds_max_tokens',
      /maxTokens of at least \d+/,
      leaseBatch({ holder: 'a', step: 1, ttlSeconds: 60, plan: { ...plan, maxTokens: 3 }, token: null }, from()),
    );
    await refused(
      'out_of_order',
      /before batch 1: commit in order/,
      commitBatch({ n: 2, batchId, token: first.lease.token, step: 2 }, from()),
    );
    await refused(
      'chain_mismatch',
      /batch 1 is [0-9a-f]{64}, not other.*resume from a checkpoint/,
      commitBatch({ n: 1, batchId: 'other', token: first.lease.token, step: 1 }, from()),
    );
    await refused('step_mismatch', /not step 7/, commitBatch({ n: 1, batchId, token: first.lease.token, step: 7 }, from()));
    await refused(
      'lease_lost',
      /token 999999 no longer holds the feed \(a holds it now/,
      commitBatch({ n: 1, batchId, token: 999_999, step: 1 }, from()),
    );
    await refused('lease_lost', /stop it, or resume/, releaseLease({ token: 999_999, reason: null }, from()));
    await refused('out_of_order', /commit in order/, markCheckpoint({ n: 1, batchId, uri: null }, from()));
    // renewing keeps the token, another plan or process takes a new one and fences the old
    assert.equal((await lease(feeds, 1, { holder: 'a', token: first.lease.token })).lease.token, first.lease.token);
    const second = await lease(feeds, 1, { holder: 'a', world: 4 });
    assert.notEqual(second.lease.token, first.lease.token);
    await refused('lease_lost', /a holds it now with token/, commitBatch({ n: 1, batchId, token: first.lease.token, step: 1 }, from()));
    // expiry alone does not invalidate a holder, a newer lease does
    const short = await lease(feeds, 1, { holder: 'a', ttlSeconds: 0.001 });
    await new Promise((resolve) => setTimeout(resolve, 5));
    const taken = await lease(feeds, 1, { holder: 'b', ttlSeconds: 0.001 });
    await refused('lease_lost', /b holds it now/, commitBatch({ n: 1, batchId, token: short.lease.token, step: 1 }, from()));
    await new Promise((resolve) => setTimeout(resolve, 5));
    const done = await commitBatch({ n: 1, batchId, token: taken.lease.token, step: 1 }, from());
    assert.deepEqual([done.committed, done.repeated], [1, false]);
    assert.equal((await commitBatch({ n: 1, batchId, token: short.lease.token, step: 1 }, from())).repeated, true, 'commit is idempotent');
    await refused('chain_mismatch', /batch 1 is/, commitBatch({ n: 1, batchId: 'other', token: taken.lease.token, step: 1 }, from()));
    await markCheckpoint({ n: 1, batchId, uri: 'c1' }, from());
    await markCheckpoint({ n: 1, batchId, uri: 'c1' }, from());
    assert.equal(feeds.engine('f').fold?.decisions.checkpoints.length, 1);
  });

  test('a checkpoint of the live chain resumes; a lost commit is made up for; anything else is refused', async () => {
    const feeds = await start();
    await feeds.append(world({ seed: 4, groups: 14, size: 4, partitions: 3 }).flat());
    await feeds.directory.create(NAME, SPEC);
    const from = (): ReturnType<FeedsUnderTest['requester']> => feeds.requester('f');
    const resume = (
      checkpoint: { timeline?: number; n: number; batchId: string | null } | null,
      more: { mode?: 'replay' | 'recut'; restart?: boolean } = {},
    ) =>
      resumeFeed(
        {
          holder: 'trainer',
          checkpoint: checkpoint === null ? null : { timeline: null, ...checkpoint },
          mode: more.mode ?? null,
          restart: more.restart ?? false,
        },
        from(),
      );
    await feeds.until('f', ({ fold }) => fold);
    assert.deepEqual(await resume(null), { timeline: 0, next: 1, batchId: null, rewound: false, madeUp: false });
    const chain = [await train(feeds, 1), await train(feeds, 2), await train(feeds, 3)];
    const rows3 = await ids(feeds, 3);
    assert.equal((await resume({ n: 3, batchId: chain[2] as string })).next, 4);
    // the trainer stepped on batch 4, wrote its checkpoint and died before the commit
    const { lease: fourth } = await lease(feeds, 4);
    const madeUp = await resume({ n: 4, batchId: fourth.batchId });
    assert.deepEqual([madeUp.madeUp, madeUp.next, madeUp.timeline], [true, 5, 0]);
    await refused('chain_mismatch', /history that was given up/, resume({ n: 2, batchId: chain[0] as string }));
    await refused('chain_mismatch', /is not cut|batch 5 is/, resume({ n: 5, batchId: 'x' }));
    await refused('chain_mismatch', /batch 9 is not cut/, resume({ n: 9, batchId: 'x' }));
    await refused('chain_mismatch', /on timeline 0/, resume({ timeline: 3, n: 2, batchId: chain[1] as string }));
    await refused('chain_mismatch', /you sent no checkpoint.*restart: true/, resume(null));
    // replay: the same batches again, under the same ids
    const back = await resume({ n: 2, batchId: chain[1] as string });
    assert.deepEqual([back.rewound, back.next, back.timeline], [true, 3, 1]);
    assert.equal(await train(feeds, 3), chain[2]);
    assert.deepEqual(await ids(feeds, 3), rows3);
    assert.equal(await train(feeds, 4), fourth.batchId);
    // recut: other batches of the same groups, nothing twice
    const again = await resume({ n: 1, batchId: chain[0] as string }, { mode: 'recut' });
    assert.deepEqual([again.rewound, again.next, again.timeline], [true, 2, 2]);
    const recut = await train(feeds, 2);
    assert.notEqual(recut, chain[1], 'the batch id holds the positions at the cut');
    await refused('chain_mismatch', /batch 2 is/, resume({ n: 2, batchId: chain[1] as string }));
    const anew = await resume(null, { restart: true });
    assert.deepEqual([anew.rewound, anew.next], [true, 1]);
    assert.equal(await train(feeds, 1), chain[0]);
    assert.equal(linkOf((feeds.engine('f').fold as never as { decisions: never }).decisions, 1)?.timeline, 3);
    assert.deepEqual(feeds.troubles, []);
  });

  test('rewinds to what was let go, again and again: each folds the feed anew, also one that has forgotten since it was folded anew', async () => {
    const feeds = await start();
    await feeds.append(world({ seed: 5, groups: 24, size: 4, partitions: 3 }).flat());
    await feeds.directory.create(NAME, { ...SPEC, keepBatches: 1, keepCheckpoints: 1 });
    const first = await train(feeds, 1);
    for (let round = 1; round <= 3; round++) {
      for (let n = 2; n <= 6; n++) await train(feeds, n);
      await feeds.until('f', ({ fold }) => fold?.decisions.chain.some(({ n, forgotten }) => n > 1 && forgotten));
      const checkpoint = { timeline: null, n: 1, batchId: first };
      const back = await resumeFeed({ holder: 'trainer', checkpoint, mode: 'recut', restart: false }, feeds.requester('f'));
      assert.deepEqual([back.rewound, back.next, back.timeline], [true, 2, round]);
    }
    for (let n = 2; n <= 6; n++) await train(feeds, n);
    const batches = feeds.engine('f').fold?.decisions.chain.map(({ batchId }) => batchId) ?? [];
    assert.equal(new Set(batches).size, batches.length);
    assert.deepEqual(feeds.troubles, []);
  });

  test('rows of a batch that were let go since the feed was folded anew are made again, as often as they are wanted', async () => {
    const feeds = await start();
    await feeds.append(world({ seed: 5, groups: 24, size: 4, partitions: 3 }).flat());
    await feeds.directory.create(NAME, { ...SPEC, keepBatches: 1, keepCheckpoints: 1 });
    const back = async (n: number, batchId: string, mode: 'replay' | 'recut'): Promise<void> => {
      const checkpoint = { timeline: null, n, batchId };
      await resumeFeed({ holder: 'trainer', checkpoint, mode, restart: false }, feeds.requester('f'));
    };
    const first = await train(feeds, 1);
    await train(feeds, 2);
    await back(1, first, 'recut');
    for (let round = 1; round <= 2; round++) {
      const chain = [first];
      for (let n = 2; n <= 6; n++) chain.push(await train(feeds, n));
      await feeds.until('f', ({ fold }) => fold?.decisions.chain.some(({ n, forgotten }) => n === 4 && forgotten));
      await back(2, chain[1] as string, 'replay');
      for (let n = 3; n <= 6; n++) assert.equal(await train(feeds, n), chain[n - 1]);
      await back(1, first, 'recut');
    }
    assert.deepEqual(feeds.troubles, []);
  });
});
