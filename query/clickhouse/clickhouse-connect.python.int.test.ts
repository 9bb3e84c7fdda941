/** Unmodified clickhouse-connect against `/clickhouse/`. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { findPython } from '../../e2e/python.ts';
import { PASSWORDS, startTestEndpoint } from './endpoint-for-tests.ts';

const run = promisify(execFile);
const found = await findPython({
  packages: ['clickhouse-connect[async]==1.12.0', 'pandas==3.1.1', 'pyarrow==26.0.1'],
  imports: ['clickhouse_connect', 'aiohttp', 'pandas', 'pyarrow'],
});

test('Python clickhouse-connect', { skip: 'missing' in found && found.missing }, async (t) => {
  assert.ok('python' in found);
  const endpoint = await startTestEndpoint();
  t.after(() => endpoint.close());
  const { hostname, port } = new URL(endpoint.url);
  const checks = join(import.meta.dirname, 'clickhouse_connect_read_checks.py');
  const { stdout } = await run(found.python, [checks, hostname, port, PASSWORDS.default], { timeout: 240_000 });
  const lines = stdout.trim().split('\n').map((line) => JSON.parse(line) as { name: string; error: string | null }); // prettier-ignore
  assert.ok(lines.length >= 10, stdout);
  for (const { name, error } of lines) await t.test(name, () => assert.equal(error, null, error ?? ''));
});
