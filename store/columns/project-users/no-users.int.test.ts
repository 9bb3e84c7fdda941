/** A store that makes no users, as the embedded engine: told with the remedy, before any query of a project runs. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isTapedeckError } from '../../../base/errors.ts';
import type { ColumnStore } from '../column-store.ts';
import { connectTo, startTestEngine, type TestEngine } from '../engine/engine-for-tests.ts';
import { ProjectUsers } from './project-users.ts';

const CAPS = { timeoutMs: 60_000, memoryBytes: 1e9, readRows: 1e9, readBytes: 1e9, resultRows: 1e6 };
let engine: TestEngine;
let store: ColumnStore;
let users: ProjectUsers;

before(async () => {
  engine = await startTestEngine();
  store = connectTo(engine);
  await store.command('CREATE DATABASE p_a');
  users = new ProjectUsers({ store, target: { database: 'tapedeck', cluster: null }, caps: CAPS, secret: 'secret' });
});
after(async () => {
  await store.close();
  await engine.close();
});

const codeOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 0,
    (error: unknown) => (isTapedeckError(error) ? error.details['clickhouseCode'] : error),
  );

test('neither the profile nor a query of a project goes on as somebody else', async () => {
  const remedy = (error: unknown): boolean => isTapedeckError(error, 'config_invalid') && /TAPEDECK_CLICKHOUSE_PROJECT_USERS=false/.test(error.message); // prettier-ignore
  await assert.rejects(users.prepare(), remedy);
  await assert.rejects(users.rows('SELECT 1', { database: 'p_a' }), remedy);
  await assert.rejects(users.stream('SELECT 1', 'TSV', { database: 'p_a' }), remedy);
  await assert.rejects(users.command('SELECT 1', { database: 'p_a' }), remedy);
});

test('a project that nobody wrote to is no database, and other queries are the owner’s', async () => {
  const UNKNOWN_DATABASE = 81;
  assert.equal(await codeOf(users.rows('SELECT 1', { database: 'p_nobody' })), UNKNOWN_DATABASE);
  assert.deepEqual(await users.rows('SELECT currentDatabase() AS d'), [{ d: 'default' }]);
  assert.deepEqual(await users.rows('SELECT 1 AS x', { database: 'system', settings: { readonly: 1 } }), [{ x: 1 }]);
});

test('the credentials of a query are those that are checked', async () => {
  const AUTHENTICATION_FAILED = 516;
  const wrong = { user: engine.user, password: 'wrong' };
  assert.equal(await codeOf(store.rows('SELECT 1', { credentials: wrong })), AUTHENTICATION_FAILED);
  assert.equal(await codeOf(store.rows('SELECT 1', { credentials: { user: engine.user, password: engine.password } })), 0);
  await store.command('CREATE TABLE t (a UInt8) ENGINE = Memory');
  assert.equal(await codeOf(store.insertNative('t', ['a'], Buffer.from('\x01\x01\x01a\x05UInt8\x07'), { credentials: wrong })), AUTHENTICATION_FAILED);
}); // prettier-ignore
