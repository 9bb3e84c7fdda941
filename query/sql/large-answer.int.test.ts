/** Large answers pass through in bounded memory, and end in the engine when nobody reads them any more; progress is told on the way where it is asked for. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { clickHouseRoutes } from '../clickhouse/endpoint.ts';
import { sqlRoutes } from '../routes/sql.ts';
import { startTwoProjects, type TwoProjects } from './fixtures/two-projects.ts';
import { DEFAULT_SQL_LIMITS } from './limits.ts';
import { createQuerySlots } from './query-slots.ts';
import { createSqlRunner } from './run-sql.ts';

const MIB = 1024 * 1024;
/** TAPEDECK_LARGE_ANSWER_MIB=1024 runs it over a gigabyte. */
const WANTED = Number(process.env['TAPEDECK_LARGE_ANSWER_MIB'] ?? 200) * MIB;
const GROWTH = 160 * MIB;
const ROW = 1_000;
const SELECT = `SELECT repeat('x', ${ROW}) AS x FROM nodes AS a, nodes AS b, nodes AS c, nodes AS d, nodes AS e LIMIT ${Math.ceil(WANTED / ROW)}`;

let world: TwoProjects;
let app: FastifyInstance;
let url: string;
before(async () => {
  world = await startTwoProjects();
  const limits = { ...DEFAULT_SQL_LIMITS, timeoutMs: 300_000, resultBytes: 4 * WANTED };
  const slots = createQuerySlots(limits.concurrent);
  app = fastify();
  const ports = { store: world.store, limits, slots, ensureProject: async () => {} };
  await app.register(sqlRoutes, { run: createSqlRunner(ports) });
  await app.register(clickHouseRoutes, { ...ports, clock: systemClock, random: systemRandom });
  url = await app.listen({ host: '127.0.0.1', port: 0 });
});
after(async () => {
  await app.close();
  await world.close();
});

const ask = (format: string, query: string, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}/v1/sql`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query, format }),
    ...(signal === undefined ? {} : { signal }),
  });
const askAsClickHouse = (format: string, query: string, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}/clickhouse/`, { method: 'POST', body: `${query} FORMAT ${format}`, headers: { 'accept-encoding': 'identity' }, ...(signal === undefined ? {} : { signal }) }); // prettier-ignore

for (const [name, open] of [
  ['ndjson', () => ask('ndjson', SELECT)],
  ['csv', () => ask('csv', SELECT)],
  ['arrow', () => ask('arrow', SELECT)],
  ['RowBinary at /clickhouse/', () => askAsClickHouse('RowBinary', SELECT)],
] as const) {
  test(`${name}: ${WANTED / MIB} MiB pass through in bounded memory`, { timeout: 600_000 }, async (context) => {
    const answer = await open();
    assert.equal(answer.status, 200);
    globalThis.gc?.();
    const before = process.memoryUsage().rss;
    let bytes = 0;
    let most = 0;
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      most = Math.max(most, process.memoryUsage().rss - before);
    }
    context.diagnostic(
      `${bytes} bytes; server and client in one process grew by at most ${Math.round(most / MIB)} MiB, to ${Math.round((before + most) / MIB)} MiB`,
    );
    assert.ok(bytes >= WANTED, `${bytes} bytes came`);
    assert.ok(most < GROWTH, `memory grew by ${Math.round(most / MIB)} MiB`);
  });
}

async function endsInTheEngine(): Promise<void> {
  for (let left = 300; ; left--) {
    const [row] = await world.store.rows<{ n: string }>(
      "SELECT count() AS n FROM system.processes WHERE query LIKE '%AS e%' AND query NOT LIKE '%processes%'",
    );
    if (row?.n === '0') return;
    assert.ok(left > 0, 'the query still runs in the engine');
    await sleep(100);
  }
}

for (const [name, open] of [
  ['POST /v1/sql', (signal: AbortSignal) => ask('ndjson', SELECT, signal)],
  ['/clickhouse/', (signal: AbortSignal) => askAsClickHouse('RowBinary', SELECT, signal)],
] as const) {
  test(`${name}: a client that goes away ends its query, before and behind the first byte`, { timeout: 120_000 }, async () => {
    const reading = new AbortController();
    const answer = await open(reading.signal);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    reading.abort();
    await endsInTheEngine();
    const waiting = new AbortController();
    const slow = SELECT.replace(/SELECT .* AS x/, 'SELECT count()').replace(/ LIMIT.*/, ', nodes AS f, nodes AS g, nodes AS h');
    const asked = name === '/clickhouse/' ? askAsClickHouse('TSV', slow, waiting.signal) : ask('ndjson', slow, waiting.signal);
    setTimeout(() => waiting.abort(), 500);
    await assert.rejects(asked, { name: 'AbortError' });
    await endsInTheEngine();
  });
}

test('progress comes between the rows where it is asked for', async () => {
  const query = 'SELECT count() AS n FROM nodes AS a, nodes AS b, nodes AS c, nodes AS d, nodes AS e';
  const lines = (await (await ask('ndjson-progress', query)).text()).trim().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // prettier-ignore
  assert.deepEqual(
    lines.filter((line) => 'row' in line),
    [{ row: { n: String(24 ** 5) } }],
  );
  const progress = lines.filter((line) => 'progress' in line).map(({ progress: said }) => said as { read_rows: string });
  assert.ok(progress.length > 0, JSON.stringify(lines));
});

test('a key has its own number of queries at once', () => {
  const slots = createQuerySlots(3);
  const account = (key: string, sqlConcurrent?: number) => ({ key, limits: sqlConcurrent === undefined ? {} : { sqlConcurrent } });
  const first = slots.take(account('a', 1));
  assert.throws(() => slots.take(account('a', 1)), { code: 'overloaded' });
  const other = slots.take(account('b'));
  slots.take(null);
  assert.throws(() => slots.take(account('b')), { code: 'overloaded' }, 'the server is full');
  first();
  first();
  slots.take(account('a', 1));
  assert.throws(() => slots.take(null), { code: 'overloaded' }, 'a slot is given back once');
  other();
});
