/** The unmodified JDBC driver against the endpoint. Of the kind that has Java and Maven. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { jdbcDriver } from '../../e2e/jdbc-driver.ts';
import { PASSWORDS, startTestEndpoint } from './endpoint-for-tests.ts';

const run = promisify(execFile);
const driver = await jdbcDriver();

test('ClickHouse JDBC driver', { skip: 'missing' in driver && driver.missing }, async (t) => {
  assert.ok('classPath' in driver);
  const endpoint = await startTestEndpoint();
  t.after(() => endpoint.close());
  const checks = [join(import.meta.dirname, 'JdbcReadChecks.java'), new URL(endpoint.url).host, PASSWORDS.default];
  const { stdout } = await run('java', ['-cp', driver.classPath, ...checks], { timeout: 240_000 });
  const lines = stdout.trim().split('\n').map((line) => line.split('\t')); // prettier-ignore
  assert.ok(lines.length >= 9, stdout);
  for (const [name, outcome] of lines) await t.test(name, () => assert.equal(outcome, 'ok'));
});
