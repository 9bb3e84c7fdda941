/** The gateway as its tests see it: a real server on a real socket over a real embedded log, with a tap to break appends, and a restart. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { internalize } from '../../events/codec/blob-tags.ts';
import { readEvent } from '../../events/read-event.ts';
import type { EventOf, EventType, TapedeckEvent } from '../../events/registry.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import { openEmbeddedLog } from '../../store/log/embedded-log.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import { createTombstones } from '../accept-tombstones.ts';
import { openServer } from '../http/server.ts';
import { createGateway, type GatewayOptions } from './gateway.ts';
import { readUpstreams } from './upstreams/settings.ts';

/** Called before each append: may throw in its place, or wait. */
export type AppendTap = (partition: number, records: readonly LogRecord[]) => Promise<void> | void;

export type Made = {
  readonly rollout: string;
  readonly trace: string;
  readonly key: string;
  readonly baseUrls: { readonly withKey: { readonly openai: string } };
};

export type TestGateway = {
  readonly url: string;
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly registry: Registry;
  tap: AppendTap;
  /** Told about each read of the log. */
  onRead: (partition: number, from: number) => void;
  /** Posts JSON (or the very text) and answers status, headers and body. */
  post(
    path: string,
    body: unknown,
    headers?: Record<string, string>,
  ): Promise<{ status: number; headers: Headers; text: string; json: unknown }>;
  rollout(body?: Record<string, unknown>): Promise<Made>;
  /** Everything in the log, in order of the partitions. */
  events(): Promise<TapedeckEvent[]>;
  eventsOf<T extends EventType>(type: T, trace?: string): Promise<EventOf<T>[]>;
  /** Ends the gateway and starts it again over the same log, on another port. */
  restart(): Promise<void>;
  close(): Promise<void>;
};

export type TestGatewayOptions = {
  /** As in the setting. */
  readonly upstreams: unknown;
  readonly limits?: GatewayOptions['limits'];
  readonly acceptLimits?: GatewayOptions['acceptLimits'];
  readonly partitions?: number;
  readonly closeMs?: number;
};

export async function openGateway(options: TestGatewayOptions): Promise<TestGateway> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-gateway-'));
  const faults: unknown[] = [];
  let running: { app: FastifyInstance; log: EventLog; blobs: BlobStore; registry: Registry; url: string; close(): Promise<void> };
  const start = async (): Promise<typeof running> => {
    const log = await openEmbeddedLog({
      directory,
      topic: 'events',
      partitions: options.partitions ?? 2,
      mode: 'write',
      maxRecordBytes: 1_048_576,
      compression: 'none',
      clock: systemClock,
    });
    const blobs = await openDirectoryBlobs({ directory: join(directory, 'blobs'), clock: systemClock, random: systemRandom });
    const upstreams = readUpstreams(options.upstreams, () => 'upstream-key');
    if (!upstreams.ok) throw new Error(upstreams.error.message);
    const tapped = tappedLog(log, edge);
    const registry = new Registry();
    const gateway = await createGateway({
      log: tapped,
      blobs,
      clock: systemClock,
      random: systemRandom,
      tombstones: createTombstones(),
      registry,
      secret: Buffer.alloc(32, 1),
      upstreams: upstreams.value,
      ...(options.limits !== undefined && { limits: options.limits }),
      ...(options.acceptLimits !== undefined && { acceptLimits: options.acceptLimits }),
      onFault: (error) => void faults.push(error),
    });
    const app = await openServer({ clock: systemClock, random: systemRandom, closeMs: options.closeMs ?? 1_000 });
    await app.register(gateway.plugin);
    await app.listen({ host: '127.0.0.1', port: 0 });
    const { port } = app.server.address() as { port: number };
    const close = async (): Promise<void> => {
      await app.close();
      await gateway.close();
      await log.close();
      await blobs.close();
    };
    return { app, log, blobs, registry, url: `http://127.0.0.1:${port}`, close };
  };
  const post: TestGateway['post'] = (path, body, headers = {}) => postJson(running.url + path, body, headers);
  const edge: TestGateway = {
    get url() {
      return running.url;
    },
    get log() {
      return running.log;
    },
    get blobs() {
      return running.blobs;
    },
    get registry() {
      return running.registry;
    },
    tap: () => {},
    onRead: () => {},
    post,
    rollout: async (body = {}) => {
      const made = await post('/v1/rollouts', { run: 'run-1', ...body });
      if (made.status !== 201) throw new Error(made.text);
      return made.json as Made;
    },
    events: () => eventsIn(running.log, running.blobs),
    eventsOf: async <T extends EventType>(type: T, trace?: string) =>
      (await eventsIn(running.log, running.blobs)).filter(
        (e): e is EventOf<T> => e.type === type && (trace === undefined || e.trace === trace),
      ),
    restart: async () => {
      await running.close();
      running = await start();
    },
    close: async () => {
      await running.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
  running = await start();
  return edge;
}

function tappedLog(log: EventLog, taps: Pick<TestGateway, 'tap' | 'onRead'>): EventLog {
  return {
    ...log,
    partitions: log.partitions,
    read: (partition, from, options) => {
      taps.onRead(partition, from);
      return log.read(partition, from, options);
    },
    append: async (partition, records, signal) => {
      await taps.tap(partition, records);
      return log.append(partition, records, signal);
    },
  };
}

const postJson = async (url: string, body: unknown, headers: Readonly<Record<string, string>>): ReturnType<TestGateway['post']> => {
  const response = await fetch(url, {
    method: 'POST',
    body: typeof body === 'string' || body instanceof Uint8Array ? (body as string) : JSON.stringify(body),
    headers: { 'content-type': 'application/json', ...headers },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: text.startsWith('{') ? JSON.parse(text) : null };
};

async function eventsIn(log: EventLog, blobs: BlobStore): Promise<TapedeckEvent[]> {
  const found: TapedeckEvent[] = [];
  for (let partition = 0; partition < log.partitions; partition++) {
    for (let from = 0; ;) {
      const chunk = await log.read(partition, from, { maxBytes: 1 << 24 });
      for (const { value } of chunk.records) {
        const read = readEvent(await internalize(value, (sha256) => blobs.get(sha256)));
        if (!read.ok) throw new Error(read.error.message);
        found.push(read.value);
      }
      if (chunk.records.length === 0) break;
      from = chunk.next;
    }
  }
  return found;
}
