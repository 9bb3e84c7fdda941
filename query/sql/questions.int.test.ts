import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { AGGREGATE_FUNCTIONS } from './allowed-aggregates.ts';
import { REVIEWED_ENGINE, SCALAR_FUNCTIONS } from './allowed-functions.ts';
import { QUESTIONS } from './fixtures/questions.ts';
import { startTwoProjects } from './fixtures/two-projects.ts';
import type { TwoProjects } from './fixtures/two-projects.ts';
import { SQL_FORMAT_NAMES } from './formats.ts';
import { DEFAULT_SQL_LIMITS } from './limits.ts';
import { REFUSED_FUNCTIONS } from './refused-functions.ts';
import { createSqlRunner } from './run-sql.ts';

let world: TwoProjects;
before(async () => {
  world = await startTwoProjects({ timeoutMs: 60_000, memoryBytes: 512 * 1024 * 1024, resultRows: 100_000, resultBytes: 8 * 1024 * 1024 });
});
after(async () => world.close());

const params = { run: 'run-1', most: 3 };

test('questions people ask are answered', async () => {
  assert.ok(QUESTIONS.length >= 40);
  for (const query of QUESTIONS) {
    const outcome = await world.ask(query, { params: query.includes('{run:') ? params : {} });
    assert.ok(outcome.ok, `${query}\n${outcome.code} ${outcome.text}`);
  }
});

test('every function of the engine is reviewed: a new engine version must be', async () => {
  const [version] = await world.store.rows<{ version: string }>('SELECT version() AS version');
  assert.ok(
    version?.version.startsWith(`${REVIEWED_ENGINE}.`),
    `review the functions of engine ${version?.version}, then set REVIEWED_ENGINE`,
  );
  const functions = await world.store.rows<{ name: string; aggregate: number; any: number }>(
    'SELECT name, is_aggregate AS aggregate, case_insensitive AS any FROM system.functions',
  );
  const allowed = new Set([...SCALAR_FUNCTIONS.exact, ...AGGREGATE_FUNCTIONS.exact]);
  const missing: string[] = [];
  for (const { name, aggregate, any } of functions) {
    const list = aggregate === 1 ? AGGREGATE_FUNCTIONS : SCALAR_FUNCTIONS;
    const isRefused = REFUSED_FUNCTIONS.has(name.toLowerCase());
    const isAllowed = list.exact.has(name) && (any === 1) === list.anyCase.has(name.toLowerCase());
    if (isRefused === isAllowed) missing.push(name);
  }
  assert.deepEqual(missing, [], 'these functions are in neither list or in both');
  const known = new Set(functions.map(({ name }) => name));
  assert.deepEqual([...allowed].filter((name) => !known.has(name)), [], 'these allowed functions are unknown to the engine'); // prettier-ignore
});

test('JSON keeps 64-bit integers, NaN, the infinities and NULL apart', async () => {
  const { text } = await world.ask(
    "SELECT toUInt64('18446744073709551615') AS big, nan AS a, inf AS b, -inf AS c, NULL AS d, -0.0 AS e, 0 AS f",
    {
      format: 'json',
    },
  );
  assert.deepEqual((JSON.parse(text) as { data: unknown[] }).data, [
    { big: '18446744073709551615', a: 'nan', b: 'inf', c: '-inf', d: null, e: -0, f: 0 },
  ]);
});

test('a number that a join did not find is NULL, not 0', async () => {
  const { text } = await world.ask("SELECT r.score FROM (SELECT 'x' AS name) AS n LEFT JOIN rewards AS r USING (name)", {
    format: 'ndjson',
  });
  assert.equal(text.trim(), '{"score":null}');
});

test('the same question gives the same bytes in every format', async () => {
  // progress tells times
  for (const format of SQL_FORMAT_NAMES.filter((name) => name !== 'ndjson-progress')) {
    const query = 'SELECT * FROM nodes ORDER BY trace, index';
    const [first, second] = [await world.ask(query, { format }), await world.ask(query, { format })];
    assert.ok(first.ok, first.text);
    assert.ok(first.text.length > 500, format);
    assert.equal(first.text, second.text, format);
  }
});

test('parameters are values, whatever they hold', async () => {
  for (const value of ["'; DROP TABLE nodes; --", '\\N', '\t\n\\', 'ä\u{1f600}', '', '{x:String}']) {
    const { text } = await world.ask('SELECT {x:String} AS x', { params: { x: value }, format: 'json' });
    assert.equal((JSON.parse(text) as { data: { x: string }[] }).data[0]?.x, value);
  }
  const list = await world.ask('SELECT {x:Array(String)} AS x, {n:Nullable(UInt8)} AS n', {
    params: { x: ["a'b", 'c'], n: null },
    format: 'json',
  });
  assert.deepEqual((JSON.parse(list.text) as { data: unknown[] }).data, [{ x: ["a'b", 'c'], n: null }]);
});

test('SHOW TABLES and DESCRIBE show the own project only', async () => {
  assert.equal((await world.ask('SHOW TABLES')).text, 'name\nnodes\nrewards\nrollouts\n');
  assert.match((await world.ask('describe nodes;')).text, /^name\ttype\tcomment\nproject\tString/);
  assert.equal((await world.ask('DESCRIBE TABLE p_other.nodes')).code, 'sql_refused');
});

