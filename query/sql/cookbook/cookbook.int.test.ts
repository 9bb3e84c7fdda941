/** Every question of the cookbook is asked of the sample data, through the guard; docs/sql-cookbook.md holds the answers. TAPEDECK_UPDATE_DOCS=1 rewrites it. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { openTestWorld, type TestWorld } from '../../log-for-tests.ts';
import { DEFAULT_SQL_LIMITS } from '../limits.ts';
import { createSqlRunner, type SqlRunner } from '../run-sql.ts';
import { cookbookDocs, type Answer } from './docs.ts';
import { RECIPES, type Recipe } from './questions.ts';
import { writeSample } from './sample.ts';

const DOCS = join(import.meta.dirname, '../../../docs/sql-cookbook.md');
const recipes = RECIPES.flatMap(([, list]) => list);

let world: TestWorld;
let run: SqlRunner;
before(async () => {
  world = await openTestWorld();
  await writeSample(world);
  run = createSqlRunner({ store: world.store, limits: { ...DEFAULT_SQL_LIMITS, timeoutMs: 60_000 }, ensureProject: async () => {} });
});
after(() => world.close());

async function answerTo(query: string): Promise<Answer> {
  const answer = await run({ query, params: {}, format: 'json', project: 'default', signal: new AbortController().signal });
  const parts: Uint8Array[] = [];
  for await (const part of answer.body) parts.push(part);
  const { meta, data } = JSON.parse(Buffer.concat(parts).toString('utf8')) as { meta: { name: string }[]; data: Record<string, unknown>[] };
  const columns = meta.map(({ name }) => name);
  return { columns, rows: data.map((row) => columns.map((name) => row[name])) };
}

test('there are thirty questions', () => assert.equal(recipes.length, 30));

const answers = new Map<Recipe, Answer>();
for (const recipe of recipes) {
  test(recipe.asks, async () => {
    const answer = await answerTo(recipe.sql);
    assert.ok(answer.rows.length > 0, 'no rows');
    answers.set(recipe, answer);
  });
}

test('docs/sql-cookbook.md says what was answered', () => {
  const fresh = cookbookDocs(answers);
  if (process.env['TAPEDECK_UPDATE_DOCS'] === '1') writeFileSync(DOCS, fresh);
  else assert.equal(readFileSync(DOCS, 'utf8'), fresh, 'run: TAPEDECK_UPDATE_DOCS=1 node --test query/sql/cookbook/cookbook.int.test.ts');
});

test('answers that follow from how the sample was made', () => {
  const rowsOf = (start: string): readonly (readonly unknown[])[] => {
    const recipe = recipes.find(({ asks }) => asks.startsWith(start));
    return (answers.get(recipe as Recipe) as Answer).rows;
  };
  // one more of four is solved with every step; code lags by one
  assert.deepEqual(rowsOf('Does the run learn?').map(([, env, reward]) => [env, reward]), [['arith', 0.3], ['arith', 0.55], ['arith', 0.8], ['code', 0.05], ['code', 0.3], ['code', 0.55]]); // prettier-ignore
  assert.deepEqual(rowsOf('How stale').map(([step, mean, worst]) => [step, mean, worst]), [['1', 0, 0], ['2', 0.25, 1], ['3', 0.25, 1]]); // prettier-ignore
  assert.deepEqual(rowsOf('Which tasks flip'), [['held-out/1', 0.5, 1, 'better'], ['held-out/2', 0, 0.5, 'better'], ['held-out/3', 1, 0, 'worse']]); // prettier-ignore
  assert.deepEqual(rowsOf('What is pass@2'), [
    ['eval-1', 0.75],
    ['eval-2', 0.75],
  ]);
  for (const [, sum] of rowsOf('Do advantages')) assert.equal(sum, 0);
  assert.deepEqual(rowsOf('Is there anything'), [['24', '24']]);
  assert.deepEqual(rowsOf('From a step to its tokens').map(([, , , index, , tokens, trained]) => [index, tokens, trained]), [[0, '8', '0'], [1, '12', '0'], [2, '23', '23'], [3, '6', '0'], [4, '10', '10']]); // prettier-ignore
  assert.deepEqual(rowsOf('Where do tokens drift').map(([model, drifted, continued]) => [model, drifted, continued]), [['toy-1b', '0', '0'], ['toy-4b', '3', '12']]); // prettier-ignore
});
