import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findPython } from '../../../../e2e/python.ts';
import { connectTo, startTestEngine } from '../engine-for-tests.ts';

const run = promisify(execFile);
const CHECKS = join(import.meta.dirname, 'clickhouse_connect_checks.py');

const found = await findPython({
  packages: ['clickhouse-connect[async]==1.12.0', 'pandas==3.1.1', 'pyarrow==26.0.1'],
  imports: ['clickhouse_connect', 'aiohttp', 'pandas', 'pyarrow'],
});

test('the embedded engine: Python clickhouse-connect', { skip: 'missing' in found && found.missing }, async (t) => {
  assert.ok('python' in found);
  const engine = await startTestEngine();
  t.after(() => engine.close());
  const store = connectTo(engine);
  await store.command('CREATE DATABASE from_python');
  await store.close();
  const { hostname, port } = new URL(engine.url);
  const { stdout } = await run(found.python, [CHECKS, hostname, port, engine.user, engine.password, 'from_python'], { timeout: 180_000 });
  const checks = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { name: string; error: string | null });
  assert.ok(checks.length > 10);
  for (const { name, error } of checks) await t.test(name, () => assert.equal(error, null, error ?? ''));
});
