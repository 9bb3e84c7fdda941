/** How the events of one rollout are found among many. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestEngine, type TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { POSITIONS } from './rollout-events.ts';

const ROWS = 300_000;
const EVENTS = 100;
const AT_ONCE = 64;
let engine: TestEngine;

/** Rollouts of 100 events in one partition, 64 of them at the same time, as a trainer makes them. */
before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, []);
  const rollout = `concat('r-', toString(intDiv(number, ${EVENTS * AT_ONCE}) * ${AT_ONCE} + number % ${AT_ONCE}))`;
  await engine.store.command(
    `INSERT INTO log_index (status, type, project, run, rollout, _partition, _offset) SELECT 'stored', 'node.appended', 'default', 'run-1', ${rollout}, 0, number FROM numbers(${ROWS})`,
  );
});
after(() => engine.close());

const params = { project: 'default', run: 'run-1', rollout: 'r-1500' };
const offsets = async (): Promise<number[]> =>
  (await engine.store.rows<{ offset: string }>(POSITIONS, { params })).map(({ offset }) => Number(offset));

test('a rollout is found without reading the whole table', async () => {
  const first = Math.floor(1500 / AT_ONCE) * EVENTS * AT_ONCE + (1500 % AT_ONCE);
  assert.deepEqual(
    await offsets(),
    Array.from({ length: EVENTS }, (_, i) => first + i * AT_ONCE),
  );
  const lines = (await engine.store.rows<{ explain: string }>(`EXPLAIN indexes = 1 ${POSITIONS}`, { params })).map((row) => row.explain.trim()); // prettier-ignore
  const [, read, all] = /Granules: (\d+)\/(\d+)/.exec(lines.slice(lines.indexOf('Name: by_rollout')).join('\n')) ?? [];
  assert.ok(Number(all) > 30 && Number(read) <= 8, lines.join('\n'));
});

test('a record that became deleted later, in another part of the table, is left out', async () => {
  const [first = 0, ...others] = await offsets();
  await engine.store.command(
    `INSERT INTO log_index (status, type, project, run, rollout, _partition, _offset) VALUES ('deleted', 'node.appended', 'default', 'run-1', 'r-1500', 0, ${first})`,
  );
  assert.deepEqual(await offsets(), others);
});
