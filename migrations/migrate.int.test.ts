import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { systemClock } from '../base/clock.ts';
import { isTapedeckError } from '../base/errors.ts';
import { ALL_TABLES } from '../store/columns/all-tables.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { stringLiteral } from '../store/columns/sql-literal.ts';
import { openTestStore, type TestStore } from '../store/columns/test-store.ts';
import { projectStatements } from '../store/columns/views/ensure-project.ts';
import { readMigrations, type Migration } from './files.ts';
import { BOOTSTRAP, migrate, type MigrateOptions } from './migrate.ts';
import { renderStatements } from './render.ts';

let engine: TestStore;
let store: ColumnStore;
before(async () => {
  engine = await openTestStore();
  store = engine.connect('default');
});
after(() => engine.close());

const options = (database: string, more: Partial<MigrateOptions> = {}): MigrateOptions => ({
  database,
  cluster: null,
  clock: systemClock,
  ...more,
});
const ALL = readMigrations();
const NEWEST = ALL.length;

/** Everything a schema is made of, without the names of databases. */
async function schemaOf(database: string): Promise<object[]> {
  const columns = await store.rows<object>(
    'SELECT table, name, type, default_kind, default_expression, is_in_sorting_key, position FROM system.columns WHERE database = {database:String} ORDER BY table, position',
    { params: { database } },
  );
  const tables = await store.rows<object>(
    "SELECT name, engine, replaceAll(engine_full, {database:String}, '') AS engine_full, sorting_key, partition_key FROM system.tables WHERE database = {database:String} ORDER BY name",
    { params: { database } },
  );
  const indices = await store.rows<object>(
    'SELECT table, name, type_full, expr, granularity FROM system.data_skipping_indices WHERE database = {database:String} ORDER BY table, name',
    { params: { database } },
  );
  return [...columns, ...tables, ...indices];
}

test('an empty store is brought to the newest version, once', async () => {
  assert.deepEqual(await migrate(store, options('fresh')), { from: 0, to: NEWEST });
  assert.deepEqual(await migrate(store, options('fresh')), { from: NEWEST, to: NEWEST });
  const left = await store.rows("SELECT name FROM system.tables WHERE database = 'fresh' AND name = 'migration_lock'");
  assert.deepEqual(left, []);
});

test('upgraded one version at a time, the schema is the same as made at once', async () => {
  await migrate(store, options('made_whole'));
  for (let version = 1; version <= NEWEST; version++) {
    assert.deepEqual(await migrate(store, options('made_in_steps', { migrations: ALL.slice(0, version) })), {
      from: version - 1,
      to: version,
    });
  }
  assert.deepEqual(await schemaOf('made_in_steps'), await schemaOf('made_whole'));
});

test('a later migration alters what is there, and the lock is left free', async () => {
  const sql =
    "{{alter nodes}} ADD COLUMN IF NOT EXISTS colour LowCardinality(String);\n-- a comment; with a semicolon\nINSERT INTO {{table progress}} (task, _partition, _offset) VALUES ('a; b', 1, 2);\n";
  const next: Migration = { version: NEWEST + 1, name: 'next.sql', sql, checksum: 'c' };
  await migrate(store, options('later'));
  assert.deepEqual(await migrate(store, options('later', { migrations: [...ALL, next] })), { from: NEWEST, to: NEWEST + 1 });
  assert.deepEqual(await store.rows('SELECT task FROM later.progress'), [{ task: 'a; b' }]);
  assert.deepEqual(await store.rows("SELECT type FROM system.columns WHERE database = 'later' AND table = 'nodes' AND name = 'colour'"), [{ type: 'LowCardinality(String)' }]); // prettier-ignore
  await assert.rejects(migrate(store, options('later')), (error) => isTapedeckError(error, 'schema_unknown'));
});

test('an edited migration is refused', async () => {
  await migrate(store, options('edited'));
  const changed = ALL.map((migration) => ({ ...migration, checksum: 'other' }));
  await assert.rejects(migrate(store, options('edited', { migrations: changed })), (error) => isTapedeckError(error, 'schema_unknown'));
});

test('a migration cut short is run again', async () => {
  const broken = { ...(ALL[0] as Migration), sql: `${(ALL[0] as Migration).sql}\nSELECT throwIf(1);\n` };
  await assert.rejects(migrate(store, options('torn', { migrations: [broken] })));
  assert.deepEqual(await migrate(store, options('torn')), { from: 0, to: NEWEST });
  assert.deepEqual(await schemaOf('torn'), await schemaOf('fresh'));
});

