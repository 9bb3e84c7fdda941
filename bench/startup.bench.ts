/**
 * How soon `tapedeck serve` is ready on a large store: the tables are filled by the engine itself (10 M log records, 5 M nodes), then the server is started as a user would.
 * Run: node bench/startup.bench.ts [--events 10000000]
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { migrate } from '../migrations/migrate.ts';
import { connectColumns } from '../store/columns/clickhouse-http.ts';
import { startEngine } from '../store/columns/engine/supervise.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '10000000' } } });
const events = Number(values.events);
const PARTITIONS = 4;
const folder = temporaryFolder('startup');

/** The log holds as many records as the tables say, small ones: their size plays no part in a start. */
async function fillLog(): Promise<void> {
  const log = await openEmbeddedLog({
    directory: join(folder.path, 'log'), topic: 'events', partitions: PARTITIONS, mode: 'write', maxRecordBytes: 1 << 20, compression: 'fast', clock: systemClock,
  }); // prettier-ignore
  const records = Array.from({ length: 5_000 }, () => ({ key: Buffer.from('k'), value: Buffer.from('small record') }));
  for (let n = 0; n < events / records.length; n++) await log.append(n % PARTITIONS, records);
  await log.close();
}

async function fillTables(): Promise<void> {
  const silent = { info: () => {}, warn: () => {}, error: () => {} };
  const engine = await startEngine({
    dataDir: join(folder.path, 'engine'),
    nice: 0,
    slots: 4,
    log: silent,
    clock: systemClock,
    random: systemRandom,
  });
  const connect = (database: string) => connectColumns({ ...engine, url: engine.url, database, clock: systemClock, random: systemRandom });
  const admin = connect('default');
  await migrate(admin, { database: 'tapedeck', cluster: null, compression: 'by part size', clock: systemClock });
  const store = connect('tapedeck');
  const fill = (sql: string): Promise<void> =>
    store.command(`${sql} SETTINGS async_insert = 0, deduplicate_insert = 'disable'`, { timeoutMs: 600_000 });
  const place = `toUInt16(number % ${PARTITIONS}) AS _partition, intDiv(number, ${PARTITIONS}) AS _offset`;
  const keys =
    "'default' AS project, concat('run-', toString(intDiv(number, 1000000))) AS run, concat('rollout-', toString(intDiv(number, 20))) AS rollout, concat('trace-', toString(intDiv(number, 20))) AS trace";
  await fill(
    `INSERT INTO log_index (status, type, id, project, run, rollout, trace, time, bytes, _partition, _offset) SELECT 'stored', 'node.appended', generateUUIDv4(), project, run, rollout, trace, now64(6), 6600, _partition, _offset FROM (SELECT number, ${keys}, ${place} FROM numbers(${events}))`,
  );
  await fill(
    `INSERT INTO event_ids (id, hash, _partition, _offset) SELECT generateUUIDv4(), toFixedString('0123456789abcdef', 16), _partition, _offset FROM (SELECT ${place} FROM numbers(${events}))`,
  );
  await fill(
    `INSERT INTO nodes (project, run, rollout, trace, index, role, sampled, time, _hash, _partition, _offset) SELECT project, run, rollout, trace, toUInt32(number % 20), 'assistant', 1, now64(6), toFixedString('0123456789abcdef', 16), _partition, _offset FROM (SELECT number, ${keys}, ${place} FROM numbers(${events / 2}))`,
  );
  await fill(
    `INSERT INTO progress (task, _partition, _offset) SELECT arrayJoin(['summaries', 'search']), toUInt16(number), toUInt64(${events / PARTITIONS - 1}) FROM numbers(${PARTITIONS})`,
  );
  await store.close();
  await admin.close();
  await engine.close();
}

await fillLog();
await fillTables();
for (const round of ['first start', 'second start']) {
  const started = performance.now();
  const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_LOG_LEVEL: 'warn' }, { listenMs: 120_000 });
  const listening = performance.now() - started;
  await server.ready(120_000);
  const ready = performance.now() - started;
  console.log(`${round} on ${events} events: listening after ${Math.round(listening)} ms, ready after ${Math.round(ready)} ms`);
  await server.stop();
}
folder.remove();
