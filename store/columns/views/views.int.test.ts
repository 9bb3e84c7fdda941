import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { migrate } from '../../../migrations/migrate.ts';
import type { ColumnStore } from '../column-store.ts';
import { insertEvents, storedWorld, summarise } from '../projections/test-world.ts';
import { openTestStore, type TestStore } from '../test-store.ts';
import { CATALOGUE } from './catalogue.ts';
import { sqlDocs } from './docs.ts';
import { ensureKnownProjects, ensureProject } from './ensure-project.ts';

const OPTIONS = { database: 'store', cluster: null };
/** An id that tries to leave its literal. */
const HOSTILE = "x' OR 1 = 1 \\' -- `\0";
let engine: TestStore;
let store: ColumnStore;
let database: string;

before(async () => {
  engine = await openTestStore();
  store = engine.connect('store');
  await migrate(engine.connect('default'), { ...OPTIONS, clock: systemClock });
  database = await ensureProject(store, 'default', OPTIONS);
  const block = await insertEvents(store, storedWorld('default'));
  await summarise(store, block.touched);
});
after(() => engine.close());

test('the catalogue and the engine agree on every view and column, in order', async () => {
  const rows = await store.rows<{ table: string; name: string }>(
    'SELECT table, name FROM system.columns WHERE database = {database:String} ORDER BY table, position',
    { params: { database } },
  );
  const found = Object.groupBy(rows, ({ table }) => table);
  const engineSays = Object.fromEntries(Object.entries(found).map(([table, columns]) => [table, columns?.map(({ name }) => name)]));
  assert.deepEqual(engineSays, Object.fromEntries(CATALOGUE.map((view) => [view.name, view.columns.map(({ name }) => name)])));
});

test('every number and time has a unit, and nothing else has one', async () => {
  const rows = await store.rows<{ table: string; name: string; type: string }>(
    'SELECT table, name, type FROM system.columns WHERE database = {database:String}',
    { params: { database } },
  );
  const wrong = rows.flatMap(({ table, name, type }) => {
    const unit = CATALOGUE.find((view) => view.name === table)?.columns.find((column) => column.name === name)?.unit;
    return /\b(U?Int|Float|DateTime|Decimal)\d+/.test(type) === (unit !== undefined) ? [] : [`${table}.${name} ${type}: ${unit}`];
  });
  assert.deepEqual(wrong, []);
  const times = CATALOGUE.flatMap((view) => view.columns.filter(({ unit }) => unit === 'µs').map(({ name }) => `${view.name}.${name}`));
  assert.deepEqual(rows.filter(({ type }) => type.includes('DateTime')).map(({ table, name }) => `${table}.${name}`).toSorted(), times.toSorted()); // prettier-ignore
});

/** The names that people and programs rely on, whatever else a view shows. */
const PROMISED: Readonly<Record<string, string>> = {
  runs: 'kind name config tags started ended status',
  groups: 'group task_key env size sealed reason rollouts reward_mean reward_std solved',
  rollouts: 'rollout group task_key env attempt parent_rollout fork_node step policy_version_min policy_version_max ok stop_condition truncated reward input_tokens output_tokens turns branches cost error_type started ended',
  traces: 'rollout trace group task_key env agent model trainable ok stop_condition truncated reward nodes calls turns branches input_tokens output_tokens started ended',
  nodes: 'rollout trace index parent role sampled text reasoning tool_calls message token_ids mask is_content logprobs reference_logprobs policy_version call fork_reason time',
  calls: 'rollout trace index node model endpoint dialect sampling finish_reason prompt_tokens completion_tokens cached_tokens reasoning_tokens cost started first_token ended policy_version stream retry_of error_type error_message',
  tools: 'rollout trace tool_call_id name node result_node started ended error',
  links: 'rollout from_trace from_node to_trace to_node type',
  rewards: 'rollout trace scope name score weight source_kind source_name source_version time',
  rewards_history: 'rollout trace scope name score weight source_kind source_name source_version time',
  metrics: 'rollout trace scope name value time',
  errors: 'rollout trace scope type message status_code traceback time',
  policies: 'version step uri trainer time',
  trainer_steps: 'step feed batch metrics',
  batches: 'feed n batch_id algorithm policy_version cut committed step',
  batch_rows: 'feed n row_id leaf rank micro_batch position seq_len advantage weights staleness',
  dropped_samples: 'feed n leaf reason',
  events: 'partition offset id type time producer bytes',
}; // prettier-ignore

test('every promised view and column is there', () => {
  for (const [name, columns] of Object.entries(PROMISED)) {
    const there = new Set(CATALOGUE.find((view) => view.name === name)?.columns.map((column) => column.name));
    assert.deepEqual(columns.split(' ').filter((column) => !there.has(column)), [], name); // prettier-ignore
  }
});

test('every view begins with project and run, and no time is without microseconds and zone', async () => {
  for (const view of CATALOGUE)
    assert.deepEqual(
      view.columns.slice(0, 2).map(({ name }) => name),
      ['project', 'run'],
      view.name,
    );
  const rows = await store.rows<{ type: string }>(
    "SELECT DISTINCT type FROM system.columns WHERE database = {database:String} AND type LIKE '%Date%'",
    { params: { database } },
  );
  assert.deepEqual(rows.map(({ type }) => type).toSorted(), ["DateTime64(6, 'UTC')", "Nullable(DateTime64(6, 'UTC'))"]);
});

for (const view of CATALOGUE) {
  test(`the example of ${view.name} runs in the project's database`, async () => {
    for (const sql of [view.example, ...(view.questions ?? []).map((question) => question.sql)]) await engine.connect(database).rows(sql);
    const rows = await engine.connect(database).rows(`SELECT * FROM ${view.name} LIMIT 5`);
    if (view.name !== 'search') assert.ok(rows.length > 0);
  });
}

test('docs/sql.md is what the catalogue says', () => {
  const fresh = sqlDocs();
  const stored = readFileSync(new URL('../../../docs/sql.md', import.meta.url), 'utf8');
  assert.equal(stored, fresh, 'run: node store/columns/views/docs.ts > docs/sql.md');
});

test('a project sees its own rows only, whatever its id', async () => {
  await insertEvents(store, storedWorld('other').slice(0, 3));
  const hostile = await ensureProject(store, HOSTILE, OPTIONS);
  for (const view of CATALOGUE) assert.deepEqual(await engine.connect(hostile).rows(`SELECT * FROM ${view.name}`), [], view.name);
  const projects = await engine.connect(await ensureProject(store, 'other', OPTIONS)).rows('SELECT DISTINCT project FROM runs');
  assert.deepEqual(projects, [{ project: 'other' }]);
});

test('views are made once, and again only when their definition changed', async () => {
  const made = (): Promise<object[]> => store.rows('SELECT name, toString(metadata_modification_time) AS at, toString(uuid) AS id FROM system.tables WHERE database = {database:String} ORDER BY name', { params: { database } }); // prettier-ignore
  const before = await made();
  assert.equal(await ensureProject(store, 'default', OPTIONS), database);
  assert.deepEqual(await made(), before);
  await store.command("INSERT INTO projects (project, database, views) SETTINGS async_insert = 0 VALUES ('default', 'p_default', 'older')");
  assert.deepEqual(await ensureKnownProjects(store, OPTIONS), ['default', 'other', HOSTILE].toSorted());
  assert.notDeepEqual(await made(), before);
});
