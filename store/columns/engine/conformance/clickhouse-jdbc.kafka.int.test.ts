/** Of the kind that has Java and Maven. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { jdbcDriver } from '../../../../e2e/jdbc-driver.ts';
import { connectTo, startTestEngine } from '../engine-for-tests.ts';

const run = promisify(execFile);
const driver = await jdbcDriver();

test('the embedded engine: ClickHouse JDBC driver', { skip: 'missing' in driver && driver.missing }, async (t) => {
  assert.ok('classPath' in driver);
  const engine = await startTestEngine();
  t.after(() => engine.close());
  const store = connectTo(engine);
  await store.command('CREATE DATABASE from_java');
  await store.close();
  const checks = [join(import.meta.dirname, 'JdbcChecks.java'), new URL(engine.url).host, engine.user, engine.password, 'from_java'];
  const { stdout } = await run('java', ['-cp', driver.classPath, ...checks], { timeout: 240_000 });
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => line.split('\t'));
  assert.ok(lines.length > 10);
  for (const [name, outcome] of lines) await t.test(name, () => assert.equal(outcome, 'ok'));
});
