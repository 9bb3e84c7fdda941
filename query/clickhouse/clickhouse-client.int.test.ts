/** The unmodified JavaScript client against `/clickhouse/`. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ClickHouseError, createClient, type ClickHouseClient } from '@clickhouse/client';
import { tableFromIPC } from 'apache-arrow';
import { SECRET } from '../sql/fixtures/two-projects.ts';
import { PASSWORDS, startTestEndpoint, type TestEndpoint } from './endpoint-for-tests.ts';

let endpoint: TestEndpoint;
let client: ClickHouseClient;
const open = (password: string, more: Parameters<typeof createClient>[0] = {}): ClickHouseClient =>
  createClient({ url: endpoint.url, pathname: '/clickhouse', username: 'anybody', password, ...more });

before(async () => {
  endpoint = await startTestEndpoint({ concurrent: 4 });
  client = open(PASSWORDS.default);
});
after(async () => {
  await client.close();
  await endpoint.close();
});

const rows = async <T>(
  query: string,
  more: { query_params?: Record<string, unknown>; clickhouse_settings?: Record<string, string | number> } = {},
): Promise<T[]> => (await client.query({ query, format: 'JSONEachRow', ...more })).json<T>();
const fails = async (query: string, code: string, more = {}): Promise<string> => {
  let message = '';
  await assert.rejects(rows(query, more), (error: unknown) => {
    assert.ok(error instanceof ClickHouseError, String(error));
    assert.equal(error.code, code, `${query}: ${error.message}`);
    message = error.message;
    return true;
  });
  return message;
};

test('pings, asks, streams, and gets the formats it names', async () => {
  assert.deepEqual(await client.ping(), { success: true });
  assert.deepEqual(await client.ping({ select: true }), { success: true });
  assert.deepEqual(await rows('SELECT count() AS n FROM nodes'), [{ n: 24 }]);
  const json = await (await client.query({ query: 'SELECT run FROM rollouts LIMIT 2;', format: 'JSON' })).json<{ run: string }>();
  assert.equal(json.rows, 2);
  assert.deepEqual(json.meta, [{ name: 'run', type: 'String' }]);
  const stream = (await client.query({ query: 'SELECT arrayJoin(range(100000)) AS n', format: 'JSONCompactEachRow' })).stream();
  let count = 0;
  for await (const part of stream) count += (part as unknown[]).length;
  assert.equal(count, 100_000);
  const csv = await (await client.query({ query: 'SELECT 1 AS a, NULL AS b', format: 'CSVWithNames' })).text();
  assert.equal(csv, '"a","b"\n1,\\N\n');
  for (const format of ['Parquet', 'RowBinaryWithNamesAndTypes', 'Native', 'Arrow', 'PrettyCompact', 'XML', 'Markdown']) {
    const { stream: bytes } = await client.exec({ query: `SELECT * FROM rollouts FORMAT ${format}` });
    let size = 0;
    for await (const chunk of bytes) size += (chunk as Buffer).length;
    assert.ok(size > 50, format);
  }
  const { stream: arrow } = await client.exec({
    query: 'SELECT rollout, reward FROM rollouts ORDER BY rollout FORMAT ArrowStream',
    clickhouse_settings: { output_format_arrow_compression_method: 'none' },
  });
  const parts: Buffer[] = [];
  for await (const chunk of arrow) parts.push(chunk as Buffer);
  assert.equal(tableFromIPC(Buffer.concat(parts)).numRows, 4);
  await assert.rejects(client.exec({ query: 'SELECT 1 FORMAT Template' }), { code: '73' });
});

test('typed parameters, whatever they hold', async () => {
  for (const value of ["'; DROP TABLE nodes; --", '\\N', '\t\n\\', 'ä\u{1f600}', '', '{x:String}', "\\'"])
    assert.deepEqual(await rows('SELECT {x:String} AS x', { query_params: { x: value } }), [{ x: value }]);
  const params = {
    list: ["a'b", 'c'],
    none: null,
    map: { k: 1 },
    date: new Date('2026-01-02T03:04:05Z'),
    big: 2n ** 63n,
    f: -1.5,
    b: true,
  };
  assert.deepEqual(
    await rows('SELECT {list:Array(String)} AS list, {none:Nullable(UInt8)} AS none, {map:Map(String, UInt8)} AS map, {date:DateTime(\'UTC\')} AS date, {big:UInt64} AS big, {f:Float64} AS f, {b:Bool} AS b', { query_params: params, clickhouse_settings: { output_format_json_quote_64bit_integers: 1 } }),
    [{ list: ["a'b", 'c'], none: null, map: { k: 1 }, date: '2026-01-02 03:04:05', big: '9223372036854775808', f: -1.5, b: true }],
  ); // prettier-ignore
  assert.deepEqual(await rows('SELECT count() AS n FROM {t:Identifier}', { query_params: { t: 'nodes' } }), [{ n: 24 }]);
  assert.deepEqual(
    await rows('SELECT 1 AS x', { query_params: { unused: 1 } }),
    [{ x: 1 }],
    'as ClickHouse: more than the query uses is fine',
  );
  await fails('SELECT {x:String}', '456');
  await fails('SELECT * FROM {t:Identifier}', '497', { query_params: { t: 'p_other.nodes' } });
});

test('settings: those that shape the answer hold, limits narrow, the rest is refused by name', async () => {
  assert.deepEqual(await rows('SELECT toUInt64(1) AS n', { clickhouse_settings: { output_format_json_quote_64bit_integers: 1 } }), [
    { n: '1' },
  ]);
  await fails('SELECT x FROM (SELECT arrayJoin(range(1000)) AS x)', '396', { clickhouse_settings: { max_result_rows: '10' } });
  const first = await rows('SELECT number FROM system.numbers', {
    clickhouse_settings: { max_result_rows: '10', result_overflow_mode: 'break', max_block_size: '10' },
  });
  assert.ok(first.length >= 10 && first.length < 10_000, String(first.length));
  for (const [name, value] of [
    ['readonly', '0'],
    ['allow_ddl', '1'],
    ['max_memory_usage', 'x'],
  ] as const) {
    const message = await fails('SELECT 1', name === 'readonly' ? '164' : name === 'allow_ddl' ? '452' : '36', {
      clickhouse_settings: { [name]: value },
    });
    assert.match(message, new RegExp(name));
  }
  await fails('SELECT 1 SETTINGS readonly = 0', '164');
  await fails("SELECT 1 SETTINGS format_schema = '/etc/passwd'", '452');
  assert.deepEqual(await rows('SELECT 1 AS x SETTINGS max_threads = 2, max_block_size = 100'), [{ x: 1 }]);
  await fails('SELECT * FROM (SELECT 1 SETTINGS max_threads = 2)', '497');
  assert.deepEqual(await rows('SELECT 1 AS x', { clickhouse_settings: { async_insert: 1, wait_for_async_insert: 1, readonly: '2' } }), [
    { x: 1 },
  ]);
});

test('it finds one database with the views of its project', async () => {
  assert.deepEqual(await rows('SHOW DATABASES'), [{ name: 'default' }]);
  const views = [{ name: 'nodes' }, { name: 'rewards' }, { name: 'rollouts' }];
  for (const query of [
    'SHOW TABLES',
    'SHOW TABLES FROM default',
    'SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name',
    "SELECT t.name AS name FROM system.tables AS t WHERE t.database = 'default' ORDER BY 1",
    'SELECT tables.name AS name FROM system.tables ORDER BY name',
  ])
    assert.deepEqual(await rows(query).catch((error: Error) => query + error.message), views, query);
  assert.deepEqual(await rows("SHOW TABLES LIKE 'no%'"), [{ name: 'nodes' }]);
  assert.deepEqual(await rows('SELECT name FROM system.databases'), [{ name: 'default' }]);
  assert.deepEqual(
    await rows("SELECT DISTINCT table FROM system.columns WHERE database = 'default' ORDER BY 1"),
    views.map(({ name }) => ({ table: name })),
  );
  assert.deepEqual(
    await rows("SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE table_schema = 'default' ORDER BY 1"),
    views.map(({ name }) => ({ TABLE_NAME: name })),
  );
  assert.equal((await rows<{ name: string }>('DESCRIBE TABLE default.rollouts'))[0]?.name, 'project');
  assert.deepEqual(await rows('EXISTS TABLE nodes'), [{ result: 1 }]);
  assert.deepEqual(await rows('EXISTS TABLE p_other.nodes').catch(() => 'refused'), 'refused');
  assert.deepEqual(await rows('SELECT count() AS n FROM `default`.`nodes`'), [{ n: 24 }]);
  assert.deepEqual(await rows("SELECT count() AS n FROM p_default.nodes WHERE p_default.nodes.run = 'run-1'"), [{ n: 24 }]);
  assert.deepEqual(await rows("SELECT 'system.tables' AS s, 'default.nodes' AS d"), [{ s: 'system.tables', d: 'default.nodes' }]);
  const [facts] = await rows<{ v: string; d: string; u: string }>('SELECT version() AS v, currentDatabase() AS d, currentUser() AS u');
  assert.match(facts?.v ?? '', /^\d+\./);
  assert.equal(facts?.d, 'default');
  assert.deepEqual(await rows('SELECT currentDatabase()'), [{ 'currentDatabase()': 'default' }]);
  const names = (await rows<{ name: string }>('SELECT name FROM system.settings')).map(({ name }) => name);
  assert.ok(names.includes('max_result_rows') && !names.includes('allow_ddl'));
});

test('what tells about the server or other projects is refused', async () => {
  for (const table of [
    'processes',
    'query_log',
    'users',
    'grants',
    'parts',
    'disks',
    'clusters_x',
    'merges',
    'text_log',
    'server_settings',
    'zookeeper',
    'named_collections',
    'replicas',
  ])
    await fails(`SELECT * FROM system.${table}`, '497');
  for (const query of [
    'SELECT * FROM `system`.`processes`',
    'SELECT * FROM System.processes',
    'SELECT * FROM "system".processes',
    'SELECT * FROM nodes WHERE run IN system.processes',
    'SELECT (SELECT any(query) FROM system.processes)',
  ])
    await fails(query, '497').catch(async () => fails(query, '62'));
  for (const query of [
    'INSERT INTO nodes VALUES (1)',
    'DROP TABLE nodes',
    'CREATE TABLE x (a Int8) ENGINE = Memory',
    'ALTER TABLE nodes DELETE WHERE 1',
    'SET readonly = 0',
    'USE p_other',
    'GRANT ALL ON *.* TO x',
    'SHOW CREATE TABLE nodes',
    'EXPLAIN SELECT 1',
    'ATTACH TABLE x',
  ])
    await assert.rejects(client.exec({ query }), { code: '164' }, query);
  const before = await endpoint.world.fingerprint();
  await assert.rejects(client.insert({ table: 'nodes', values: [{ project: 'default' }], format: 'JSONEachRow' }), { code: '164' });
  await assert.rejects(client.command({ query: 'TRUNCATE TABLE nodes' }), { code: '164' });
  assert.equal(await endpoint.world.fingerprint(), before);
  for (const query of [
    'SELECT * FROM p_other.nodes',
    'SELECT * FROM other.nodes',
    'SELECT * FROM tapedeck.nodes',
    "SELECT * FROM file('/etc/passwd')",
    'SELECT 1 IN p_other.nodes',
    "SELECT * FROM merge('p_.*', 'nodes')",
    'SELECT * FROM __tapedeck_system_tables',
    'WITH __tapedeck_x AS (SELECT 1) SELECT * FROM __tapedeck_x',
  ])
    await fails(query, '497');
  const inside = await rows<{ text: string }>(
    'SELECT create_table_query AS text FROM system.tables UNION ALL SELECT as_select FROM system.tables',
  );
  assert.ok(inside.every(({ text }) => text === ''));
  const everything = JSON.stringify([
    await rows('SELECT * FROM system.tables'), await rows('SELECT * FROM system.columns'), await rows('SELECT * FROM system.databases'), await rows('SELECT * FROM information_schema.columns'),
  ]); // prettier-ignore
  assert.doesNotMatch(everything, /p_other|p_default|tapedeck\./);
});

test('another key sees its own project under the same names; a key nobody knows sees nothing', async () => {
  const other = open(PASSWORDS.other);
  assert.deepEqual(await (await other.query({ query: 'SELECT text FROM default.nodes', format: 'JSONEachRow' })).json(), [
    { text: SECRET },
  ]);
  await other.close();
  const wrongDatabase = open(PASSWORDS.default, { database: 'other' });
  await assert.rejects(wrongDatabase.query({ query: 'SELECT 1' }), { code: '81' });
  await wrongDatabase.close();
  const nobody = open('wrong');
  await assert.rejects(nobody.query({ query: 'SELECT 1' }), { code: '516' });
  await nobody.close();
  const empty = open(PASSWORDS.empty);
  assert.deepEqual(
    await (await empty.query({ query: 'SELECT 1 AS x', format: 'JSONEachRow' })).json(),
    [{ x: 1 }],
    'before the first event',
  );
  await empty.close();
});

test('errors carry code, type and place; one behind the first rows breaks the stream', async () => {
  assert.match(await fails('SELECT nofunction(1)', '46'), /nofunction/);
  assert.match(await fails('SELECT 1 FROM nowhere', '60'), /nowhere/);
  assert.match(await fails('SELECT nobody FROM nodes', '47'), /line 1, col 8/);
  assert.match(await fails('SELECT (1', '62'), /line 1/);
  await fails('SELECT throwIf(1)', '395');
  const query = 'SELECT number, throwIf(number = 3000000) FROM system.numbers LIMIT 4000000';
  const late = await client.query({ query, format: 'JSONEachRow', clickhouse_settings: { max_block_size: '10000' } });
  let seen = 0;
  await assert.rejects(
    (async () => {
      for await (const part of late.stream()) seen += (part as unknown[]).length;
    })(),
    { code: '395' },
  );
  assert.ok(seen > 0, 'rows came before the error');
});

test('compression both ways, sessions, query ids, and cancelling by another connection', async () => {
  for (const compression of [
    { response: true, request: true },
    { response: false, request: false },
  ]) {
    const packed = open(PASSWORDS.default, { compression, session_id: 'mine' });
    const result = await packed.query({ query: 'SELECT count() AS n FROM nodes', format: 'JSONEachRow', query_id: 'my-id' });
    assert.equal(result.query_id, 'my-id');
    assert.deepEqual(await result.json(), [{ n: 24 }]);
    await packed.close();
  }
  const slow = `SELECT count() FROM ${Array.from('abcdefgh', (name) => `nodes AS ${name}`).join(', ')}`;
  const running = client.query({ query: slow, query_id: 'slow-one' });
  running.catch(() => undefined);
  const other = open(PASSWORDS.other);
  const kill = async (by: ClickHouseClient): Promise<unknown> =>
    (await by.query({ query: "KILL QUERY WHERE query_id = 'slow-one'", format: 'JSONEachRow' })).json();
  for (let left = 300; JSON.stringify(await kill(other)).includes('waiting'); left--) assert.ok(left > 0);
  for (let left = 300; !JSON.stringify(await kill(client)).includes('waiting'); left--) assert.ok(left > 0, 'never seen');
  await other.close();
  await assert.rejects(running, { code: '394' });
  for (let left = 300; ; left--) {
    const [row] = await endpoint.world.store.rows<{ n: string }>(
      "SELECT count() AS n FROM system.processes WHERE query LIKE '%AS h%' AND query NOT LIKE '%processes%'",
    );
    if (row?.n === '0') break;
    assert.ok(left > 0, 'the query still runs in the engine');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});
