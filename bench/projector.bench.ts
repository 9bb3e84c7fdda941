/**
 * From the log into ClickHouse: rows per second and CPU per event of the projector, beside the limit in the same run: the same Native blocks inserted by the same engine with
 * `INSERT … FROM INFILE`, without log, decoding, look-ups and HTTP. Both take turns: each round gives a ratio, and the medians of the rounds are the result. CPU per event is
 * that of this process (log, projector, HTTP), without the engine.
 * Run: node bench/projector.bench.ts [--events 50000] [--rounds 3] [--profile]
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Session } from 'node:inspector/promises';
import { parseArgs } from 'node:util';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { systemClock } from '../base/clock.ts';
import { accountExternalMemory } from '../base/external-memory.ts';
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

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '50000' },
    rounds: { type: 'string', default: '3' },
    profile: { type: 'boolean', default: false },
  },
});
accountExternalMemory(); // as the projector's own process does
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
async function emptyDatabase(database: string): Promise<ColumnStore> {
  await migrate(engine.connect('default'), { database, cluster: null, compression: 'by part size', clock: systemClock });
  return engine.connect(database);
}

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

async function profiled(): Promise<void> {
  const session = new Session();
  session.connect();
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: 500 });
  await session.post('Profiler.start');
  await measure(await emptyDatabase('profiled'), 'profiled');
  const { profile } = await session.post('Profiler.stop');
  writeFileSync('/tmp/projector.cpuprofile', JSON.stringify(profile));
  console.log('/tmp/projector.cpuprofile');
}

/** The recorded blocks from files, into an engine of their own. */
async function limit(round: number): Promise<number> {
  const child = fork(new URL('native-limit.ts', import.meta.url), [blocks, join(folder.path, `limit${round}`)]);
  const [{ seconds }] = (await once(child, 'message')) as [{ seconds: number }];
  return events / seconds;
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] as number;
}

async function compare(): Promise<void> {
  // keeps the blocks, and warms up
  await measure(recording(await emptyDatabase('recorded')), 'recorded');
  const rates: number[] = [];
  const limits: number[] = [];
  const cpus: number[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const project = async (): Promise<void> => {
      const { seconds, cpu } = await measure(await emptyDatabase(`round${round}`), `round${round}`);
      rates.push(events / seconds);
      cpus.push(cpu);
    };
    const insert = async (): Promise<unknown> => limits.push(await limit(round));
    // what came first in one round comes last in the next
    for (const step of round % 2 === 0 ? [project, insert] : [insert, project]) await step();
    const [rate, most] = [rates[round] as number, limits[round] as number];
    console.log(
      `round ${round + 1}: ${Math.round(rate)} events/s, ${(cpus[round] as number).toFixed(1)} us CPU per event; limit ${Math.round(most)}; ${((100 * rate) / most).toFixed(0)} %`,
    );
  }
  const ratios = rates.map((rate, i) => (100 * rate) / (limits[i] as number));
  console.log(`log -> ClickHouse: ${Math.round(median(rates))} events/s, ${median(cpus).toFixed(1)} us CPU per event in this process`);
  console.log(`limit, the same blocks from files: ${Math.round(median(limits))} events/s`);
  console.log(`ratio ${median(ratios).toFixed(0)} % (${Math.min(...ratios).toFixed(0)} to ${Math.max(...ratios).toFixed(0)})`);
}

await (values.profile ? profiled() : compare());
await engine.close();
await log.close();
folder.remove();
