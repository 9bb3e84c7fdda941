/**
 * Memory over time: `tapedeck serve` as a user starts it, under a steady load, and what each of its processes holds, with the slope. Prints a line per sample and, at the end,
 * per process the range and the least-squares slope over the last two thirds (the first third fills caches), in MiB per hour. A process that was started anew is told.
 * Run: node bench/soak.bench.ts [--minutes 60] [--rate 1000] [--encoding cbor|json-numbers|json-base64] [--every 30] [--json]
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import type { Encoding, LoadPlan, LoadReport } from './ingest-protocol.ts';
import { PROCESSES, processesOf, storedEvents, usageOf, type ProcessName, type Usage } from './process-usage.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '1000' },
    encoding: { type: 'string', default: 'cbor' },
    every: { type: 'string', default: '30' },
    json: { type: 'boolean', default: false },
  },
});
const minutes = Number(values.minutes);
const rate = Number(values.rate);

type Sample = { readonly hours: number; readonly stored: number; readonly usage: Readonly<Record<ProcessName, Usage>> };

/** MiB per hour by least squares. */
function slope(points: readonly (readonly [hours: number, mib: number])[]): number {
  const meanX = points.reduce((sum, [x]) => sum + x, 0) / points.length;
  const meanY = points.reduce((sum, [, y]) => sum + y, 0) / points.length;
  const over = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return over / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

function figuresOf(name: ProcessName, samples: readonly Sample[]): Record<string, number> {
  const late = samples.slice(Math.floor(samples.length / 3));
  const anonymous = late.map(({ hours, usage }) => [hours, usage[name].anonymous] as const);
  const rss = late.map(({ hours, usage }) => [hours, usage[name].rss] as const);
  const all = samples.map(({ usage }) => usage[name].anonymous);
  const [first, last] = [samples[0] as Sample, samples.at(-1) as Sample];
  return {
    'anonymous MiB at first': first.usage[name].anonymous,
    'at the end': last.usage[name].anonymous,
    most: Math.max(...all),
    'slope MiB/h': slope(anonymous),
    'RSS MiB at the end': last.usage[name].rss,
    'RSS slope MiB/h': slope(rss),
    'CPU us/event': (last.usage[name].cpu - first.usage[name].cpu) / Math.max(1, last.stored - first.stored),
  };
}

const folder = temporaryFolder('soak');
const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_LOG_LEVEL: 'warn' }, { listenMs: 120_000 });
try {
  await server.ready(180_000);
  const pids = processesOf(server);
  const plan: LoadPlan = {
    port: Number(new URL(server.url).port),
    encoding: values.encoding as Encoding,
    connections: 4,
    seconds: minutes * 60,
    rate,
    writer: 0,
  };
  const generator = fork(new URL('load-generator.ts', import.meta.url));
  generator.send(plan);
  const started = performance.now();
  let sent: LoadReport | null = null;
  void once(generator, 'message').then(([report]) => (sent = report as LoadReport));
  const samples: Sample[] = [];
  while (sent === null) {
    await sleep(Number(values.every) * 1000);
    const now = processesOf(server);
    for (const name of PROCESSES) if (now[name] !== pids[name]) process.stdout.write(`${name} was started anew\n`);
    const usage = Object.fromEntries(PROCESSES.map((name) => [name, usageOf(now[name])])) as Record<ProcessName, Usage>;
    const sample = { hours: (performance.now() - started) / 3_600_000, stored: await storedEvents(server.url), usage };
    samples.push(sample);
    const text = PROCESSES.map((name) => `${name} ${Math.round(usage[name].anonymous)}/${Math.round(usage[name].rss)}`);
    if (!values.json)
      process.stdout.write(`${(sample.hours * 60).toFixed(1)} min, ${sample.stored} stored, anonymous/RSS MiB: ${text.join('  ')}\n`);
  }
  const report = Object.fromEntries(PROCESSES.map((name) => [name, figuresOf(name, samples)]));
  const { events, p50, p99, failures } = sent as LoadReport;
  if (values.json) process.stdout.write(`${JSON.stringify({ events, p50, p99, failures, report })}\n`);
  else {
    process.stdout.write(
      `${events} events accepted, acknowledged after p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)} ms, failures ${JSON.stringify(failures)}\n`,
    );
    for (const name of PROCESSES) process.stdout.write(`${name.padEnd(10)} ${Object.entries(report[name] ?? {}).map(([key, value]) => `${key} ${value.toFixed(1)}`).join(', ')}\n`); // prettier-ignore
  }
} finally {
  await server.kill();
  folder.remove();
}
