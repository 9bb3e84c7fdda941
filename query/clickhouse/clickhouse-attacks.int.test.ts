/** Every escape attempt of the SQL suite, and those that only this interface offers, with the key of one project: nothing of the other comes out, nothing is written. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import fc from 'fast-check';
import { ATTACKS } from '../sql/fixtures/attacks.ts';
import { QUESTIONS } from '../sql/fixtures/questions.ts';
import { SECRET } from '../sql/fixtures/two-projects.ts';
import { PASSWORDS, startTestEndpoint, type TestEndpoint } from './endpoint-for-tests.ts';

let endpoint: TestEndpoint;
let untouched: string;
before(async () => {
  endpoint = await startTestEndpoint({ timeoutMs: 1_500, memoryBytes: 512 * 1024 * 1024, resultBytes: 16 * 1024 * 1024 });
  untouched = await endpoint.world.fingerprint();
});
after(async () => endpoint.close());

type Outcome = { readonly status: number; readonly code: number; readonly text: string };

async function ask(query: string, url: Record<string, string> = {}, headers: Record<string, string> = {}): Promise<Outcome> {
  const target = new URL(`/clickhouse/?${new URLSearchParams(url).toString()}`, endpoint.url);
  const answer = await fetch(target, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`x:${PASSWORDS.default}`)}`, ...headers },
    body: query,
  });
  const text = Buffer.from(await answer.arrayBuffer().catch(() => new ArrayBuffer(0))).toString('latin1');
  assert.ok(!text.includes(SECRET), `the secret came out: ${query.slice(0, 300)}`);
  assert.ok(!text.includes(Buffer.from(SECRET).toString('base64')), query);
  assert.ok(!/foreseen|foresaw/.test(text), `${query.slice(0, 300)}: ${text.slice(0, 300)}`);
  return { status: answer.status, code: Number(answer.headers.get('x-clickhouse-exception-code') ?? 0), text };
}

const filled = (text: string): string => text.replaceAll('$FILE', endpoint.world.secretFile).replaceAll('$OUT', endpoint.world.outFile);

const MAY_BE_HARMLESS = new Set(['text that is read twice', 'size and depth', 'parameters', 'forged lines of the syntax tree']);

test('every attempt of the SQL suite', async () => {
  const taken: string[] = [];
  for (const { group, query, params = {} } of ATTACKS) {
    const given = Object.entries(params).map(([name, value]) => [`param_${name}`, filled(String(value))]);
    const { status, text } = await ask(filled(query), Object.fromEntries(given) as Record<string, string>);
    // the project's own database may be named here, and system tables tell about it alone
    const isListing = /\b(?:(?:p_)?default[`"]?\.|currentDatabase|SHOW|DESCRIBE|DESC|EXISTS|system[`"]?\.|information_schema[`"]?\.)/i.test(
      query,
    );
    if (status === 200 && !MAY_BE_HARMLESS.has(group) && !isListing) taken.push(`${query.slice(0, 200)}: ${text.slice(0, 100)}`);
  }
  // a limit of 0 leaves that of the server, and a format is what this interface is for
  const harmless = ['SELECT 1 UNION ALL SELECT 1 SETTINGS max_execution_time = 0: 1\n1\n', 'SELECT 1 FORMAT JSONEachRow: {"1":1}\n'];
  assert.deepEqual(taken, harmless);
  assert.equal(await endpoint.world.fingerprint(), untouched);
});

test('what only this interface offers: databases, settings, formats, parameters, form fields, headers', async () => {
  const refused: [query: string, url?: Record<string, string>, headers?: Record<string, string>][] = [
    ['SELECT * FROM nodes', { database: 'p_other' }],
    ['SELECT * FROM nodes', { database: 'other' }],
    ['SELECT * FROM nodes', { database: 'tapedeck' }],
    ['SELECT * FROM nodes', {}, { 'x-clickhouse-database': 'p_other' }],
    ['SELECT * FROM nodes', {}, { 'x-clickhouse-database': 'p_other`; USE p_other' }],
    ['SELECT 1', { readonly: '0' }],
    ['SELECT 1', { allow_introspection_functions: '1' }],
    ['SELECT 1', { format_schema: '/etc/passwd' }],
    ['SELECT 1', { format_template_row: endpoint.world.secretFile }],
    ['SELECT 1', { output_format_schema: endpoint.world.outFile }],
    ['SELECT 1', { profile: 'default' }],
    ['SELECT 1', { additional_table_filters: "{'p_other.nodes': '1'}" }],
    ['SELECT 1', { SQL_x: '1' }],
    ['SELECT 1', { max_parser_depth: 'x', max_memory_usage: '-1' }],
    ['SELECT 1 FORMAT Template'],
    ["SELECT 1 FORMAT Template SETTINGS format_template_row = '/etc/passwd'"],
    ['SELECT 1 FORMAT Protobuf'],
    ['SELECT 1', { default_format: 'CapnProto' }],
    ['SELECT 1', {}, { 'x-clickhouse-format': 'CustomSeparated' }],
    ['SELECT 1', {}, { 'x-clickhouse-format': 'JSON INTO OUTFILE' }],
    [`SELECT 1 INTO OUTFILE '${endpoint.world.outFile}' FORMAT CSV`],
    ['SELECT * FROM {d:Identifier}.{t:Identifier}', { param_d: 'p_other', param_t: 'nodes' }],
    ['SELECT * FROM {t:Identifier}', { param_t: 'p_other.nodes' }],
    ['SELECT * FROM {t:Identifier}', { param_t: '`p_other`.`nodes`' }],
    ['SELECT * FROM {t:Identifier}', { param_t: 'p_other\\.nodes' }],
    ['DESCRIBE TABLE p_other.nodes'],
    ['DESCRIBE (SELECT * FROM p_other.nodes)'],
    ['SHOW TABLES FROM p_other'],
    ["SHOW TABLES FROM p_other LIKE '%'"],
    ['SHOW TABLES FROM system'],
    ['SHOW CREATE TABLE default.nodes'],
    ['EXISTS TABLE p_other.nodes'],
    ["KILL QUERY WHERE user = 'default'"],
    ["KILL QUERY WHERE query_id = 'x' OR 1"],
    ['SELECT * FROM system.tables, p_other.nodes'],
    ['SELECT * FROM system.query_log'],
    ['SELECT * FROM system.`query_log`'],
    ['SELECT * FROM `system`.`numbers_mt`'],
    ['SELECT * FROM system.tables AS t JOIN system.parts AS p ON 1'],
    ['SELECT (SELECT count() FROM system.query_log)'],
    ['SELECT 1 IN system.users'],
    ['SELECT * FROM information_schema.views'],
    ["SELECT * FROM values('a String DEFAULT file(\\'/etc/passwd\\')', 'x')"],
    ["SELECT * FROM values('a AggregateFunction(uniq, String)', 'x')"],
    ["SELECT * FROM values(concat('a', ' String'), 'x')"],
    ["SELECT * FROM values('a String', file('/etc/passwd'))"],
    ["SELECT * FROM values((file('/etc/passwd'), 1))"],
    ["SELECT * FROM values('a String', (SELECT text FROM p_other.nodes))"],
    ['SELECT * FROM __tapedeck_system_tables'],
    ['SELECT 1 AS __tapedeck_system_tables FROM system.tables'],
  ];
  for (const [query, url, headers] of refused) {
    const { status, text } = await ask(query, url, headers);
    assert.notEqual(status, 200, `${query} ${JSON.stringify(url)} ${JSON.stringify(headers)}: ${text.slice(0, 300)}`);
  }
  for (const query of [
    "SELECT * FROM system.tables WHERE database != 'default'",
    "SELECT * FROM system.columns WHERE table = 'nodes' AND database LIKE 'p%'",
    "SELECT * FROM system.databases WHERE name LIKE 'p%'",
  ])
    assert.equal((await ask(query)).text, '', query);
  const form = new FormData();
  form.set('query', 'SELECT * FROM {t:Identifier}');
  form.set('param_t', 'p_other.nodes');
  const answer = await fetch(`${endpoint.url}/clickhouse/`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`x:${PASSWORDS.default}`)}` },
    body: form,
  });
  assert.equal(answer.status, 403, await answer.text());
  form.set('more', new Blob(['1']), 'more.csv');
  const external = await fetch(`${endpoint.url}/clickhouse/?more_structure=a+UInt8`, {
    method: 'POST',
    headers: { authorization: `Basic ${btoa(`x:${PASSWORDS.default}`)}` },
    body: form,
  });
  assert.match(await external.text(), /External tables/);
  assert.equal(await endpoint.world.fingerprint(), untouched);
});

test('statements mutated at random, with qualifiers, system tables and clauses mixed in', async () => {
  const queries = [...QUESTIONS, ...ATTACKS.map(({ query }) => query)].filter((query) => query.length < 400);
  const pieces = queries.flatMap((query) => query.split(/(?<=[\s(),])/));
  const own = [
    'default.',
    'system.tables ',
    'system.columns ',
    '`system`.',
    'p_other.',
    'p_default.',
    ' FORMAT JSON',
    ' SETTINGS max_threads = 1',
    '\nFORMAT Null',
    ' AS ',
    'currentDatabase()',
    '__tapedeck_',
    '`default`.`nodes`',
    'information_schema.tables ',
    "'",
    '`',
    ';',
    '.',
    '--',
    '/*',
    '*/',
    '(',
    ')',
    '\\',
    '\n',
    'p_other.nodes ',
  ];
  const piece = fc.constantFrom(...pieces, ...own, ...own);
  const edit = fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), drop: fc.nat(12), insert: piece });
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...queries), fc.array(edit, { minLength: 1, maxLength: 4 }), async (query, edits) => {
      let text = filled(query);
      for (const { at, drop, insert } of edits) {
        const start = Math.floor(at * text.length);
        text = text.slice(0, start) + filled(insert) + text.slice(start + drop);
      }
      await ask(text, { param_run: 'run-1', param_most: '3' });
    }),
    { numRuns: Number(process.env['TAPEDECK_FUZZ_RUNS'] ?? 120) },
  );
  assert.equal(await endpoint.world.fingerprint(), untouched);
});
