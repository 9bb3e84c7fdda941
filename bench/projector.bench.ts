/**
 * From the log into ClickHouse: rows per second and CPU per event of the projector, beside the limit in the same run: the same Native blocks inserted by the same engine with
 * `INSERT … FROM INFILE`, without log, decoding, look-ups and HTTP.
 * Run: node bench/projector.bench.ts [--events 50000] [--profile]
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Session } from 'node:inspector/promises';
import { parseArgs } from 'node:util';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { splitCborItems } from '../events/codec/cbor-items.ts';
import { migrate } from '../migrations/migrate.ts';
import type { ColumnStore } from '../store/columns/column-store.ts';
import { AfterBlock } from '../store/columns/projector/after-block.ts';
import { Projector } from '../store/columns/projector/projector.ts';
import { ensureProject } from '../store/columns/views/ensure-project.ts';
import { openTestStore } from '../store/columns/test-store.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import type { EventLog } from '../store/log/event-log.ts';
import { temporaryFolder } from '../e2e/server.ts';
import { cborTemplate, NODE_PAYLOAD } from './payload.ts';

const { values } = parseArgs({ options: { events: { type: 'string', default: '50000' }, profile: { type: 'boolean', default: false } } });
const events = Number(values.events);
const folder = temporaryFolder('projector-bench');
const blocks = join(folder.path, 'blocks');
mkdirSync(blocks);

async function fill(log: EventLog): Promise<void> {
  const templates = Array.from({ length: 16 }, (_, i) => cborTemplate({ ...NODE_PAYLOAD, seed: i + 1 }));
  for (let sent = 0, n = 0; sent < events; n++) {
    const template = templates[n % templates.length] as (typeof templates)[number];
    template.stamp(n);
    const items = splitCborItems(template.bytes);
    if (!items.ok) throw new Error(items.error.message);
    const records = items.value.map(({ start, end }) => ({ key: new Uint8Array(), value: template.bytes.subarray(start, end) }));
    await log.append(n % log.partitions, records);
    sent += records.length;
  }
}

/** Keeps every block that is inserted, for the limit. */
function recording(store: ColumnStore): ColumnStore {
  let n = 0;
  return {
    rows: (sql, options) => store.rows(sql, options),
    stream: (sql, format, options) => store.stream(sql, format, options),
    command: (sql, options) => store.command(sql, options),
    ping: (signal) => store.ping(signal),
    close: () => store.close(),
    insertNative: async (table, columns, block, options) => {
      const bytes = block instanceof Uint8Array ? block : Buffer.concat(block);
      writeFileSync(join(blocks, `${String(n++).padStart(6, '0')}.${table}.${columns.length}`), bytes);
      writeFileSync(join(blocks, `${table}.columns`), columns.join(','));
      await store.insertNative(table, columns, block, options);
    },
  };
}

const engine = await openTestStore();
const DATABASES = { measured: 'tapedeck', recorded: 'recorded' } as const;
for (const database of Object.values(DATABASES))
  await migrate(engine.connect('default'), { database, cluster: null, compression: 'by part size', clock: systemClock });
const log = await openEmbeddedLog({
  directory: folder.path,
  topic: 'events',
  partitions: 4,
  mode: 'write',
  maxRecordBytes: 1 << 20,
  compression: 'fast',
  clock: systemClock,
});
await fill(log);
const ends = (await log.positions()).map(({ end }) => end);

async function measure(store: ColumnStore, database: string): Promise<{ seconds: number; cpu: number }> {
  const after = new AfterBlock({ store, topic: 'events', clock: systemClock, projects: { database, cluster: null } });
  const projector = new Projector({
    log, topic: 'events', store, fetchBlob: async () => new Uint8Array(), clock: systemClock, random: systemRandom,
    blockBytes: 32 << 20, blockEvents: 10_000, blockWaitMs: 0, after,
  }); // prettier-ignore
  await ensureProject(store, 'default', { database, cluster: null }); // once in the life of a project: no part of the rate
  const cpu = process.cpuUsage();
  const started = performance.now();
  await projector.run(AbortSignal.timeout(600_000), ends);
  const used = process.cpuUsage(cpu);
  return { seconds: (performance.now() - started) / 1000, cpu: (used.user + used.system) / events };
}

const session = new Session();
if (values.profile) {
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: 500 });
  await session.post('Profiler.start');
}
const result = await measure(engine.connect(DATABASES.measured), DATABASES.measured);
if (values.profile) {
  const { profile } = await session.post('Profiler.stop');
  writeFileSync('/tmp/projector.cpuprofile', JSON.stringify(profile));
}
console.log(
  `log -> ClickHouse: ${Math.round(events / result.seconds)} events/s, ${result.cpu.toFixed(1)} us CPU per event in this process`,
);
// once more, to keep the blocks
if (!values.profile) await measure(recording(engine.connect(DATABASES.recorded)), DATABASES.recorded);
await engine.close();
await log.close();
if (!values.profile) {
  const child = fork(new URL('native-limit.ts', import.meta.url), [blocks, join(folder.path, 'limit')]);
  const [limit] = (await once(child, 'message')) as [{ seconds: number }];
  console.log(`limit, the same blocks from files: ${Math.round(events / limit.seconds)} events/s`);
  console.log(`ratio ${((100 * limit.seconds) / result.seconds).toFixed(0)} %`);
}
folder.remove();
