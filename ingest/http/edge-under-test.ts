/** The edge as its tests see it: a real Fastify on a real socket over a real embedded log, with a tap to break appends. */
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { internalize } from '../../events/codec/blob-tags.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { openDirectoryBlobs } from '../../store/blobs/directory-blobs.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import { openEmbeddedLog } from '../../store/log/embedded-log.ts';
import type { EventLog, LogRecord } from '../../store/log/event-log.ts';
import { createProducers, type Producers } from '../accept-producers.ts';
import type { ProducerState } from '../accept-sequence.ts';
import type { Rejection } from '../accept-plan.ts';
import { createTombstones, type Tombstones } from '../accept-tombstones.ts';
import type { ReadyCheck } from './health.ts';
import type { IngestLimits } from './limits.ts';
import { createIngest, openServer, type IngestRoutes, type ServerOptions } from './server.ts';

export type ResultBody = { accepted: number; duplicates: number; rejected: Rejection[]; deadLettered?: Rejection[] };
export type AnswerBody = ResultBody & { error: { code: string; message: string; details?: Partial<ResultBody> & Record<string, unknown> } };
export type Reply = { status: number; headers: Headers; body: AnswerBody };

export type Stored = { partition: number; id: string; key: string; value: Uint8Array; event: Record<string, unknown> };

/** Called before each append: may throw in its place, or wait. */
export type AppendTap = (partition: number, records: readonly LogRecord[]) => Promise<void> | void;

export type Edge = {
  readonly app: FastifyInstance;
  readonly url: string;
  readonly port: number;
  readonly log: EventLog;
  readonly blobs: BlobStore;
  readonly producers: Producers;
  readonly tombstones: Tombstones;
  readonly registry: Registry;
  tap: AppendTap;
  post(body: unknown, headers?: Record<string, string>): Promise<Reply>;
  /** Everything in the log, decoded. */
  stored(): Promise<Stored[]>;
  socket(): Promise<Socket>;
  close(): Promise<void>;
};

export type EdgeOptions = {
  readonly limits?: Partial<IngestLimits>;
  readonly server?: Partial<ServerOptions>;
  readonly checks?: readonly ReadyCheck[];
  readonly feeds?: boolean;
  readonly loadProducers?: () => Promise<ReadonlyMap<string, ProducerState>>;
  readonly loadAtStart?: boolean;
  readonly partitions?: number;
  /** Further routes, made over the (tapped) log. */
  readonly routes?: (log: EventLog) => readonly IngestRoutes[];
};

export async function openEdge(options: EdgeOptions = {}): Promise<Edge> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-edge-'));
  const open = (topic: string): Promise<EventLog> =>
    openEmbeddedLog({
      directory,
      topic,
      partitions: options.partitions ?? 4,
      mode: 'write',
      maxRecordBytes: 1_048_576,
      compression: 'none',
      clock: systemClock,
    });
  const log = await open('events');
  const feeds = options.feeds === true ? await open('feeds') : undefined;
  const blobs = await openDirectoryBlobs({ directory: join(directory, 'blobs'), clock: systemClock, random: systemRandom });
  const producers = createProducers({ loadProducers: options.loadProducers ?? (async () => new Map()) });
  if (options.loadAtStart !== false) await producers.load();
  const tombstones = createTombstones();
  const registry = new Registry();
  const app = await openServer({ clock: systemClock, random: systemRandom, ...options.server });
  const edge = { tap: (() => {}) as AppendTap };
  const tapped: EventLog = {
    ...log,
    partitions: log.partitions,
    append: async (partition, records, signal) => {
      await edge.tap(partition, records);
      return log.append(partition, records, signal);
    },
  };
  await app.register(
    createIngest({
      log: tapped, ...(feeds ? { feeds } : {}), blobs, clock: systemClock, random: systemRandom, producers, tombstones, registry,
      limits: options.limits ?? {}, checks: options.checks ?? [], routes: options.routes?.(tapped) ?? [],
    }),
  ); // prettier-ignore
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as { port: number };
  const url = `http://127.0.0.1:${port}`;
  return Object.assign(edge, {
    app, url, port, log, blobs, producers, tombstones, registry,
    post: (body: unknown, headers: Record<string, string> = {}) => post(`${url}/v1/events`, body, headers),
    stored: () => storedIn(log, blobs),
    socket: async () => {
      const socket = connect(port, '127.0.0.1');
      await once(socket, 'connect');
      return socket;
    },
    close: async () => {
      await app.close();
      await log.close();
      await feeds?.close();
      await blobs.close();
      await rm(directory, { recursive: true, force: true });
    },
  }); // prettier-ignore
}

/** Bytes go as they are; anything else as JSON. */
async function post(url: string, body: unknown, headers: Record<string, string>): Promise<Reply> {
  const isBytes = body instanceof Uint8Array;
  const response = await fetch(url, {
    method: 'POST',
    body: isBytes ? new Uint8Array(body) : JSON.stringify(body),
    headers: { 'content-type': isBytes ? 'application/cbor' : 'application/json', ...headers },
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as AnswerBody };
}

async function storedIn(log: EventLog, blobs: BlobStore): Promise<Stored[]> {
  const found: Stored[] = [];
  for (let partition = 0; partition < log.partitions; partition++) {
    for (let from = 0; ;) {
      const chunk = await log.read(partition, from, { maxBytes: 1 << 24 });
      for (const { key, value } of chunk.records) {
        const event = decodeCbor(await internalize(value, (sha256) => blobs.get(sha256))) as Record<string, unknown>;
        found.push({ partition, id: event['id'] as string, key: Buffer.from(key).toString(), value: Uint8Array.from(value), event });
      }
      if (chunk.records.length === 0) break;
      from = chunk.next;
    }
  }
  return found;
}

/** Sends raw text or bytes and collects what comes back until the server closes or `ms` passed. */
export async function talk(socket: Socket, parts: readonly (string | Uint8Array)[], ms = 3000): Promise<string> {
  let answer = '';
  socket.setEncoding('latin1');
  const ended = new Promise<void>((resolve) => {
    socket.on('data', (chunk: string) => (answer += chunk));
    socket.on('close', () => resolve());
    socket.on('error', () => resolve());
    setTimeout(resolve, ms).unref();
  });
  socket.resume();
  for (const part of parts) socket.write(part);
  await ended;
  socket.destroy();
  return answer;
}

let count = 0;
/** A small valid event with a fresh id; `over` replaces fields of the envelope. */
export function sampleEvent(over: Record<string, unknown> = {}): Record<string, unknown> & { id: string } {
  count++;
  const id = `0198c0de-0000-7000-8000-${count.toString(16).padStart(12, '0')}`;
  return {
    v: 1,
    id,
    type: 'metric.recorded',
    run: 'run-1',
    time: 1_760_000_000_000_000 + count,
    data: { scope: 'run', name: 'loss', value: count },
    ...over,
  };
}
