/** What follows a block, over a real engine: how often summaries are refreshed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { migrate } from '../../../migrations/migrate.ts';
import { openTestStore } from '../test-store.ts';
import { AfterBlock, type Load } from './after-block.ts';

const PROJECTS = { database: 'tapedeck', cluster: null };

test('summaries are refreshed every second, under load every four', async () => {
  const engine = await openTestStore();
  try {
    await migrate(engine.connect('default'), { ...PROJECTS, clock: systemClock });
    let now = 100_000;
    let begun = 0;
    let ended = Promise.withResolvers<void>();
    const afterBlock = new AfterBlock({
      store: engine.connect('tapedeck'),
      topic: 'feeds', // has no search index
      clock: { ...systemClock, monotonicMs: () => now },
      projects: PROJECTS,
      reached: (point) => (point === 'before-summaries' ? begun++ : ended.resolve()),
    });
    const signal = AbortSignal.timeout(60_000);
    let offset = 0;
    const refreshes = async (afterMs: number, load: Load): Promise<boolean> => {
      now += afterMs;
      const before = begun;
      ended = Promise.withResolvers();
      const fact = { type: 'node.appended', project: 'default', run: 'r', rollout: 'o' } as const;
      await afterBlock.run({ events: [fact], positions: [++offset, 0, 0, 0], load }, signal);
      if (begun === before) return false;
      await ended.promise;
      await new Promise(setImmediate); // the next may begin
      return true;
    };
    assert.equal(await refreshes(0, 'calm'), true, 'the first');
    assert.equal(await refreshes(999, 'calm'), false);
    assert.equal(await refreshes(1, 'calm'), true);
    for (const load of ['loaded', 'full'] as const) {
      assert.equal(await refreshes(1_500, load), false);
      assert.equal(await refreshes(2_499, load), false);
      assert.equal(await refreshes(1, load), true);
    }
    assert.equal(await refreshes(1_000, 'calm'), true, 'a calm block does not wait for what load would allow');
    assert.equal(await refreshes(1_000, 'loaded'), false);
    const before = begun;
    await afterBlock.idle(signal);
    assert.equal(begun, before + 1, 'a log that is read to its end leaves nothing to refresh');
  } finally {
    await engine.close();
  }
});
