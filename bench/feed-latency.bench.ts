/**
 * From the last event of a group to a batch that can be read: groups arrive at a fixed rate, one group a batch, and a reader holds the next batch's request open.
 *
 *   npm run bench -- feed-latency [--rate 100] [--seconds 20]
 */
import { parseArgs } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';

const { values } = parseArgs({ options: { rate: { type: 'string', default: '100' }, seconds: { type: 'string', default: '20' }, perBatch: { type: 'string', default: '20' } } }); // prettier-ignore
const RATE = Number(values.rate);
const GROUPS = RATE * Number(values.seconds);
const PER_BATCH = Number(values.perBatch);
const SIZE = 8;

const percentile = (list: readonly number[], share: number): number => list.toSorted((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] as number; // prettier-ignore

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
  const json = async <T>(path: string, body: object): Promise<{ status: number; body: T }> => {
    const answer = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: answer.status, body: (await answer.json()) as T };
  };
  const spec = {
    maxRowTokens: 4096,
    batch: { by: 'groups', size: PER_BATCH },
    dropZeroAdvantage: false,
    staleness: { maxOffPolicySteps: null },
    cutAhead: 4,
  };
  await json('/v1/feeds', { feed: 'f', spec });
  /** When the last event of each group was acknowledged, by the clock of this process. */
  const ready = new Map<string, number>();
  const bodies = Array.from({ length: GROUPS }, (_, g) => {
    const run = `run-${g}`;
    const events = world({ seed: g + 1, groups: 1, size: SIZE, partitions: 1, turns: 2, tokensPerTurn: 200, run }).flat();
    return { run, body: Buffer.concat(events.map((event) => encodeEvent(event))) };
  });
  let sent = 0;
  const producing = (async () => {
    const started = performance.now();
    const under = new Set<Promise<void>>();
    for (const { run, body } of bodies) {
      await sleep(Math.max(0, started + (sent++ * 1000) / RATE - performance.now()));
      const post = fetch(`${url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body }).then(
        async (answer) => {
          await answer.arrayBuffer();
          if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
          ready.set(run, performance.now());
          under.delete(post);
        },
      );
      under.add(post);
    }
    await Promise.all(under);
  })();
  const latencies: number[] = [];
  for (let n = 1; n <= Math.floor(GROUPS / PER_BATCH); n++) {
    const slice = await until(`${url}/v1/feeds/f/batches/${n}?rank=0&world=1&maxTokens=8192&wait=30`);
    const at = performance.now();
    const { runs } = await manifestRuns(url, n);
    // the group that completed the batch is the one that was waited for
    const last = Math.max(...runs.map((run) => ready.get(run) ?? Number.POSITIVE_INFINITY));
    if (Number.isFinite(last)) latencies.push(Math.max(0, at - last));
    const lease = await json<{ batchId: string; token: number }>('/v1/feeds/f/leases', {
      holder: 't',
      step: n,
      world: 1,
      maxTokens: 8192,
      wait: 30,
    });
    await json('/v1/feeds/f/commits', { n, batchId: lease.body.batchId, token: lease.body.token, step: n });
    if (slice === 0) throw new Error('an empty slice');
  }
  await producing;
  console.log(
    `${GROUPS} groups of ${SIZE} at ${RATE}/s, ${PER_BATCH} groups a batch: acknowledged to readable over ${latencies.length} batches`,
  );
  console.log(`  p50 ${percentile(latencies, 0.5).toFixed(0)} ms, p90 ${percentile(latencies, 0.9).toFixed(0)} ms, p99 ${percentile(latencies, 0.99).toFixed(0)} ms, worst ${Math.max(...latencies).toFixed(0)} ms`); // prettier-ignore
}

async function until(url: string): Promise<number> {
  for (;;) {
    const answer = await fetch(url);
    const bytes = await answer.arrayBuffer();
    if (answer.status === 200) return bytes.byteLength;
    if (answer.status !== 202) throw new Error(Buffer.from(bytes).toString());
  }
}

async function manifestRuns(url: string, n: number): Promise<{ runs: string[] }> {
  const answer = await fetch(`${url}/v1/feeds/f/batches/${n}/manifest?wait=30`);
  const { rows } = (await answer.json()) as { rows: { run: string | null }[] };
  return { runs: [...new Set(rows.flatMap(({ run }) => run ?? []))] };
}
