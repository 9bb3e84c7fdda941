/**
 * Producers that start what `capacity` allows, and a trainer that publishes weights after every step: with `maxOffPolicySteps: 0` that is synchronous training, and it never stops
 * however many groups bring nothing.
 */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { seededRandom } from '../../base/random.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import { planRequest } from '../planner/plan-request.ts';
import { capacityOf } from './capacity.ts';
import { lastCut } from './decision-state.ts';
import { feedsUnderTest, temporaryFolder, type FeedsUnderTest } from './feed-under-test.ts';
import { event, f32, T0, u32, u8 } from './feed-world.ts';
import { commitBatch, leaseBatch } from './lease.ts';
import type { FeedSpecInput } from './spec.ts';

const closers: (() => unknown)[] = [];
after(async () => {
  for (const close of closers.reverse()) await close();
});

const SIZE = 4;
const STEPS = 12;
const PATIENCE_MS = 60_000;

/** A finished group, sampled by `version`. `fate`: what becomes of it. */
function group(name: string, version: number, fate: 'good' | 'equal' | 'failed' | 'cancelled', time: number): TapedeckEvent[] {
  return Array.from({ length: SIZE }, (_, i) => i).flatMap((i) => {
    const ids = { run: 'r', group: name, rollout: `${name}-${i}` };
    const trace = { ...ids, trace: `t-${name}-${i}` };
    let at = time + i * 10;
    const begin = event('rollout.started', ids, at++, { env: { id: 'e' }, task: { key: 'k' }, group: { id: name, size: SIZE }, work: { type: 'train' }, policyVersion: version });
    if (fate === 'cancelled') return [begin, event('rollout.cancelled', ids, at++, { reason: 'overload' })];
    if (fate === 'failed') return [begin, event('rollout.ended', ids, at++, { ok: false })];
    return [
      begin,
      event('trace.started', trace, at++, { agent: { name: 'a', trainable: true } }),
      event('node.appended', trace, at++, { index: 0, parent: null, role: 'user', sampled: false, tokens: { ids: u32([1, 2]), mask: u8([0, 0]) } }),
      event('node.appended', trace, at++, { index: 1, parent: 0, role: 'assistant', sampled: true, call: 0, tokens: { ids: u32([3, 4]), mask: u8([1, 1]), logprobs: f32([-1, -1]) } }),
      event('call.recorded', trace, at++, { index: 0, node: 1, policyVersion: version, sampling: { temperature: 1 }, logprobsMode: 'processed' }),
      event('reward.assigned', trace, at++, { scope: 'trace', name: 'x', score: fate === 'equal' ? 1 : i % 2 }),
      event('trace.ended', trace, at++, { ok: true }),
      event('rollout.ended', ids, at++, { ok: true }),
    ];
  });
} // prettier-ignore

type Run = { readonly ages: (number | null)[]; readonly started: number; readonly dropped: Readonly<Record<string, number>> };

/** Trains STEPS steps while a producer does what capacity says. `share` of its groups bring nothing. */
async function train(spec: Partial<FeedSpecInput>, share: number, seed: number): Promise<Run> {
  const folder = temporaryFolder();
  const feeds = await feedsUnderTest(folder.path);
  closers.push(folder.remove, () => feeds.close());
  await feeds.directory.create(
    { project: 'default', feed: 'f' },
    { maxRowTokens: 16, batch: { by: 'rollouts', size: 8 }, runs: ['r'], ...spec },
  );
  const stop = new AbortController();
  const producing = produce(feeds, share, seededRandom(seed), stop.signal);
  const ages: (number | null)[] = [];
  try {
    for (let step = 1; step <= STEPS; step++) {
      await within(() => feeds.until('f', ({ fold }) => fold !== null && lastCut(fold.decisions) >= step), `batch ${step} to be cut`);
      const requester = feeds.requester('f');
      const plan = planRequest.parse({ world: 1, maxTokens: 64 });
      const leased = await leaseBatch({ holder: 't', step, ttlSeconds: 60, plan, token: null }, requester);
      assert.ok(leased !== null);
      const rows = await feeds.engine('f').rowsOf(leased.lease);
      ages.push(...(rows ?? []).map(({ staleness }) => staleness));
      await commitBatch({ n: step, batchId: leased.lease.batchId, token: leased.lease.token, step }, requester);
      await feeds.append([event('policy.published', { run: 'r' }, T0 + step, { version: step, step })]);
    }
  } finally {
    stop.abort();
  }
  const started = await producing;
  const { dropped } = feeds.engine('f').fold?.decisions.totals ?? { dropped: new Map() };
  return { ages, started, dropped: Object.fromEntries([...dropped].map(([reason, { rollouts }]) => [reason, rollouts])) };
}

/** Starts a whole group whenever there is capacity (less than a group too many), with the weights of the last committed step: it waits until they are published. */
async function produce(feeds: FeedsUnderTest, share: number, random: ReturnType<typeof seededRandom>, signal: AbortSignal): Promise<number> {
  let started = 0;
  while (!signal.aborted) {
    const engine = feeds.engine('f');
    const { fold } = engine;
    const published = fold === null ? 0 : (fold.facts.policies.get(0) ?? 0);
    let room = fold === null || published < fold.decisions.committed || !engine.view.caughtUp ? 0 : (capacityOf(fold, engine.origin.resolved, engine.yields).capacity ?? SIZE);
    if (room <= 0) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      continue;
    }
    for (; room > 0; room -= SIZE) {
      const fate = random.next() >= share ? 'good' : (['equal', 'failed', 'cancelled'] as const)[Math.floor(random.next() * 3)];
      await feeds.append(group(`g${started}`, published, fate as 'good', T0 + started * 1000));
      started++;
    }
    // what was appended counts once it was read
    const ends = (await feeds.events.positions()).map(({ end }) => end);
    await feeds.until('f', ({ fold: now }) => now !== null && ends.every((end, partition) => (now.facts.positions[partition] ?? 0) >= end));
  }
  return started;
} // prettier-ignore

async function within(work: () => Promise<unknown>, what: string): Promise<void> {
  const late = new Promise<never>((_, reject) =>
    setTimeout(() => reject(new Error(`deadlock: waited ${PATIENCE_MS} ms for ${what}`)), PATIENCE_MS).unref(),
  );
  await Promise.race([work(), late]);
}

describe('producers paced by capacity', () => {
  test('maxOffPolicySteps 0 is synchronous training: every token of step n was sampled by version n - 1, and nothing is dropped as stale', async () => {
    const { ages, dropped } = await train({ staleness: { maxOffPolicySteps: 0, strategy: 'drop' } }, 0, 1);
    assert.ok(ages.length >= STEPS * 8);
    assert.deepEqual([...new Set(ages)], [0]);
    assert.deepEqual(Object.keys(dropped).filter((reason) => reason.startsWith('stale')), []); // prettier-ignore
  });

  for (const [maxOffPolicySteps, strategy] of [[0, 'drop'], [2, 'drop'], [2, 'wait'], [1, 'withhold']] as const) {
    test(`30 % of the groups bring nothing, at most ${maxOffPolicySteps} steps behind (${strategy}): it never stops`, async () => {
      const { ages, started } = await train({ staleness: { maxOffPolicySteps, strategy } }, 0.3, 7);
      assert.ok(ages.length >= STEPS * 8);
      if (strategy !== 'wait') assert.ok(ages.every((age) => (age ?? 0) <= maxOffPolicySteps));
      assert.ok(started > STEPS * 2, 'groups that bring nothing were made up for');
    });
  } // prettier-ignore
});
