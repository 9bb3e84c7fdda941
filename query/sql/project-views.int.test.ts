/** Questions that arrive while the views of a project are being made, in every state of that work. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CATALOGUE } from '../../store/columns/views/catalogue.ts';
import { ensureProject, projectStatements } from '../../store/columns/views/ensure-project.ts';
import { startTestEngine, type TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { DEFAULT_SQL_LIMITS } from './limits.ts';
import { createSqlRunner, type SqlRunner } from './run-sql.ts';

const SCHEMA = { database: DATABASE, cluster: null };
let engine: TestEngine;
let run: SqlRunner;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, []);
  const ensure = async (project: string): Promise<void> => void (await ensureProject(engine.store, project, SCHEMA));
  run = createSqlRunner({ store: engine.store, limits: DEFAULT_SQL_LIMITS, ensureProject: ensure });
});
after(() => engine?.close());

const NO_ROWS = '{"n":"0"}';

async function answer(project: string, query: string): Promise<string> {
  const { body } = await run({ query, params: {}, format: 'ndjson', project, signal: new AbortController().signal });
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString('utf8').trim();
}

for (const made of [1, 2, Math.ceil(CATALOGUE.length / 2), CATALOGUE.length]) {
  test(`with ${made} of ${CATALOGUE.length + 1} statements done, every documented view answers that there are no rows`, async () => {
    const project = `early${made}`;
    for (const statement of projectStatements(project, SCHEMA).slice(0, made)) await engine.store.command(statement);
    const making = ensureProject(engine.store, project, SCHEMA);
    for (const { name } of CATALOGUE) assert.equal(await answer(project, `SELECT count() AS n FROM ${name}`), NO_ROWS, name);
    await making;
    assert.equal(await answer(project, 'SELECT count() AS n FROM events AS e JOIN nodes AS n USING (run)'), NO_ROWS);
  });
}

test('questions that make the views together all get their answer', async () => {
  const project = 'together';
  await engine.store.command(projectStatements(project, SCHEMA)[0] as string);
  const names = CATALOGUE.slice(-4).map(({ name }) => name);
  assert.deepEqual(await Promise.all(names.map((name) => answer(project, `SELECT count() AS n FROM ${name}`))), names.map(() => NO_ROWS)); // prettier-ignore
});

test('a table that is none of them is named as unknown', async () => {
  await assert.rejects(answer('early1', 'SELECT 1 FROM nonsense'), { code: 'sql_error', message: /nonsense/ });
});