test('every statement may be run again', async () => {
  await migrate(store, options('again'));
  for (const { sql } of ALL) for (const statement of renderStatements(sql, options('again'))) await store.command(statement);
  assert.deepEqual(await schemaOf('again'), await schemaOf('fresh'));
});

test('two processes migrate at the same time: both end well, one does the work', async () => {
  const results = await Promise.all([migrate(store, options('race')), migrate(engine.connect('default'), options('race'))]);
  assert.ok(results.every(({ to }) => to === NEWEST));
  assert.deepEqual(await store.rows('SELECT toUInt32(count()) AS n FROM race.schema_version'), [{ n: NEWEST }]);
});

test('the lock of a dead process is taken over when its time is up', async () => {
  await store.command('CREATE DATABASE dead');
  await store.command("CREATE TABLE dead.migration_lock (x UInt8) ENGINE = Memory COMMENT '1'");
  assert.deepEqual(await migrate(store, options('dead')), { from: 0, to: NEWEST });
});

test('the typed columns in code are the columns in the engine, in order', async () => {
  for (const { name, columns } of ALL_TABLES) {
    const found = await store.rows<{ name: string; type: string }>(
      "SELECT name, type FROM system.columns WHERE database = 'fresh' AND table = {name:String} AND default_kind = '' ORDER BY position",
      { params: { name } },
    );
    const wanted = Object.entries(columns).map(([column, type]) => ({ name: column, type: type.sql }));
    assert.deepEqual(found, wanted, name);
  }
  const tables = await store.rows<{ name: string }>(
    "SELECT name FROM system.tables WHERE database = 'fresh' AND name != 'schema_version' ORDER BY name",
  );
  assert.deepEqual(tables.map(({ name }) => name), ALL_TABLES.map(({ name }) => name).toSorted()); // prettier-ignore
});

test('every table is a ReplacingMergeTree without partitions and without insert deduplication', async () => {
  const tables = await store.rows<{ name: string; engine: string; partition_key: string; full: string }>(
    "SELECT name, engine, partition_key, engine_full AS full FROM system.tables WHERE database = 'fresh'",
  );
  for (const { name, engine: kind, partition_key: partition, full } of tables) {
    assert.deepEqual([kind, partition], ['ReplacingMergeTree', ''], name);
    assert.match(full, /non_replicated_deduplication_window = 0/, name);
  }
});

const CLUSTER = { database: 'tape', cluster: { name: 'main' } };
const clusterSql = (): string[] => [
  ...renderStatements(BOOTSTRAP, CLUSTER),
  ...ALL.flatMap(({ sql }) => renderStatements(sql, CLUSTER)),
  ...projectStatements('default', CLUSTER).slice(0, 3),
];

test('the statements for a cluster are the reviewed ones', () => {
  const golden = new URL('golden/cluster.sql', import.meta.url);
  const rendered = `${clusterSql().join(';\n\n')};\n`;
  if (process.env['TAPEDECK_GOLDEN'] === 'write') writeFileSync(golden, rendered);
  assert.equal(readFileSync(golden, 'utf8'), rendered, 'run with TAPEDECK_GOLDEN=write after a review');
});

test('on a cluster every table is written and read under its own name: none is a view, which takes no rows', () => {
  const statements = clusterSql();
  for (const { name } of ALL_TABLES) {
    const made = statements.filter((statement) => statement.includes(` \`tape\`.${name} ON CLUSTER \`main\``));
    assert.ok(
      made.some((statement) => /^CREATE TABLE [^]*ENGINE = (Distributed|ReplicatedReplacingMergeTree)\(/.test(statement)),
      name,
    );
    assert.ok(!made.some((statement) => statement.startsWith('CREATE VIEW')), name);
  }
});

test('the engine parses the statements for a cluster', async () => {
  for (const statement of clusterSql()) {
    const [row] = await store.rows<{ text: string }>(`SELECT formatQuery(${stringLiteral(statement)}) AS text`);
    assert.match(String(row?.text), statement.startsWith('INSERT') ? /INSERT INTO tape\.(?!\w+_local)/ : /ON CLUSTER main/);
    await store.command(`EXPLAIN AST ${statement}`);
  }
  const wrong = (clusterSql()[1] as string).replace('ENGINE', 'ENGINES');
  await assert.rejects(store.command(`EXPLAIN AST ${wrong}`), (error) => isTapedeckError(error));
});
