/** `tapedeck sql` and `tapedeck trace` as a user runs them: a process of their own, asking a server over HTTP. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import { startTestEngine } from '../../query/engine-for-tests.ts';
import type { TestEngine } from '../../query/engine-for-tests.ts';
import { DATABASE, eventWriter, prepareStore } from '../../query/events-for-tests.ts';
import { listRoutes } from '../../query/routes/lists.ts';
import { sqlRoutes } from '../../query/routes/sql.ts';
import { traceRoutes } from '../../query/routes/traces.ts';
import { DEFAULT_SQL_LIMITS } from '../../query/sql/limits.ts';
import { createSqlRunner } from '../../query/sql/run-sql.ts';

let engine: TestEngine;
let app: FastifyInstance;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  const inTrace = { run: 'run-1', rollout: 'r-1', trace: 't-1' };
  const message = (content: string) => ({ role: 'user', content });
  await eventWriter(engine.store)([
    { type: 'node.appended', ...inTrace, data: { index: 0, role: 'user', sampled: false, message: message('Hello\u001b[2J') } },
    { type: 'node.appended', ...inTrace, data: { index: 1, parent: 0, role: 'assistant', sampled: true, message: message('One.') } },
    { type: 'node.appended', ...inTrace, data: { index: 2, parent: 0, role: 'assistant', sampled: true, message: message('Two.'), forkReason: 'resample' } },
  ]); // prettier-ignore
  app = Fastify();
  await app.register(sqlRoutes, {
    run: createSqlRunner({ store: engine.store, limits: DEFAULT_SQL_LIMITS, ensureProject: async () => {} }),
  });
  await app.register(traceRoutes, { store: engine.store });
  await app.register(listRoutes, { store: engine.store });
  await app.listen({ host: '127.0.0.1', port: 0 });
});
after(async () => {
  await app?.close();
  await engine?.close();
});

type Ended = { readonly code: number | null; readonly out: string; readonly err: string };

function tapedeck(args: readonly string[], input = '', url = app.listeningOrigin): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../main.ts'), ...args], {
      env: { PATH: process.env['PATH'], TAPEDECK_URL: url },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    child.on('close', (code) => resolve({ code, out, err }));
    child.stdin.end(input);
  });
}

test('sql: TSV in a pipe, from an argument or from stdin, with parameters', async () => {
  const expected = { code: 0, out: 'role\tn\nassistant\t2\nuser\t1\n', err: '' };
  const query = 'SELECT role, count() AS n FROM nodes GROUP BY role ORDER BY role';
  assert.deepEqual(await tapedeck(['sql', query]), expected);
  assert.deepEqual(await tapedeck(['sql'], query), expected);
  const one = await tapedeck([
    'sql',
    '--param',
    'role=user',
    '--param',
    'n=0',
    '-f',
    'ndjson',
    'SELECT index FROM nodes WHERE role = {role:String} AND index = {n:UInt32}',
  ]);
  assert.deepEqual(one, { code: 0, out: '{"index":0}\n', err: '' });
});

test('sql: a table on request, JSON for programs', async () => {
  const table = await tapedeck(['sql', '--format', 'table', 'SELECT index, text FROM nodes ORDER BY index']);
  assert.equal(table.out, 'index  text\n─────  ──────────\n    0  Hello\\e[2J\n    1  One.\n    2  Two.\n3 rows\n');
  const json = await tapedeck(['sql', '--json', 'SELECT 1 AS x']);
  assert.deepEqual((JSON.parse(json.out) as { data: unknown[] }).data, [{ x: 1 }]);
});

test('sql: errors go to stderr with a caret, and the exit code says so', async () => {
  const wrong = await tapedeck(['sql', 'SELECT foo FROM nodes']);
  assert.deepEqual([wrong.code, wrong.out], [1, '']);
  assert.match(wrong.err, /sql_error, ClickHouse 47/);
  assert.match(wrong.err, /line 1, column 8: SELECT foo FROM nodes\n {25}\^\n/);
  const away = await tapedeck(['sql', 'SELECT 1'], '', 'http://127.0.0.1:1');
  assert.equal(away.code, 1);
  assert.match(away.err, /no server answers at http:\/\/127\.0\.0\.1:1/);
  const misused = await tapedeck(['sql', '--format', 'xml', 'SELECT 1']);
  assert.notEqual(misused.code, 0);
  assert.match(misused.err, /Allowed choices are table, json/);
});

test('trace: a tree, JSON, the tokens of a branch, and what is not there', async () => {
  const tree = await tapedeck(['trace', 't-1']);
  assert.equal(tree.code, 0, tree.err);
  assert.match(tree.out, /├─ #1 assistant ●/);
  assert.match(tree.out, /└─ #2 assistant ● +- {2}fork: resample Two\./);
  assert.match(tree.out, /Hello\\e\[2J/);
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(tree.out, /\u001b/);
  const json = await tapedeck(['trace', 't-1', '--json']);
  assert.equal((JSON.parse(json.out) as { graph: { branchCount: number } }).graph.branchCount, 2);
  assert.match((await tapedeck(['trace', 't-1', '--tokens'])).out, /^branch 2 /);
  const missing = await tapedeck(['trace', 'nope']);
  assert.deepEqual([missing.code, missing.out], [1, '']);
  assert.match(missing.err, /there is no trace "nope"/);
});
