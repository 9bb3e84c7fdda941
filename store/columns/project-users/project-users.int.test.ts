/** The rights of a project's user: the statements, what the engine makes of them, and what a user with these rights reaches. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { migrate } from '../../../migrations/migrate.ts';
import { ALL_TABLES } from '../all-tables.ts';
import { connectTo, startTestEngine } from '../engine/engine-for-tests.ts';
import { insertEvents, storedWorld, summarise } from '../projections/test-world.ts';
import { CATALOGUE } from '../views/catalogue.ts';
import { ensureProject, projectStatements } from '../views/ensure-project.ts';
import { DEFINER, runAsOwner, runAsProject, TARGET, type Answer } from './rights-for-tests.ts';
import { profileStatements, userStatements } from './statements.ts';

const CAPS = { timeoutMs: 60_500, memoryBytes: 4 * 1024 ** 3, readRows: 2_000_000_000, readBytes: 1e11, resultRows: 10_000_000 };
const SCHEMA = { database: TARGET.database, cluster: null };
const SETTINGS =
  'readonly = 2, max_execution_time = 61 MIN 0.001 MAX 61, max_memory_usage = 4294967296 MIN 1 MAX 4294967296, max_rows_to_read = 2000000000 MIN 1 MAX 2000000000, ' +
  'max_bytes_to_read = 100000000000 MIN 1 MAX 100000000000, max_result_rows = 10000000 MIN 1 MAX 10000000';
const HASH = '5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8'; // sha256 of "password"

let folder: string;
const asProject = (...statements: string[]): Promise<Answer[]> => runAsProject(folder, 'p_a', CAPS, statements);
const codes = (answers: readonly Answer[]): number[] => answers.map((answer) => ('code' in answer ? answer.code : 0));

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tapedeck-rights-'));
  const engine = await startTestEngine({ dataDir: join(folder, 'engine') });
  const maker = connectTo(engine);
  await migrate(maker, { ...SCHEMA, clock: systemClock });
  const store = connectTo(engine, SCHEMA.database);
  // one id is the beginning of the other; the log's own table keeps what came last at a place
  for (const project of ['ab', 'a']) {
    await ensureProject(store, project, SCHEMA);
    const block = await insertEvents(store, storedWorld(project));
    await summarise(store, block.touched);
  }
  await Promise.all([maker.close(), store.close()]);
  await engine.close();
  const views = ['a', 'ab'].flatMap((project) => projectStatements(project, SCHEMA));
  const made = await runAsOwner(folder, views.map((statement) => statement.replace('DEFINER = CURRENT_USER', `DEFINER = ${DEFINER}`))); // prettier-ignore
  assert.deepEqual(codes(made), made.map(() => 0)); // prettier-ignore
});
after(() => rmSync(folder, { recursive: true, force: true }));

test('the statements for one node and for a cluster are the reviewed ones', () => {
  const cluster = { ...TARGET, cluster: { name: 'main' } };
  assert.deepEqual([...profileStatements(TARGET, CAPS), ...userStatements(TARGET, 'p_a', 'password')], [
    `CREATE SETTINGS PROFILE IF NOT EXISTS \`tapedeck_reader\` SETTINGS ${SETTINGS}`,
    `ALTER SETTINGS PROFILE \`tapedeck_reader\` SETTINGS ${SETTINGS}`,
    `CREATE USER IF NOT EXISTS \`tapedeck_p_a\` IDENTIFIED WITH sha256_hash BY '${HASH}' SETTINGS PROFILE \`tapedeck_reader\``,
    `ALTER USER \`tapedeck_p_a\` IDENTIFIED WITH sha256_hash BY '${HASH}' SETTINGS PROFILE \`tapedeck_reader\``,
    'GRANT SELECT ON `p_a`.*, SELECT ON system.keywords, SELECT ON system.numbers TO `tapedeck_p_a` WITH REPLACE OPTION',
  ]);
  assert.deepEqual([...profileStatements(cluster, CAPS), ...userStatements(cluster, 'p_a', 'password')], [
    `CREATE SETTINGS PROFILE IF NOT EXISTS \`tapedeck_reader\` ON CLUSTER \`main\` SETTINGS ${SETTINGS}`,
    `ALTER SETTINGS PROFILE \`tapedeck_reader\` ON CLUSTER \`main\` SETTINGS ${SETTINGS}`,
    `CREATE USER IF NOT EXISTS \`tapedeck_p_a\` ON CLUSTER \`main\` IDENTIFIED WITH sha256_hash BY '${HASH}' SETTINGS PROFILE \`tapedeck_reader\``,
    `ALTER USER \`tapedeck_p_a\` ON CLUSTER \`main\` IDENTIFIED WITH sha256_hash BY '${HASH}' SETTINGS PROFILE \`tapedeck_reader\``,
    'GRANT ON CLUSTER `main` SELECT ON `p_a`.*, SELECT ON system.keywords, SELECT ON system.numbers TO `tapedeck_p_a` WITH REPLACE OPTION',
  ]);
}); // prettier-ignore

test('the engine parses them all, and carries them out up to the place where users are kept, which it has not', async () => {
  const all = [null, { name: 'main' }].flatMap((cluster) => {
    const target = { ...TARGET, cluster };
    return [...profileStatements(target, CAPS), ...userStatements(target, 'p_a', 'password')];
  });
  assert.deepEqual(codes(await runAsOwner(folder, all.map((statement) => `EXPLAIN AST ${statement}`))), all.map(() => 0)); // prettier-ignore
  const ACCESS_STORAGE_FOR_INSERTION_NOT_FOUND = 514;
  const [profile, , user] = await runAsOwner(folder, [
    ...profileStatements(TARGET, CAPS),
    'CREATE USER IF NOT EXISTS u IDENTIFIED BY ' + `'x'`,
  ]);
  assert.deepEqual(codes([profile as Answer, user as Answer]), [ACCESS_STORAGE_FOR_INSERTION_NOT_FOUND, ACCESS_STORAGE_FOR_INSERTION_NOT_FOUND]); // prettier-ignore
  const wrong = await runAsOwner(folder, ['CREATE SETTINGS PROFILE p SETTINGS max_memory_use = 1', 'CREATE SETTINGS PROFILE p SETTINGS max_memory_usage = x MIN 1']); // prettier-ignore
  assert.deepEqual(codes(wrong), [115, 62], 'a setting that does not exist, and one without a value, are told before');
});

test('a user of a project reads every view of it, without a right on any table', async () => {
  const answers = await asProject(...CATALOGUE.map(({ name }) => `SELECT DISTINCT project FROM ${name}`));
  for (const [at, { name }] of CATALOGUE.entries()) {
    const answer = answers[at] as Answer;
    assert.ok('text' in answer, `${name}: ${JSON.stringify(answer)}`);
    if (name !== 'search') assert.equal(answer.text, '{"project":"a"}\n', name);
  }
  const examples = await asProject(...CATALOGUE.map(({ example }) => example));
  assert.deepEqual(codes(examples), examples.map(() => 0)); // prettier-ignore
});

const ACCESS_DENIED = 497;

test('and no table, no view of another project, and no name of either', async () => {
  const tables = ALL_TABLES.map(({ name }) => `SELECT count() FROM tapedeck.${name}`);
  const views = CATALOGUE.map(({ name }) => `SELECT count() FROM p_ab.${name}`);
  const answers = await asProject(...tables, ...views);
  assert.deepEqual(codes(answers), answers.map(() => ACCESS_DENIED)); // prettier-ignore
  const names = await asProject(
    'SELECT DISTINCT database FROM system.tables WHERE database NOT IN (\'system\', \'information_schema\', \'INFORMATION_SCHEMA\')',
    "SELECT count() AS n FROM system.columns WHERE database = 'tapedeck' OR database = 'p_ab'",
    "SELECT name FROM system.databases WHERE startsWith(name, 'p_') OR name = 'tapedeck'",
  ); // prettier-ignore
  assert.deepEqual(names, [{ text: '{"database":"p_a"}\n' }, { text: '{"n":0}\n' }, { text: '{"name":"p_a"}\n' }]);
});

test('and writes nothing', async () => {
  const answers = await asProject(
    'CREATE TABLE mine (a UInt8) ENGINE = Memory',
    'CREATE TEMPORARY TABLE mine (a UInt8)',
    'CREATE VIEW p_a.mine AS SELECT 1',
    'CREATE FUNCTION mine AS () -> 1',
    'CREATE USER mine',
    'DROP VIEW p_a.runs',
    'DROP DATABASE p_a',
    "INSERT INTO tapedeck.tombstones (project) VALUES ('a')",
    "INSERT INTO FUNCTION file('x.csv', 'CSV', 'a String') SELECT 'x'",
    'TRUNCATE TABLE tapedeck.nodes',
    'SYSTEM STOP MERGES tapedeck.nodes',
    'GRANT SELECT ON tapedeck.* TO default',
  );
  const READONLY = 164;
  for (const answer of answers)
    assert.ok('code' in answer && [READONLY, ACCESS_DENIED].includes(answer.code), JSON.stringify([answers.indexOf(answer), answer]));
});

test('its queries may lower the bounds of the profile, and neither lift nor leave them', async () => {
  const within = await asProject(
    'SELECT 1 SETTINGS max_memory_usage = 1000000, max_execution_time = 0.5, max_result_rows = 7, join_use_nulls = 1, max_threads = 2',
  );
  assert.deepEqual(codes(within), [0]);
  const settings = ['max_memory_usage', 'max_rows_to_read', 'max_bytes_to_read', 'max_result_rows', 'max_execution_time'];
  const beyond = settings.flatMap((name) => [0, 10 ** 12].map((value) => `SELECT 1 SETTINGS ${name} = ${value}`));
  const answers = await asProject(...beyond);
  assert.deepEqual(codes(answers), answers.map(() => 452)); // prettier-ignore
  assert.deepEqual(codes(await asProject('SELECT 1 SETTINGS readonly = 0', 'SET readonly = 1', 'SET readonly = 0')), [164, 164, 164]);
});
