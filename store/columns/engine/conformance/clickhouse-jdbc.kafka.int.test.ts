/** Of the kind that has Java and Maven. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jdbcChecks, jdbcDriver } from '../../../../e2e/jdbc-driver.ts';
import { connectTo, startTestEngine } from '../engine-for-tests.ts';

const driver = await jdbcDriver();

test('the embedded engine: ClickHouse JDBC driver', { skip: 'missing' in driver && driver.missing }, async (t) => {
  assert.ok('classPath' in driver);
  const engine = await startTestEngine();
  t.after(() => engine.close());
  const store = connectTo(engine);
  await store.command('CREATE DATABASE from_java');
  await store.close();
  const { user, password } = engine;
  const found = await jdbcChecks(driver.classPath, {
    kind: 'server',
    host: new URL(engine.url).host,
    database: 'from_java',
    user,
    password,
  });
  assert.equal(found.size, 11, String([...found.keys()]));
  for (const [name, outcome] of found) await t.test(name, () => assert.equal(outcome, 'ok'));
});
