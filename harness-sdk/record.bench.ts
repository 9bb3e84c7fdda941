/**
 * What recording costs a harness: microseconds per `trace.message()` with 512-token nodes, and the delay of its event loop while it records. The limits of the same run: encoding
 * the event alone, JSON.stringify of it, and the loop of a program that records nothing. Run: node harness-sdk/record.bench.ts [--rate 1000] [--seconds 4]
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { NODE_PAYLOAD, payloadEvents } from '../bench/payload.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { createRecorder, type Message, type Recorder, type SpoolOptions, type Tokens } from './index.ts';

const { values } = parseArgs({ options: { rate: { type: 'string', default: '1000' }, seconds: { type: 'string', default: '4' } } });
const rate = Number(values.rate);
const seconds = Number(values.seconds);
const folder = mkdtempSync(join(tmpdir(), 'tapedeck-record-'));
const nodes = payloadEvents({ ...NODE_PAYLOAD, events: 64 }).map(({ data }) => ({
  message: data.message as Message,
  tokens: data.tokens as Tokens,
}));

/** Takes everything at once, in a process of its own. */
const SINK = `
require('node:http').createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk)).on('end', () => {
    const body = Buffer.concat(chunks);
    const info = body[0] & 31;
    const events = info < 24 ? info : body.readUIntBE(1, 1 << (info - 24));
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ accepted: events, duplicates: 0, rejected: [] }));
  });
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;
const sink = spawn(process.execPath, ['-e', SINK], { stdio: ['ignore', 'pipe', 'inherit'] });
const [first] = (await once(sink.stdout, 'data')) as [Buffer];
const url = `http://127.0.0.1:${first.toString().trim()}`;

function cpuMicros(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

function print(name: string, text: string): void {
  process.stdout.write(`${name.padEnd(58)} ${text}\n`);
}

/** CPU time of this thread per call, in bursts of 200 with a rest in between: what is done in the background is not in it. The median of 40 bursts. */
async function costPerCall(work: (i: number) => void): Promise<number> {
  const bursts: number[] = [];
  for (let b = 0; b < 45; b++) {
    const start = cpuMicros();
    for (let i = 0; i < 200; i++) work(b * 200 + i);
    if (b >= 5) bursts.push((cpuMicros() - start) / 200);
    await sleep(15);
  }
  return bursts.toSorted((x, y) => x - y)[20] as number;
}

async function costOfMessage(name: string, spool: SpoolOptions | undefined): Promise<void> {
  const recorder = createRecorder({ url, spool, memoryBytes: 256 << 20 });
  const trace = recorder.rollout({ env: 'bench' }).trace({ agent: 'bench' });
  const cost = await costPerCall((i) => {
    const { message, tokens } = nodes[i % nodes.length] as (typeof nodes)[number];
    trace.message(message, { sampled: true, tokens });
  });
  print(`trace.message(), ${name}`, `${cost.toFixed(1).padStart(7)} us`);
  await recorder.close();
}

/** Per millisecond of the loop's own clock: how much later than asked a timer fires. */
async function loopDelay(name: string, recorder: Recorder | null): Promise<void> {
  const trace = recorder?.rollout({ env: 'bench' }).trace({ agent: 'bench' });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const cpu = process.cpuUsage();
  const start = performance.now();
  for (let sent = 0; performance.now() - start < seconds * 1000;) {
    for (const due = ((performance.now() - start) / 1000) * rate; sent < due; sent++) {
      const { message, tokens } = nodes[sent % nodes.length] as (typeof nodes)[number];
      trace?.message(message, { sampled: true, tokens });
    }
    await sleep(1);
  }
  delay.disable();
  const { user, system } = process.cpuUsage(cpu);
  const ms = (ns: number): string => (ns / 1e6 - 1).toFixed(2).padStart(6);
  const share = (((user + system) / 1e6 / seconds) * 100).toFixed(0);
  print(name, `p50 ${ms(delay.percentile(50))} ms  p99 ${ms(delay.percentile(99))} ms  max ${ms(delay.max)} ms  CPU ${share} %`);
  await recorder?.close().catch(() => {});
}

try {
  const events = payloadEvents({ ...NODE_PAYLOAD, events: 64 });
  const bytes = events.reduce((sum, event) => sum + encodeEvent(event).length, 0) / events.length;
  process.stdout.write(`node.appended with 2 KB of text, 512 ids, mask and 400 log-probabilities: ${Math.round(bytes)} B as CBOR\n`);
  print(
    'limit: encoding the event alone',
    `${(await costPerCall((i) => void encodeEvent(events[i % 64] as object))).toFixed(1).padStart(7)} us`,
  );
  const plain = events.map((event) => ({ ...event, data: { ...event.data, tokens: Object.fromEntries(Object.entries(event.data.tokens).map(([key, each]) => [key, [...each]])) } })); // prettier-ignore
  print(
    'limit: JSON.stringify of the event',
    `${(await costPerCall((i) => void JSON.stringify(plain[i % 64]))).toFixed(1).padStart(7)} us`,
  );
  await costOfMessage('in memory', undefined);
  await costOfMessage('spool', { folder: join(folder, 'a') });
  await costOfMessage('spool, sync', { folder: join(folder, 'b'), sync: true });
  process.stdout.write(`\nevent loop at ${rate} messages a second, for ${seconds} s: delay beyond the timer's own millisecond\n`);
  await loopDelay('limit: nothing is recorded', null);
  await loopDelay('in memory', createRecorder({ url }));
  await loopDelay('spool', createRecorder({ url, spool: join(folder, 'c') }));
  await loopDelay('spool, server away', createRecorder({ url: 'http://127.0.0.1:9', spool: join(folder, 'd'), closeMs: 1 }));
  await loopDelay('spool, sync, server away', createRecorder({ url: 'http://127.0.0.1:9', spool: { folder: join(folder, 'e'), sync: true }, closeMs: 1 })); // prettier-ignore
} finally {
  sink.kill();
  rmSync(folder, { recursive: true, force: true });
}
