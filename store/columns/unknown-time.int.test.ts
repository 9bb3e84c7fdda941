/** Events whose producer knew no time carry 0 in the envelope: no answer makes 1970 of it, and nothing is taken for unfinished or for expired because of it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { migrate } from '../../migrations/migrate.ts';
import type { ColumnStore } from './column-store.ts';
import { insertEvents, storedWorld, summarise, WORLD, type Draft } from './projections/test-world.ts';
import { expiredRuns } from './retention-rules.ts';
import { openTestStore, type TestStore } from './test-store.ts';
import { CATALOGUE } from './views/catalogue.ts';
import { ensureProject } from './views/ensure-project.ts';

const DATABASE = 'untimed';
const NOW = Date.parse('2026-01-01') * 1000;
let engine: TestStore;
let store: ColumnStore;
let untimed: ColumnStore;
let timed: ColumnStore;

/** The event without any time of its own. */
function withoutTimes(draft: Draft): Draft {
  const { started: _started, ended: _ended, time: _time, firstToken: _firstToken, ...data } = draft.data as Record<string, unknown>;
  return { ...draft, time: 0, data };
}

async function fill(project: string, drafts: readonly Draft[]): Promise<ColumnStore> {
  const database = await ensureProject(store, project, { database: DATABASE, cluster: null });
  const block = await insertEvents(store, storedWorld(project, drafts));
  await summarise(store, block.touched);
  return engine.connect(database);
}

before(async () => {
  engine = await openTestStore();
  await migrate(engine.connect('default'), { database: DATABASE, cluster: null, clock: systemClock });
  store = engine.connect(DATABASE);
  untimed = await fill('untimed', WORLD.map(withoutTimes));
  timed = await fill('timed', WORLD);
});
after(() => engine.close());

test('no view shows 1970, but for the plain time of an event; with times the same columns have values', async () => {
  const derived: string[] = [];
  for (const { name, columns } of CATALOGUE) {
    const types = await untimed.rows<{ name: string; type: string }>(`DESCRIBE ${name}`);
    for (const { name: column, type } of types.filter((each) => /DateTime/.test(each.type) && each.name !== 'time')) {
      assert.ok(columns.some((each) => each.name === column) && type.startsWith('Nullable'), `${name}.${column} can be NULL`);
      assert.deepEqual(await untimed.rows(`SELECT ${column} AS shown FROM ${name} WHERE ${column} IS NOT NULL`), [], `${name}.${column}`);
      derived.push(`${name}.${column}`);
    }
  }
  for (const place of ['runs.started', 'runs.ended', 'groups.sealed', 'rollouts.started', 'rollouts.ended', 'traces.started', 'traces.ended', 'batches.cut', 'batches.committed']) {
    assert.ok(derived.includes(place), place);
    const [view = '', column = ''] = place.split('.');
    assert.deepEqual(await timed.rows(`SELECT toUInt8(count() > 0) AS has FROM ${view} WHERE ${column} > '2025-01-01'`), [{ has: 1 }], place);
  }
}); // prettier-ignore

test('what has ended is known to have ended', async () => {
  for (const question of [
    'SELECT run, status FROM runs ORDER BY run',
    'SELECT trace, ok, truncated, stop_condition FROM traces ORDER BY trace',
    'SELECT rollout, ok, truncated, stop_condition, cancelled FROM rollouts ORDER BY rollout',
    'SELECT `group`, size, reason FROM groups ORDER BY `group`',
    'SELECT n, step, abandoned FROM batches ORDER BY n',
  ]) {
    assert.deepEqual(await untimed.rows(question), await timed.rows(question), question);
  }
});

test('one event with a time is enough', async () => {
  const run = 'run-3';
  const view = await fill('mixed', [
    { type: 'run.started', run, data: {}, time: 0 },
    { type: 'run.started', run, data: {}, time: NOW },
  ]);
  assert.deepEqual(await view.rows('SELECT toUnixTimestamp64Micro(assumeNotNull(started)) AS at FROM runs'), [{ at: String(NOW) }]);
});

test('retention keeps a run whose age is not known', async () => {
  const keep = (run: string, time: number): Draft[] => [{ type: 'run.started', run, data: {}, time }];
  await fill('kept', [{ type: 'project.retention_set', data: { days: 1 } }, ...keep('no-time', 0), ...keep('old', NOW)]);
  const expired = await expiredRuns(store, NOW + 30 * 86_400_000_000);
  assert.deepEqual(expired.filter(({ project }) => project === 'kept').map(({ run }) => run), ['old']); // prettier-ignore
});