test('errors say where: syntax, unknown names, refused names', async () => {
  const place = async (query: string): Promise<unknown> => {
    const { text, ok } = await world.ask(query);
    assert.ok(!ok, query);
    const { position } = JSON.parse(text.slice(text.indexOf(' {"') + 1)) as { position: { line: number; column: number; caret: string } };
    assert.equal(position.caret.length, position.column);
    return [position.line, position.column];
  };
  assert.deepEqual(await place("SELECT 'ää' AS x FROM nodes WHERE )"), [1, 35]);
  assert.deepEqual(await place("SELECT 'é',\n  foo\nFROM nodes"), [2, 3]);
  assert.deepEqual(await place('SELECT 1\nFROM nodez'), [2, 6]);
  assert.deepEqual(await place("SELECT 1,\n\n file('x')"), [3, 2]);
  assert.deepEqual(await place('SELECT text FROM p_other.nodes'), [1, 18]);
});

test('errors never name tables of other projects', async () => {
  const { text } = await world.ask('SELECT * FROM node');
  assert.doesNotMatch(text, /p_other|tapedeck/);
});

const CROSS_JOIN = `SELECT count() FROM ${Array.from('abcdefgh', (name) => `nodes AS ${name}`).join(', ')}`;

test('bytes that are no text and queries beyond a megabyte are refused with the remedy', async () => {
  const bytes = await world.ask("SELECT '\\xff' AS x FROM nodes");
  assert.equal(bytes.code, 'sql_refused', bytes.text);
  assert.match(bytes.text, /unhex\('ff'\)/);
  const half = await world.ask("SELECT '\ud83d' AS x FROM nodes");
  assert.equal(half.code, 'invalid_utf8', half.text);
  const long = await world.ask(
    `SELECT 1 AS x FROM nodes WHERE text IN (${Array.from({ length: 200_000 }, (_, at) => `'${at}'`).join(', ')})`,
  );
  assert.equal(long.code, 'bad_request', long.text.slice(0, 300));
  assert.match(long.text, /pass long lists as params/);
});

test('limits are errors that name them', async () => {
  const slow = await world.ask(CROSS_JOIN, {}, { timeoutMs: 1_000 });
  assert.equal(slow.code, 'query_timeout');
  assert.match(slow.text, /1000 ms/);
  const rows = await world.ask('SELECT x FROM (SELECT arrayJoin(range(200000)) AS x)');
  assert.equal(rows.code, 'result_too_large', rows.text);
  assert.match(rows.text, /100000 result rows/);
  const bytes = await world.ask("SELECT repeat('x', 1000000) FROM nodes");
  assert.equal(bytes.code, 'result_too_large', bytes.text);
  const exploded = await world.ask('SELECT arrayJoin(range(3000000)) AS x');
  assert.equal(exploded.code, 'result_too_large', exploded.text.slice(0, 200));
  const memory = await world.ask('SELECT length(groupArray(x)) FROM (SELECT arrayJoin(range(100000000)) AS x)');
  assert.equal(memory.code, 'result_too_large', memory.text);
  assert.match(memory.text, /bytes of memory/);
  const read = await world.ask('SELECT max(text) FROM nodes', {}, { readRows: 10 });
  assert.equal(read.code, 'result_too_large', read.text);
});

test('more queries at once than allowed are answered overloaded, and slots come back', async () => {
  const limits = { ...DEFAULT_SQL_LIMITS, concurrent: 1 };
  const run = createSqlRunner({ store: world.store, limits, ensureProject: async () => {} });
  const request = (query: string, signal: AbortSignal) => run({ query, params: {}, format: 'tsv', project: 'default', signal });
  const stop = new AbortController();
  const abandoned = await request('SELECT 1', stop.signal);
  await assert.rejects(request('SELECT 2', stop.signal), { code: 'overloaded' });
  stop.abort();
  const next = await request('SELECT 3', new AbortController().signal);
  for await (const chunk of next.body) assert.ok(chunk.length > 0);
  await assert.rejects(request('SELECT nope()', new AbortController().signal), { code: 'sql_refused' });
  await request('SELECT 4', new AbortController().signal);
  assert.ok(abandoned);
});

test('a project without data is not found, by name', async () => {
  const { code, text } = await world.ask('SELECT 1 FROM nodes', { project: 'nobody' });
  assert.equal(code, 'not_found', text);
  assert.match(text, /nobody/);
});

test('an aborted query ends in the engine too', async () => {
  const stop = new AbortController();
  const asked = world.ask(CROSS_JOIN, { signal: stop.signal });
  setTimeout(() => stop.abort(), 300);
  assert.equal((await asked).code, 'aborted');
  for (let left = 50; ; left--) {
    const [row] = await world.store.rows<{ n: string }>(
      "SELECT count() AS n FROM system.processes WHERE query LIKE '%AS h%' AND query NOT LIKE '%processes%'",
    );
    if (row?.n === '0') break;
    assert.ok(left > 0, 'the query still runs');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});
