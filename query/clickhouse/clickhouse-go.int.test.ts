/** The unmodified clickhouse-go, the client of Grafana's data source, against the endpoint. Runs where Go is. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { goProgram } from '../../e2e/go-program.ts';
import { PASSWORDS, startTestEndpoint } from './endpoint-for-tests.ts';

const run = promisify(execFile);
const program = await goProgram(join(import.meta.dirname, 'clickhouse-go'));

test('clickhouse-go', { skip: 'missing' in program && program.missing }, async (t) => {
  assert.ok('path' in program);
  t.after(() => program.remove());
  const endpoint = await startTestEndpoint();
  t.after(() => endpoint.close());
  const { stdout } = await run(program.path, [new URL(endpoint.url).host, PASSWORDS.default], { timeout: 300_000 });
  const lines = stdout.trim().split('\n').map((line) => line.split('\t')); // prettier-ignore
  assert.equal(lines.length, 14, stdout);
  for (const [name, outcome] of lines) await t.test(name, () => assert.equal(outcome, 'ok'));
});
