import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { migrate } from '../../migrations/migrate.ts';
import type { ColumnStore } from './column-store.ts';
import { compact } from './compact.ts';
import { deleteRun } from './deletion.ts';
import { createBlock } from './projections/block.ts';
import { ledger } from './projections/ledger.ts';
import { insertEvents, storedWorld, summarise, WORLD, type Draft } from './projections/test-world.ts';
import { expiredRuns } from './retention-rules.ts';
import { fillSearchIndex } from './search-index.ts';
import { stringLiteral } from './sql-literal.ts';
import { openTestStore, type TestStore } from './test-store.ts';
import { CATALOGUE } from './views/catalogue.ts';
import { viewSelect } from './views/view.ts';

const DAY = 86_400_000_000;
let engine: TestStore;
before(async () => {
  engine = await openTestStore();
});
after(() => engine.close());

async function newStore(database: string): Promise<ColumnStore> {
  await migrate(engine.connect('default'), { database, cluster: null, clock: systemClock });
  return engine.connect(database);
}

/** The world twice: run-1 stays, its copy run-2 is deleted. Both lie in one log. */
const TWO_RUNS: readonly Draft[] = [...WORLD, ...WORLD.filter((draft) => draft.run === 'run-1').map(ofRun2)];

function ofRun2({ lists, ...draft }: Draft): Draft {
  const copy = { ...draft, run: 'run-2', data: renamed(draft.data) };
  if (lists === undefined) return copy;
  const run = 'run-2';
  return {
    ...copy,
    lists: {
      rows: lists.rows.map((row) => ({ ...row, run })),
      excluded: lists.excluded.map((one) => ({ ...one, run })),
      places: lists.places,
    },
  };
}

function renamed(data: object): object {
  const feed = (data as { feed?: string }).feed;
  return feed === undefined ? data : { ...data, feed: 'feed-2' };
}

async function answers(store: ColumnStore, database: string): Promise<Record<string, unknown[]>> {
  const source = { db: `${database}.`, project: stringLiteral('p') };
  const found: Record<string, unknown[]> = {};
  for (const view of CATALOGUE) {
    const rows = await store.rows<object>(viewSelect(view, source));
    found[view.name] = rows.map((row) => JSON.stringify(row)).toSorted();
  }
  return found;
}

async function count(store: ColumnStore, table: string, where: string): Promise<number> {
  const [row] = await store.rows<{ n: string }>(`SELECT count() AS n FROM ${table} WHERE ${where}`);
  return Number(row?.n);
}

test('a deleted run is gone from every answer, and a rebuild that knows the tombstone answers the same', async () => {
  const live = await newStore('live');
  const events = storedWorld('p', TWO_RUNS);
  const block = await insertEvents(live, events);
  await summarise(live, block.touched);
  await fillSearchIndex(live);
  assert.ok((await count(live, 'node_payloads', "run = 'run-2'")) > 0);
  const tables = await deleteRun(live, 'p', 'run-2');
  assert.ok(tables > 15, `rows in ${tables} tables`);
  assert.equal(await deleteRun(live, 'p', 'run-2'), 0);
  assert.equal(await count(live, 'log_index FINAL', "run = 'run-2' AND status = 'deleted'"), TWO_RUNS.length - WORLD.length);

  const rebuilt = await newStore('rebuilt');
  const again = createBlock();
  for (const stored of events.filter(({ event }) => event.run === 'run-2')) {
    ledger(stored, 'deleted', { code: 'run_deleted', message: 'the run was deleted', firstOffset: null }, again);
  }
  const kept = await insertEvents(rebuilt, events.filter(({ event }) => event.run !== 'run-2'), again); // prettier-ignore
  await summarise(rebuilt, kept.touched);
  await fillSearchIndex(rebuilt);
  const expected = await answers(rebuilt, 'rebuilt');
  assert.deepEqual(await answers(live, 'live'), expected);

  const compacted = await compact(live);
  assert.ok(compacted.some(({ table }) => table === 'nodes'));
  assert.deepEqual(await answers(live, 'live'), expected);
  assert.equal(await live.rows("SELECT name FROM system.parts WHERE database = 'live' AND active AND has_lightweight_delete").then((rows) => rows.length), 0); // prettier-ignore
  assert.deepEqual(await compact(live), []);
});

test('an older block stored again does not undo a deletion in the books', async () => {
  const store = await newStore('redo');
  const events = storedWorld('p').slice(0, 3);
  await insertEvents(store, events);
  await deleteRun(store, 'p', 'run-1');
  await insertEvents(store, events);
  assert.equal(await count(store, 'log_index FINAL', "status = 'deleted'"), 3);
});

test('retention names runs whose newest event is too old, by the latest setting', async () => {
  const store = await newStore('retention');
  const at = (type: 'run.started' | 'project.retention_set', data: object, run?: string): Draft => ({
    type,
    data,
    ...(run === undefined ? {} : { run }),
  });
  const drafts = [
    at('project.retention_set', { days: 1 }),
    at('run.started', {}, 'old'),
    at('run.started', {}, 'new'),
    at('project.retention_set', { days: 30 }),
  ];
  const events = storedWorld('p', drafts);
  const newest = Math.max(...events.map(({ event }) => event.time));
  await insertEvents(store, events);
  assert.deepEqual(await expiredRuns(store, newest + 29 * DAY), []);
  const expired = await expiredRuns(store, newest + 31 * DAY);
  assert.deepEqual(expired, [{ project: 'p', run: 'new', days: 30 }, { project: 'p', run: 'old', days: 30 }]); // prettier-ignore
  await insertEvents(store, storedWorld('p', [...drafts, { type: 'run.deleted', run: 'old', data: {} }]).slice(-1));
  assert.deepEqual((await expiredRuns(store, newest + 31 * DAY)).map(({ run }) => run), ['new']); // prettier-ignore
  const off = [...drafts, at('run.started', {}, 'old'), at('project.retention_set', { days: null })];
  await insertEvents(store, storedWorld('p', off).slice(-1));
  assert.deepEqual(await expiredRuns(store, newest + 365 * DAY), []);
});
