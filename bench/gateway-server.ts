/** Child process of bench/gateway.bench.ts: the gateway over a real embedded log, or (argument `proxy`) a plain reverse proxy with the same HTTP libraries. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { Agent } from 'undici';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { createTombstones } from '../ingest/accept-tombstones.ts';
import { createGateway } from '../ingest/gateway/gateway.ts';
import { readUpstreams } from '../ingest/gateway/upstreams/settings.ts';
import { openServer } from '../ingest/http/server.ts';
import { openDirectoryBlobs } from '../store/blobs/directory-blobs.ts';
import { openEmbeddedLog } from '../store/log/embedded-log.ts';
import type { GatewaySaid } from './gateway-protocol.ts';

const [kind, engine] = process.argv.slice(2) as ['gateway' | 'proxy', string];

function say(message: GatewaySaid): void {
  process.send?.(message);
}

/** Bytes in, bytes out, with back-pressure: what any proxy written in Node has to do. */
async function serveProxy(): Promise<() => Promise<void>> {
  const agent = new Agent({ connections: null, pipelining: 1 });
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const headers = { 'content-type': 'application/json' };
      agent.dispatch(
        { origin: engine, path: request.url ?? '/', method: 'POST', headers, body: Buffer.concat(chunks) },
        {
          onRequestStart() {},
          onResponseStart(_c, status, answered) {
            response.writeHead(status, { 'content-type': String(answered['content-type']) });
          },
          onResponseData(controller, chunk) {
            if (response.write(chunk)) return;
            controller.pause();
            response.once('drain', () => controller.resume());
          },
          onResponseEnd() {
            response.end();
          },
          onResponseError() {
            response.destroy();
          },
        },
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 4096, resolve));
  say({ kind: 'listening', port: (server.address() as { port: number }).port, key: '' });
  return async () => void server.close();
}

async function serveGateway(): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-bench-'));
  const log = await openEmbeddedLog({
    directory,
    topic: 'events',
    partitions: 4,
    mode: 'write',
    maxRecordBytes: 1_048_576,
    compression: 'fast',
    clock: systemClock,
  });
  const blobs = await openDirectoryBlobs({ directory: join(directory, 'blobs'), clock: systemClock, random: systemRandom });
  const upstreams = readUpstreams({ main: { kind: 'vllm', url: engine } }, () => undefined);
  if (!upstreams.ok) throw new Error(upstreams.error.message);
  const gateway = await createGateway({
    log, blobs, clock: systemClock, random: systemRandom, tombstones: createTombstones(), registry: new Registry(), secret: Buffer.alloc(32, 1), upstreams: upstreams.value,
    onFault: (error) => console.error(error),
  }); // prettier-ignore
  const app = await openServer({ clock: systemClock, random: systemRandom });
  await app.register(gateway.plugin);
  await app.listen({ host: '127.0.0.1', port: 0, backlog: 4096 });
  const { port } = app.server.address() as { port: number };
  const made = await fetch(`http://127.0.0.1:${port}/v1/runs/bench/keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  });
  say({ kind: 'listening', port, key: ((await made.json()) as { key: string }).key });
  return async () => {
    await app.close();
    await gateway.close();
    await log.close();
    await rm(directory, { recursive: true, force: true });
  };
}

const close = kind === 'proxy' ? await serveProxy() : await serveGateway();
process.on('message', (asked: 'usage' | 'end') => {
  if (asked === 'end') return void close().finally(() => process.exit(0));
  const { user, system } = process.cpuUsage();
  say({ kind: 'usage', cpuMicros: user + system, rssMb: process.memoryUsage.rss() / 1e6 });
});
