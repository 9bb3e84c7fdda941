/**
 * Durable accept over HTTP: events per second, server CPU per event, acknowledgement at a fixed rate; beside the limit in the same run, which is
 * appending the same bytes straight to the log. Server and load generator are processes of their own on the same machine. Accept and limit take turns, since the speed of a
 * disk changes within a minute: each round gives a ratio, and the medians of the rounds are the result.
 * Run: node bench/ingest.bench.ts [--seconds 5] [--rounds 5] [--rate 5000] [--connections 4] [--compression none|zstd] [--json]
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import type { Encoding, LoadPlan, LoadReport, ServerAsked, ServerSaid } from './ingest-protocol.ts';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '5' },
    rate: { type: 'string', default: '5000' },
    connections: { type: 'string', default: '4' },
    compression: { type: 'string', default: 'none' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds);
const connections = Number(values.connections);

type Row = { readonly name: string; readonly figures: Readonly<Record<string, number>> };
const rows: Row[] = [];

function report(name: string, figures: Record<string, number>): void {
  rows.push({ name, figures });
  if (values.json) return;
  const text = Object.entries(figures).map(([key, value]) => `${key} ${value >= 100 ? Math.round(value) : value.toFixed(2)}`);
  process.stdout.write(`${name.padEnd(34)} ${text.join('   ')}\n`);
}

async function ask<K extends ServerSaid['kind']>(server: ChildProcess, asked: ServerAsked): Promise<Extract<ServerSaid, { kind: K }>> {
  server.send(asked);
  const [said] = (await once(server, 'message')) as [Extract<ServerSaid, { kind: K }>];
  return said;
}

async function load(plan: LoadPlan): Promise<LoadReport> {
  const child = fork(new URL('load-generator.ts', import.meta.url));
  child.send(plan);
  const [result] = (await once(child, 'message')) as [LoadReport];
  return result;
}

let writer = 0;
async function measure(server: ChildProcess, port: number, name: string, encoding: Encoding, rate: number | null): Promise<number> {
  const before = await ask<'cpu'>(server, { kind: 'cpu' });
  const plan = { port, encoding, connections: rate === null ? connections : 4 * connections, seconds, rate, writer };
  writer += plan.connections;
  const result = await load(plan);
  const after = await ask<'cpu'>(server, { kind: 'cpu' });
  const failed = Object.values(result.failures).reduce((a, b) => a + b, 0);
  if (failed > 0) process.stderr.write(`${name}: requests that did not accept everything: ${JSON.stringify(result.failures)}\n`);
  report(name, {
    'events/s': result.events / result.seconds,
    'server us/event': (after.processMicros - before.processMicros) / result.events,
    'main thread us/event': (after.mainMicros - before.mainMicros) / result.events,
    'p50 ms': result.p50,
    'p99 ms': result.p99,
    'bytes/event': result.bytesPerEvent,
    'failed requests': failed,
  });
  return result.events / result.seconds;
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

const server = fork(new URL('ingest-server.ts', import.meta.url), [values.compression], {
  execArgv: ['--max-semi-space-size=64', '--disable-warning=ExperimentalWarning'],
});
const [listening] = (await once(server, 'message')) as [Extract<ServerSaid, { kind: 'listening' }>];
const wants = (name: string): boolean => values.only === undefined || name.includes(values.only);
await load({ port: listening.port, encoding: 'cbor', connections, seconds: 1, rate: null, writer: 200 });

async function appendDirectly(): Promise<number> {
  const direct = await ask<'direct'>(server, { kind: 'direct', inFlight: connections, seconds });
  report('limit: append straight to the log', {
    'events/s': direct.events / direct.seconds,
    'us/event': direct.processMicros / direct.events,
  });
  return direct.events / direct.seconds;
}

if (wants('cbor')) {
  const limits: number[] = [];
  const rates: number[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    // what came first in one round comes last in the next
    const append = async (): Promise<unknown> => limits.push(await appendDirectly());
    const accept = async (): Promise<unknown> =>
      rates.push(await measure(server, listening.port, 'CBOR, as fast as it goes', 'cbor', null));
    for (const step of round % 2 === 0 ? [append, accept] : [accept, append]) await step();
  }
  const ratios = rates.map((rate, i) => rate / (limits[i] as number));
  report('medians: limit, CBOR', { 'limit events/s': median(limits), 'CBOR events/s': median(rates) });
  report('CBOR against the limit', { 'median ratio': median(ratios), smallest: Math.min(...ratios), largest: Math.max(...ratios) });
}
if (wants('json')) await measure(server, listening.port, 'JSON, streams as numbers', 'json-numbers', null);
if (wants('base64')) await measure(server, listening.port, 'JSON, streams as base64', 'json-base64', null);
if (wants('paced')) await measure(server, listening.port, `CBOR at ${values.rate} events/s`, 'cbor', Number(values.rate));
server.send({ kind: 'end' } satisfies ServerAsked);
await once(server, 'exit');
if (values.json) process.stdout.write(`${JSON.stringify(rows)}\n`);
