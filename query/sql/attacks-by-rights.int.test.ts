/**
 * The second wall: the same attempts without the checks, run word for word by the user of a project on a server (here: by the engine under that user's grants and profile). Whatever
 * the checks might once let through, the secret of another project does not come out and nothing is written.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { DEFINER, runAsOwner, runAsProject, type Answer } from '../../store/columns/project-users/rights-for-tests.ts';
import { ATTACKS } from './fixtures/attacks.ts';
import { QUESTIONS } from './fixtures/questions.ts';
import { SECRET, TABLES } from './fixtures/two-projects.ts';
import { DEFAULT_SQL_LIMITS } from './limits.ts';

const CAPS = { ...DEFAULT_SQL_LIMITS, timeoutMs: 2_000, memoryBytes: 512 * 1024 * 1024 };
/**
 * Without those where rights are no help and only the checks are: the function file('…') reads files without a right (on a server those of its user_files), a forged aggregate
 * state may end the engine. And without those that are about bound parameters.
 */
const ATTEMPTS = ATTACKS.filter(({ query, params }) => params === undefined && !/AggregateFunction|\$FILE/.test(query));
let folder: string;
let secretFile: string;

const textOf = (answer: Answer): string => ('text' in answer ? answer.text : answer.message);
const FINGERPRINT = [
  "SELECT database, name, total_rows, create_table_query FROM system.tables WHERE database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema') ORDER BY database, name",
  "SELECT name FROM system.functions WHERE origin != 'System'",
  'SELECT name FROM system.databases ORDER BY name',
];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'tapedeck-attacks-'));
  secretFile = join(folder, 'secret.txt');
  writeFileSync(secretFile, `${SECRET}\n`);
  const views = ['default', 'other'].flatMap((project) => [
    `CREATE DATABASE p_${project}`,
    ...Object.keys(TABLES).map(
      (name) => `CREATE VIEW p_${project}.${name} DEFINER = ${DEFINER} SQL SECURITY DEFINER AS SELECT * FROM tapedeck.${name} WHERE project = '${project}'`,
    ),
  ]);
  const rows = ['default', 'other'].map((project) => {
    const text = project === 'other' ? SECRET : 'hello';
    return `INSERT INTO tapedeck.nodes SELECT '${project}', '${text}', '${text}', '${text}', 0, NULL, '${text}', 1, '${text}', '${text}', [1], [1], [-1], now64(6)`;
  });
  const tables = Object.entries(TABLES).map(([name, definition]) => `CREATE TABLE tapedeck.${name} ${definition}`);
  for (const answer of await runAsOwner(folder, ['CREATE DATABASE tapedeck', ...tables, ...views, ...rows])) assert.ok('text' in answer, textOf(answer));
}); // prettier-ignore
after(() => rmSync(folder, { recursive: true, force: true }));

test('whoever has all rights finds the secret in all these places', async () => {
  const answers = await runAsOwner(folder, ['SELECT text FROM p_other.nodes', 'SELECT text FROM tapedeck.nodes', `SELECT file('${secretFile}') AS f`]);
  for (const answer of answers) assert.match(textOf(answer), new RegExp(SECRET));
}); // prettier-ignore

test('questions of a project are answered', async () => {
  const questions = QUESTIONS.filter((question) => !/\{\w+:/.test(question));
  assert.ok(questions.length > 10);
  const answers = await runAsProject(folder, 'p_default', CAPS, questions);
  for (const [at, answer] of answers.entries()) assert.ok('text' in answer, `${questions[at]}: ${textOf(answer)}`);
});

test('no attempt lets the secret out or writes anything', async () => {
  const untouched = await runAsOwner(folder, FINGERPRINT);
  const outFile = join(folder, 'engine', 'out.txt');
  const texts = ATTEMPTS.map(({ query }) => query.replaceAll('$OUT', outFile));
  assert.ok(texts.length > 100, String(texts.length));
  const answers = await runAsProject(folder, 'p_default', CAPS, texts);
  for (const [at, answer] of answers.entries()) {
    // the engine repeats the statement in an error; the secret is in none of them
    assert.ok(!textOf(answer).includes(SECRET), `the secret came out: ${texts[at]}`);
  }
  assert.deepEqual(await runAsOwner(folder, FINGERPRINT), untouched);
});
