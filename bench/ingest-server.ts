/** Child process of bench/ingest.bench.ts: the ingest edge over a real embedded log, alone; and the limit beside it, the same bytes appended straight to a log. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { systemClock } from '../base/clock.ts';
import { accountExternalMemory } from '../base/external-memory.ts';
import { systemRandom } from '../base/random.ts';
import { splitCborItems } from '../events/codec/cbor-items.ts';
import { createProducers } from '../ingest/accept-producers.ts';
import { createTombstones } from '../ingest/accept-tombstones.ts';
import { createIngest, openServer } from '../ingest/http/server.ts';
import { openDirectoryBlobs } from '../store/blobs/directory-blobs.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import type { EventLog } from '../store/log/event-log.ts';
import { partitionOf } from '../store/log/partitioner.ts';
import type { ServerAsked, ServerSaid } from './ingest-protocol.ts';
import { cborTemplate, NODE_PAYLOAD } from './payload.ts';

accountExternalMemory(); // as the server does
const PARTITIONS = 4;
const compression = process.argv[2] === 'zstd' ? 'zstd' : 'none';
const directory = await mkdtemp(join(tmpdir(), 'tapedeck-bench-'));

function openLog(name: string): Promise<EventLog> {
  return openEmbeddedLog({
    directory: join(directory, name),
    topic: 'events',
    partitions: PARTITIONS,
    mode: 'write',
    maxRecordBytes: 1_048_576,
    compression,
    clock: systemClock,
  });
}

/** Each batch of the load splits over the partitions by its traces; the same records, without HTTP, checks or copies. */
async function appendDirectly(log: EventLog, inFlight: number, seconds: number): Promise<ServerSaid> {
  const { bytes } = cborTemplate();
  const split = splitCborItems(bytes);
  if (!split.ok) throw new Error(split.error.message);
  const groups = new Map<number, { key: Uint8Array; value: Uint8Array }[]>();
  split.value.forEach(({ start, end }, i) => {
    const key = Buffer.from(`rollout-00-0000000000-${Math.floor(i / NODE_PAYLOAD.nodesPerTrace)}`);
    const partition = partitionOf(key, PARTITIONS);
    groups.set(partition, [...(groups.get(partition) ?? []), { key, value: bytes.subarray(start, end) }]);
  });
  const start = performance.now();
  const cpu = process.cpuUsage();
  let events = 0;
  const worker = async (): Promise<void> => {
    while (performance.now() - start < seconds * 1000) {
      await Promise.all([...groups].map(([partition, records]) => log.append(partition, records)));
      events += split.value.length;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, worker));
  const used = process.cpuUsage(cpu);
  return { kind: 'direct', events, seconds: (performance.now() - start) / 1000, processMicros: used.user + used.system };
}

const log = await openLog('edge');
const blobs = await openDirectoryBlobs({ directory: join(directory, 'blobs'), clock: systemClock, random: systemRandom });
const producers = createProducers({ loadProducers: async () => new Map() });
await producers.load();
const app = await openServer({ clock: systemClock, random: systemRandom });
await app.register(
  createIngest({
    log,
    blobs,
    clock: systemClock,
    random: systemRandom,
    producers,
    tombstones: createTombstones(),
    registry: new Registry(),
  }),
);
await app.listen({ host: '127.0.0.1', port: 0 });

function say(message: ServerSaid): void {
  process.send?.(message);
}

async function answer(asked: ServerAsked): Promise<void> {
  switch (asked.kind) {
    case 'cpu': {
      const all = process.cpuUsage();
      const main = process.threadCpuUsage();
      return say({ kind: 'cpu', processMicros: all.user + all.system, mainMicros: main.user + main.system });
    }
    case 'direct': {
      const direct = await openLog('direct');
      const said = await appendDirectly(direct, asked.inFlight, asked.seconds);
      await direct.close();
      return say(said);
    }
    case 'end':
      await app.close();
      await log.close();
      await blobs.close();
      await rm(directory, { recursive: true, force: true });
      process.disconnect();
  }
}

process.on('message', (asked: ServerAsked) => void answer(asked));
say({ kind: 'listening', port: (app.server.address() as { port: number }).port });
