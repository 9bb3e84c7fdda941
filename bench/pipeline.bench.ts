/**
 * The whole path on one machine: `tapedeck serve` as a user starts it, a load generator beside it, until every event can be asked for in SQL. Prints accepted and
 * queryable events per second, CPU per event of each process, acknowledgements, bytes on disk, resident memory, and how soon an acknowledged event is visible.
 * Run: node bench/pipeline.bench.ts [--rate 5000] [--seconds 60] [--encoding cbor|json-numbers|json-base64] [--visible] [--settle 0] [--json]
 * With --settle the bytes on disk are measured once more after so many seconds: merges go on after a load, and what was merged stays for a minute.
 */
import { execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import type { Encoding, LoadPlan, LoadReport } from './ingest-protocol.ts';
import { processesOf, storedEvents, usageOf, type Usage } from './process-usage.ts';
import { visibleLatencies } from './visible.ts';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', default: '5000' },
    seconds: { type: 'string', default: '60' },
    encoding: { type: 'string', default: 'cbor' },
    visible: { type: 'boolean', default: false },
    settle: { type: 'string', default: '0' },
    json: { type: 'boolean', default: false },
  },
});
const rate = values.rate === 'max' ? null : Number(values.rate);
const seconds = Number(values.seconds);

function kilobytes(path: string): number {
  return Number(execFileSync('du', ['-sk', path]).toString().split('\t')[0]);
}

async function settled(events: number): Promise<Record<string, number>> {
  const wait = Number(values.settle);
  if (wait === 0) return {};
  await sleep(wait * 1000);
  return { [`table bytes/event after ${wait} s`]: tableBytes() / events };
}

const folder = temporaryFolder('pipeline');
const tableBytes = (): number => 1024 * kilobytes(join(folder.path, 'engine', 'store'));
const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_LOG_LEVEL: 'warn' }, { listenMs: 120_000 });
try {
  await server.ready(180_000);
  const pids = processesOf(server);
  const names = Object.keys(pids) as (keyof typeof pids)[];
  const before = Object.fromEntries(names.map((name) => [name, usageOf(pids[name]).cpu]));
  const plan: LoadPlan = {
    port: Number(new URL(server.url).port),
    encoding: values.encoding as Encoding,
    connections: 16,
    seconds,
    rate,
    writer: 0,
  };
  const started = performance.now();
  const generator = fork(new URL('load-generator.ts', import.meta.url));
  generator.send(plan);
  const visible = values.visible ? visibleLatencies(server.url, seconds) : null;
  const [sent] = (await once(generator, 'message')) as [LoadReport];
  const atEnd = await storedEvents(server.url);
  while ((await storedEvents(server.url)) < sent.events) await sleep(250); // each look costs the server milliseconds
  const drained = (performance.now() - started) / 1000;
  const usage = Object.fromEntries(names.map((name) => [name, usageOf(pids[name])])) as Record<keyof typeof pids, Usage>;
  const cpu = (name: keyof typeof pids): number => (usage[name].cpu - (before[name] ?? 0)) / sent.events;
  await sleep(3000);
  const latencies = (await visible)?.toSorted((a, b) => a - b) ?? [];
  const figures = {
    'accepted events/s': sent.events / sent.seconds,
    'queryable events/s': sent.events / drained,
    'stored when the load ended, %': (100 * atEnd) / sent.events,
    'ack p50 ms': sent.p50,
    'ack p99 ms': sent.p99,
    'CPU us/event': cpu('server') + cpu('engine') + cpu('projector'),
    'of it server': cpu('server'),
    'of it projector': cpu('projector'),
    'of it engine': cpu('engine'),
    'table bytes/event': tableBytes() / sent.events,
    'log bytes/event': (1024 * kilobytes(join(folder.path, 'log'))) / sent.events,
    'RSS MiB server/projector/engine': names.map((name) => Math.round(usage[name].rss)).join('/'),
    'anonymous MiB': names.map((name) => Math.round(usage[name].anonymous)).join('/'),
    ...(latencies.length > 0
      ? { 'visible p50 ms': latencies[latencies.length >> 1], 'visible p99 ms': latencies[Math.floor(latencies.length * 0.99)] }
      : {}),
    ...(await settled(sent.events)),
    failures: JSON.stringify(sent.failures),
  };
  if (values.json) process.stdout.write(`${JSON.stringify(figures)}\n`);
  else
    for (const [name, value] of Object.entries(figures))
      process.stdout.write(`${name.padEnd(34)} ${typeof value === 'number' ? value.toFixed(1) : value}\n`);
} finally {
  await server.kill();
  folder.remove();
}
