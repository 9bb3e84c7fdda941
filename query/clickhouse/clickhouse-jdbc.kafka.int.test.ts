/** The unmodified JDBC driver against the endpoint. Of the kind that has Java and Maven. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jdbcChecks, jdbcDriver } from '../../e2e/jdbc-driver.ts';
import { PASSWORDS, startTestEndpoint } from './endpoint-for-tests.ts';

const driver = await jdbcDriver();

test('ClickHouse JDBC driver', { skip: 'missing' in driver && driver.missing }, async (t) => {
  assert.ok('classPath' in driver);
  const endpoint = await startTestEndpoint();
  t.after(() => endpoint.close());
  const found = await jdbcChecks(driver.classPath, {
    kind: 'views',
    host: new URL(endpoint.url).host,
    database: 'default',
    user: 'anybody',
    password: PASSWORDS.default,
  });
  assert.equal(found.size, 13, String([...found.keys()]));
  for (const [name, outcome] of found) await t.test(name, () => assert.equal(outcome, 'ok'));
});
