/**
 * From the last event of a batch acknowledged to the batch read: groups arrive at a fixed rate, and a reader always holds the request for the next batch open.
 * Beside it a trainer leases and commits each batch. Times are of this process's clock, from the answer to the producer to the last byte of the slice; batches while the
 * server is new (its code not compiled yet) are told apart.
 *
 *   npm run bench -- feed-latency [--rate 100] [--seconds 60] [--perBatch 20] [--warmUp 10]
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';
import { usageOf } from './process-usage.ts';

const { values } = parseArgs({ options: { rate: { type: 'string', default: '100' }, seconds: { type: 'string', default: '60' }, perBatch: { type: 'string', default: '20' }, warmUp: { type: 'string', default: '10' } } }); // prettier-ignore
const RATE = Number(values.rate);
const PER_BATCH = Number(values.perBatch);
/** Whole batches. */
const BATCHES = Math.floor((RATE * Number(values.seconds)) / PER_BATCH);
const GROUPS = BATCHES * PER_BATCH;
const WARM_UP_MS = Number(values.warmUp) * 1000;
const SIZE = 8;
const CUT_AHEAD = 4;
const PLAN = { world: 1, maxTokens: 8192 };

const percentile = (list: readonly number[], share: number): number => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] as number; // prettier-ignore

type Sample = { readonly at: number; readonly ms: number };

const folder = temporaryFolder('bench-latency');
const server = await startServer(
  { TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' },
  { listenMs: 120_000 },
);
try {
  await run(server.url);
} finally {
  await server.stop();
  folder.remove();
}

async function run(url: string): Promise<void> {
  const spec = {
    maxRowTokens: 4096,
    batch: { by: 'groups', size: PER_BATCH },
    dropZeroAdvantage: false,
    staleness: { maxOffPolicySteps: null },
    cutAhead: CUT_AHEAD,
  };
  await json(`${url}/v1/feeds`, { feed: 'f', spec });
  const bodies = Array.from({ length: GROUPS }, (_, g) => bodyOf(g));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const cpuBefore = usageOf(server.pid).cpu;
  const started = performance.now();
  const committed = Array.from({ length: BATCHES + 1 }, () => Promise.withResolvers<void>());
  const cut = Array.from({ length: BATCHES + 1 }, () => Promise.withResolvers<void>());
  const [acknowledged, read] = await Promise.all([
    produce(url, bodies),
    readAll(url, cut, committed),
    train(url, cut, committed), // prettier-ignore
  ]);
  const seconds = (performance.now() - started) / 1000;
  const cpu = (usageOf(server.pid).cpu - cpuBefore) / 1e6 / seconds;
  const samples: Sample[] = [];
  for (const [i, at] of read.entries()) {
    const last = Math.max(...(await runsOf(url, i + 1)).map((name) => acknowledged.get(name) as number));
    samples.push({ at: at - started, ms: Math.max(0, at - last) });
  }
  const warm = samples.filter(({ at }) => at >= WARM_UP_MS);
  console.log(`${GROUPS} groups of ${SIZE} rollouts at ${RATE}/s, ${PER_BATCH} groups a batch: acknowledged to read`);
  say(`all ${samples.length} batches`, samples);
  say(`${warm.length} batches after ${values.warmUp} s`, warm);
  console.log(`  server ${(cpu * 100).toFixed(0)} % of a core; event loop of this process late by p99 ${(delay.percentile(99) / 1e6).toFixed(0)} ms, at most ${(delay.max / 1e6).toFixed(0)} ms`); // prettier-ignore
}

function say(what: string, samples: readonly Sample[]): void {
  const ms = samples.map((sample) => sample.ms);
  const worst = samples.toSorted((a, b) => b.ms - a.ms).slice(0, 3).map((sample) => `${sample.ms.toFixed(0)} (at ${(sample.at / 1000).toFixed(1)} s)`); // prettier-ignore
  console.log(`  ${what}: p50 ${percentile(ms, 0.5).toFixed(0)} ms, p90 ${percentile(ms, 0.9).toFixed(0)} ms, p99 ${percentile(ms, 0.99).toFixed(0)} ms, worst ${worst.join(', ')}`); // prettier-ignore
}

/** The events of one group, a run of its own, in the order in which they were sent. */
function bodyOf(g: number): { run: string; body: Buffer } {
  const name = `run-${g}`;
  const events = world({ seed: g + 1, groups: 1, size: SIZE, partitions: 1, turns: 2, tokensPerTurn: 200, run: name }).flat();
  return { run: name, body: Buffer.concat(events.map((event) => encodeEvent(event))) };
}

/** Posts every group at its time, whatever became of those before. Returns when each was acknowledged. */
async function produce(url: string, bodies: readonly { run: string; body: Buffer }[]): Promise<ReadonlyMap<string, number>> {
  const acknowledged = new Map<string, number>();
  const started = performance.now();
  const posts: Promise<void>[] = [];
  for (const [i, { run: name, body }] of bodies.entries()) {
    const wait = started + (i * 1000) / RATE - performance.now();
    if (wait > 0) await sleep(wait);
    posts.push(
      fetch(`${url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body }).then(async (answer) => {
        await answer.arrayBuffer();
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        acknowledged.set(name, performance.now());
      }),
    );
  }
  await Promise.all(posts);
  return acknowledged;
}

type Steps = readonly PromiseWithResolvers<void>[];

/** Reads batch after batch, as far ahead of the trainer as the feed cuts. Returns when the last byte of each was there. */
async function readAll(url: string, cut: Steps, committed: Steps): Promise<number[]> {
  const read: number[] = [];
  for (let n = 1; n <= BATCHES; n++) {
    await committed[n - 1 - CUT_AHEAD]?.promise;
    const path = `${url}/v1/feeds/f/batches/${n}?rank=0&world=${PLAN.world}&maxTokens=${PLAN.maxTokens}&wait=30`;
    for (;;) {
      const answer = await fetch(path);
      const bytes = await answer.arrayBuffer();
      if (answer.status !== 200 && answer.status !== 202) throw new Error(Buffer.from(bytes).toString());
      if (answer.status === 200) break;
    }
    read.push(performance.now());
    cut[n]?.resolve();
  }
  return read;
}

/** Leases and commits each batch as soon as it was read. */
async function train(url: string, cut: Steps, committed: Steps): Promise<void> {
  committed[0]?.resolve();
  for (let n = 1; n <= BATCHES; n++) {
    await cut[n]?.promise;
    const lease = await json<{ batchId: string; token: number }>(`${url}/v1/feeds/f/leases`, { holder: 't', step: n, ...PLAN, wait: 30 });
    await json(`${url}/v1/feeds/f/commits`, { n, batchId: lease.batchId, token: lease.token, step: n });
    committed[n]?.resolve();
  }
}

async function json<T>(url: string, body: object): Promise<T> {
  const answer = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text}`);
  return JSON.parse(text) as T;
}

async function runsOf(url: string, n: number): Promise<string[]> {
  const answer = await fetch(`${url}/v1/feeds/f/batches/${n}/manifest?wait=30`);
  const { rows } = (await answer.json()) as { rows: { run: string | null }[] };
  return [...new Set(rows.flatMap(({ run: name }) => name ?? []))];
}
