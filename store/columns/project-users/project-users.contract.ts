/** What must hold on a ClickHouse server: the users that we make reach their own project and nothing else. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { systemClock } from '../../../base/clock.ts';
import { isTapedeckError } from '../../../base/errors.ts';
import { migrate } from '../../../migrations/migrate.ts';
import { ALL_TABLES } from '../all-tables.ts';
import type { ColumnStore } from '../column-store.ts';
import { bytesOf } from '../engine/conformance/access.contract.ts';
import { connectTo, type Address } from '../engine/engine-for-tests.ts';
import { projectDatabase } from '../project-database.ts';
import { insertEvents, storedWorld, summarise } from '../projections/test-world.ts';
import { CATALOGUE } from '../views/catalogue.ts';
import { ensureProject } from '../views/ensure-project.ts';
import { ProjectUsers } from './project-users.ts';
import { GRANTED_SYSTEM_TABLES, profileName, projectUser } from './statements.ts';

const CAPS = { timeoutMs: 60_000, memoryBytes: 4 * 1024 ** 3, readRows: 2_000_000_000, readBytes: 1e11, resultRows: 10_000_000 };
const [READONLY, ACCESS_DENIED, CONSTRAINT, UNKNOWN_DATABASE] = [164, 497, 452, 81];

export function projectUsersContract(name: string, server: Address): void {
  describe(`${name}: the user of a project`, () => {
    const mark = randomUUID().slice(0, 8);
    const target = { database: `users_${mark}`, cluster: null };
    // one id is the beginning of the other
    const [project, other] = [`a${mark}`, `a${mark}b`] as const;
    const database = projectDatabase(project);
    let owner: ColumnStore;
    let users: ProjectUsers;
    const withSecret = (secret: string): ProjectUsers => new ProjectUsers({ store: owner, target, caps: CAPS, secret });
    const ask = (sql: string, store: ColumnStore = users): Promise<object[]> => store.rows(sql, { database });
    const codeOf = async (work: Promise<unknown>): Promise<unknown> =>
      work.then(
        () => 0,
        (error: unknown) => (isTapedeckError(error) ? error.details['clickhouseCode'] : error),
      );

    before(async () => {
      const maker = connectTo(server);
      await migrate(maker, { ...target, clock: systemClock });
      await maker.close();
      owner = connectTo(server, target.database);
      for (const each of [other, project]) {
        await ensureProject(owner, each, target);
        const block = await insertEvents(owner, storedWorld(each));
        await summarise(owner, block.touched);
      }
      users = withSecret('first');
      await users.prepare();
    });
    after(async () => {
      if (owner === undefined) return;
      for (const each of [project, other]) {
        await owner.command(`DROP USER IF EXISTS ${projectUser(target, projectDatabase(each))}`);
        await owner.command(`DROP DATABASE IF EXISTS ${projectDatabase(each)}`);
      }
      await owner.command(`DROP SETTINGS PROFILE IF EXISTS ${profileName(target)}`);
      await owner.command(`DROP DATABASE IF EXISTS ${target.database}`);
      await owner.close();
    });

    test('asks under its own name, and reads every view as its owner does', async () => {
      assert.deepEqual(await ask('SELECT currentUser() AS u, currentDatabase() AS d'), [{ u: projectUser(target, database), d: database }]);
      for (const view of CATALOGUE) {
        const sql = `SELECT count() AS n, groupUniqArray(project) AS projects FROM ${view.name}`;
        assert.deepEqual(await ask(sql), await ask(sql, owner), view.name);
        await ask(view.example);
      }
    });

    test('streams, binds parameters and narrows its bounds', async () => {
      const options = { database, params: { p: project }, settings: { readonly: 1, max_result_rows: 5, max_memory_usage: 1e9 } };
      const { body } = await users.stream('SELECT project FROM runs WHERE project = {p:String}', 'TSV', options);
      assert.equal((await bytesOf(body)).toString(), `${project}\n`);
      assert.equal((await ask('SELECT number FROM system.numbers LIMIT 3')).length, 3);
      for (const table of ['one', 'functions', 'formats', 'settings', 'data_type_families', 'table_engines', 'time_zones', 'collations', 'aggregate_function_combinators', ...GRANTED_SYSTEM_TABLES])
        await ask(`SELECT * FROM system.${table} LIMIT 1`); // prettier-ignore
    });

    test('reads no table, no view of another project, and nothing about them', async () => {
      const tables = ALL_TABLES.map((table) => `${target.database}.${table.name}`);
      const views = CATALOGUE.map((view) => `${projectDatabase(other)}.${view.name}`);
      const server = ['users', 'grants', 'processes', 'query_log', 'parts'].map((table) => `system.${table}`);
      for (const source of [...tables, ...views, ...server]) assert.equal(await codeOf(ask(`SELECT * FROM ${source} LIMIT 1`)), ACCESS_DENIED, source); // prettier-ignore
      for (const source of ["file('x', 'CSV', 'a String')", "url('http://127.0.0.1:1/', 'CSV', 'a String')", "remote('127.0.0.1', 'system.one')"])
        assert.notEqual(await codeOf(ask(`SELECT * FROM ${source}`)), 0, source); // prettier-ignore
      const foreign = `database NOT IN ('${database}', 'system', 'information_schema', 'INFORMATION_SCHEMA')`;
      assert.deepEqual(await ask(`SELECT name FROM system.tables WHERE ${foreign}`), []);
      assert.deepEqual(await ask(`SELECT name FROM system.columns WHERE ${foreign}`), []);
      assert.deepEqual(await ask(`SELECT name FROM system.databases WHERE startsWith(name, 'p_') OR name = '${target.database}'`), [{ name: database }]); // prettier-ignore
    });

    test('writes and grants nothing', async () => {
      for (const sql of [
        'CREATE TABLE mine (a UInt8) ENGINE = Memory',
        `CREATE VIEW ${database}.mine AS SELECT 1`,
        'CREATE FUNCTION mine AS () -> 1',
        'CREATE USER mine',
        `DROP VIEW ${database}.runs`,
        `INSERT INTO ${target.database}.tombstones (project) VALUES ('x')`,
        `TRUNCATE TABLE ${target.database}.nodes`,
        `SYSTEM STOP MERGES ${target.database}.nodes`,
        'SET readonly = 0',
      ]) {
        const code = await codeOf(users.command(sql, { database }));
        assert.ok(code === READONLY || code === ACCESS_DENIED, `${sql}: ${String(code)}`);
      }
      assert.notEqual(await codeOf(users.command(`GRANT SELECT ON ${database}.* TO ${projectUser(target, database)}`, { database })), 0);
    });

    test('cannot lift its bounds', async () => {
      for (const setting of ['max_memory_usage', 'max_rows_to_read', 'max_bytes_to_read', 'max_result_rows'])
        for (const value of [0, 10 ** 12 + 1]) assert.equal(await codeOf(users.rows('SELECT 1', { database, settings: { [setting]: value } })), CONSTRAINT, setting); // prettier-ignore
      assert.equal(await codeOf(users.rows('SELECT 1 SETTINGS readonly = 0', { database })), READONLY);
    });

    test('is made again when it is gone, and when the secret is another', async () => {
      await owner.command(`DROP USER ${projectUser(target, database)}`);
      assert.equal((await ask('SELECT 1 AS x')).length, 1);
      const renewed = withSecret('second');
      assert.equal((await ask('SELECT 1 AS x', renewed)).length, 1);
      // the first one's password is over: it makes the user its own again
      assert.equal((await ask('SELECT 1 AS x')).length, 1);
      await Promise.all(Array.from({ length: 5 }, () => ask('SELECT 1 AS x', withSecret('first'))));
    });

    test('keeps no right that somebody gave it', async () => {
      await owner.command(`GRANT SELECT ON ${target.database}.* TO ${projectUser(target, database)}`);
      assert.equal(await codeOf(ask(`SELECT count() FROM ${target.database}.nodes`)), 0);
      const next = withSecret('first');
      assert.equal(await codeOf(ask(`SELECT count() FROM ${target.database}.nodes`, next)), ACCESS_DENIED);
    });

    test('there is none of a project that nobody wrote to', async () => {
      const nobody = projectDatabase(`${project}_nobody`);
      assert.equal(await codeOf(users.rows('SELECT 1', { database: nobody })), UNKNOWN_DATABASE);
      assert.deepEqual(await owner.rows('SELECT name FROM system.users WHERE name = {name:String}', { params: { name: projectUser(target, nobody) } }), []); // prettier-ignore
    });
  });
}
