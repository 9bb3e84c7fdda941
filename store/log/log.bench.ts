/**
 * The embedded log beside the limit: the same records appended to a plain file with one writev and one fdatasync per group. Events are 6.6 KB as CBOR
 * (bench/payload.ts). Run: node store/log/log.bench.ts [--seconds 2]
 */
import { closeSync, fdatasync, mkdtempSync, openSync, readdirSync, rmSync, statSync, writev } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { systemClock } from '../../base/clock.ts';
import { NODE_PAYLOAD, payloadEvents } from '../../bench/payload.ts';
import { encodeEvent } from '../../events/codec/cbor-encode.ts';
import { PackedArray } from '../../events/packed-array.ts';
import type { LogCompression } from './batch-frame.ts';
import { openEmbeddedLog } from './embedded-log.ts';
import type { EventLog, LogRecord } from './event-log.ts';

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '2' } } });
const seconds = Number(values.seconds);
const PARTITIONS = 4;
const SHAPES = [
  { requests: 1, events: 1 },
  { requests: 1, events: 100 },
  { requests: 4, events: 100 },
  { requests: 16, events: 100 },
];

const records: LogRecord[] = payloadEvents({ ...NODE_PAYLOAD, events: 2000 }).map((event) => {
  const { ids, mask, logprobs } = event.data.tokens;
  const tokens = { ids: PackedArray.of(ids), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) };
  return { key: Buffer.from(event.rollout), value: encodeEvent({ ...event, data: { ...event.data, tokens } }) };
});
const eventBytes = records.reduce((sum, { value }) => sum + value.length, 0) / records.length;

type Measure = { rate: number; cpu: number; p50: number; p99: number };
type Append = (lane: number, batch: readonly LogRecord[]) => Promise<unknown>;

/** `requests` lanes append batches one after the other for some seconds. */
async function measure(shape: (typeof SHAPES)[number], append: Append): Promise<Measure> {
  const latencies: number[] = [];
  let events = 0;
  const until = performance.now() + seconds * 1000;
  const cpu = process.cpuUsage();
  const start = performance.now();
  const lane = async (number: number): Promise<void> => {
    for (let at = number * 97; performance.now() < until; at += shape.events) {
      const from = at % (records.length - shape.events);
      const began = performance.now();
      await append(number, records.slice(from, from + shape.events));
      latencies.push(performance.now() - began);
      events += shape.events;
    }
  };
  await Promise.all(Array.from({ length: shape.requests }, (_, number) => lane(number)));
  const { user, system } = process.cpuUsage(cpu);
  const elapsed = performance.now() - start;
  latencies.sort((a, b) => a - b);
  const quantile = (q: number): number => latencies[Math.floor((latencies.length - 1) * q)] as number;
  return { rate: (events / elapsed) * 1000, cpu: (user + system) / events, p50: quantile(0.5), p99: quantile(0.99) };
}

/** The limit: what waits is written with one writev and made durable with one fdatasync. */
function plainFile(file: string): { append: Append; close(): void } {
  const handle = openSync(file, 'a');
  const write = promisify(writev);
  const sync = promisify(fdatasync);
  let waiting: { batch: readonly LogRecord[]; done: () => void }[] = [];
  let running = false;
  const pump = async (): Promise<void> => {
    running = true;
    while (waiting.length > 0) {
      const group = waiting;
      waiting = [];
      const buffers = group.flatMap(({ batch }) => batch.flatMap(({ key, value }) => [key, value]));
      for (let i = 0; i < buffers.length; i += 1000) await write(handle, buffers.slice(i, i + 1000));
      await sync(handle);
      for (const { done } of group) done();
    }
    running = false;
  };
  return {
    append: (_, batch) =>
      new Promise<void>((done) => {
        waiting.push({ batch, done });
        if (!running) void pump();
      }),
    close: () => closeSync(handle),
  };
}

async function readAll(log: EventLog, maxBytes: number): Promise<Measure> {
  let events = 0;
  const latencies: number[] = [];
  const cpu = process.cpuUsage();
  const start = performance.now();
  for (const [partition, { end }] of (await log.positions()).entries()) {
    for (let at = 0; at < end;) {
      const began = performance.now();
      const chunk = await log.read(partition, at, { maxBytes });
      latencies.push(performance.now() - began);
      events += chunk.records.length;
      at = chunk.next;
    }
  }
  const { user, system } = process.cpuUsage(cpu);
  latencies.sort((a, b) => a - b);
  return {
    rate: (events / (performance.now() - start)) * 1000,
    cpu: (user + system) / events,
    p50: latencies[latencies.length >> 1] as number,
    p99: latencies[Math.floor((latencies.length - 1) * 0.99)] as number,
  };
}

function sizeOf(directory: string): number {
  return readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);
}

function print(name: string, shape: string, m: Measure, extra = ''): void {
  const row = [
    name.padEnd(16),
    shape.padEnd(9),
    m.rate.toFixed(0).padStart(8),
    m.cpu.toFixed(1).padStart(8),
    m.p50.toFixed(1).padStart(7),
    m.p99.toFixed(1).padStart(7),
  ];
  process.stdout.write(`${row.join(' ')}  ${extra}\n`);
}

const root = mkdtempSync(join(tmpdir(), 'tapedeck-bench-log-'));
process.stdout.write(`event ${eventBytes.toFixed(0)} B, requests x events, ${seconds} s each\n`);
process.stdout.write('what             shape     events/s CPU us/e  p50 ms  p99 ms\n');
try {
  for (const shape of SHAPES) {
    const label = `${shape.requests}x${shape.events}`;
    const plain = plainFile(join(root, `plain-${label}`));
    const limit = await measure(shape, plain.append);
    plain.close();
    print('plain file', label, limit);
    for (const compression of ['none', 'fast', 'zstd'] satisfies LogCompression[]) {
      const topic = `${compression}-${label}`;
      const log = await openEmbeddedLog({
        directory: root,
        topic,
        partitions: PARTITIONS,
        mode: 'write',
        maxRecordBytes: 1 << 20,
        compression,
        clock: systemClock,
      });
      const appended = await measure(shape, (lane, batch) => log.append(lane % PARTITIONS, batch));
      const events = (await log.positions()).reduce((sum, { end }) => sum + end, 0);
      print(
        `log, ${compression}`,
        label,
        appended,
        `${((100 * appended.rate) / limit.rate).toFixed(0)} % of the file, ${(sizeOf(join(root, topic)) / events).toFixed(0)} B/event on disk`,
      );
      if (shape.requests === 4) {
        print(`read, ${compression}`, '4 MiB', await readAll(log, 4 << 20));
        const opening = performance.now();
        const reader = await openEmbeddedLog({
          directory: root,
          topic,
          partitions: PARTITIONS,
          mode: 'read',
          maxRecordBytes: 1 << 20,
          compression,
          clock: systemClock,
        });
        process.stdout.write(`open for reading over ${events} events: ${(performance.now() - opening).toFixed(1)} ms\n`);
        await reader.close();
      }
      await log.close();
      rmSync(join(root, topic), { recursive: true });
    }
    rmSync(join(root, `plain-${label}`));
  }
} finally {
  rmSync(root, { recursive: true, force: true });
}
