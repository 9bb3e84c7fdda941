import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { migrate } from '../../migrations/migrate.ts';
import type { ColumnStore } from './column-store.ts';
import { storedPositions } from './stored-positions.ts';
import { openTestStore, type TestStore } from './test-store.ts';

let engine: TestStore;
let store: ColumnStore;
before(async () => {
  engine = await openTestStore();
  await migrate(engine.connect('default'), { database: 'tapedeck', cluster: null, clock: systemClock });
  store = engine.connect('tapedeck');
});
after(() => engine.close());

/** One row per offset below `ends[partition]`, in several parts. */
async function fill(ends: Readonly<Record<number, number>>): Promise<void> {
  const places = Object.entries(ends).map(([partition, end]) => `SELECT ${partition} AS p, arrayJoin(range(${end})) AS o`);
  await store.command(
    `INSERT INTO log_index (status, type, project, run, rollout, trace, bytes, _partition, _offset) SELECT 'stored', 'note.added', 'default', '', '', '', 1, p, o FROM (${places.join(' UNION ALL ')}) SETTINGS async_insert = 0`,
  );
}
const positions = async (): Promise<[number, number][]> => [...(await storedPositions(store, {}))].toSorted(([a], [b]) => a - b);

test('the ends of all partitions, whether they were seen before or not, as they grow', async () => {
  assert.deepEqual(await positions(), []);
  await fill({ 0: 3, 32_768: 1 });
  assert.deepEqual(await positions(), [[0, 3], [32_768, 1]]); // prettier-ignore
  await fill({ 0: 5, 2: 7 });
  assert.deepEqual(await positions(), [[0, 5], [2, 7], [32_768, 1]]); // prettier-ignore
  await fill({ 2: 9, 32_769: 2 });
  assert.deepEqual(await positions(), [[0, 5], [2, 9], [32_768, 1], [32_769, 2]]); // prettier-ignore
});

test('more partitions than are asked for one by one', async () => {
  const many = Object.fromEntries(Array.from({ length: 700 }, (_, i) => [i + 10, (i % 3) + 1]));
  await fill(many);
  for (let again = 0; again < 2; again++) {
    assert.deepEqual((await positions()).filter(([partition]) => partition >= 10 && partition < 710), Object.entries(many).map(([p, end]) => [Number(p), end])); // prettier-ignore
  }
});

test('tables that were emptied stand nowhere', async () => {
  await store.command('TRUNCATE TABLE log_index');
  assert.deepEqual(await positions(), []);
});
