/**
 * How soon followers hear of an acknowledged event: `tapedeck serve` as a user starts it, connections to `GET /v1/live` and a producer beside it. Prints milliseconds from the
 * acknowledgement to the arrival (the bar: p99 below 300), CPU of each process, memory. `--topics run`: all follow one run; `trace`: each another trace; `both`: each the run
 * and a trace of it. Run: npm run bench -- live [--followers 500] [--rate 200] [--seconds 20] [--topics run]
 */
import { once } from 'node:events';
import { Agent, request, type IncomingMessage } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { systemClock } from '../base/clock.ts';
import { systemRandom } from '../base/random.ts';
import { uuidV7 } from '../base/uuid.ts';
import { PackedArray } from '../events/packed-array.ts';
import { cborBody } from '../e2e/ledger-client.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { LiveFollower } from './live-follower.ts';
import { NODE_PAYLOAD, payloadEvents } from './payload.ts';
import { PROCESSES, processesOf, usageOf } from './process-usage.ts';

const { values } = parseArgs({
  options: {
    followers: { type: 'string', default: '500' },
    rate: { type: 'string', default: '200' },
    seconds: { type: 'string', default: '20' },
    topics: { type: 'string', default: 'run' },
  },
});
const [followerCount, rate, seconds] = [Number(values.followers), Number(values.rate), Number(values.seconds)];
const RUN = 'live';
const POSTS_A_SECOND = 20;
const TRACES = values.topics === 'run' ? 20 : followerCount;
const ARRIVED_MS = 30_000;

/** Milliseconds in whole ones, as counts: half a million a second would be too many to keep. */
const arrivals = new Uint32Array(60_000);
const acked: Map<string, number[]> = new Map();

function arrived(trace: string, from: number, to: number): void {
  const now = performance.now();
  const times = acked.get(trace) ?? [];
  for (let index = from; index <= to; index++) {
    const took = Math.max(0, Math.floor(now - (times[index] ?? now))); // heard of before the acknowledgement: 0
    arrivals[Math.min(took, arrivals.length - 1)]!++;
  }
}

function quantile(q: number): number {
  const total = arrivals.reduce((sum, n) => sum + n, 0);
  let seen = 0;
  return arrivals.findIndex((n) => (seen += n) >= Math.ceil(total * q));
}

const samples = payloadEvents(NODE_PAYLOAD).map(({ data }) => {
  const { ids, mask, logprobs } = data.tokens;
  return { ...data, tokens: { ids: PackedArray.of(ids), mask: PackedArray.of(mask), logprobs: PackedArray.of(logprobs) } };
});
let next = 0;

/** One request with the next nodes, each of another trace. */
async function post(url: string, agent: Agent, count: number): Promise<number> {
  const places = Array.from({ length: count }, () => ({ trace: `t-${next % TRACES}`, index: Math.floor(next++ / TRACES) }));
  const body = cborBody(
    places.map(({ trace, index }, at) => {
      const data = { ...samples[(index + at) % samples.length], index, parent: index === 0 ? null : index - 1 };
      return { v: 1, id: uuidV7(systemClock, systemRandom), type: 'node.appended', run: RUN, rollout: `o-${trace}`, trace, time: systemClock.nowMicros(), data };
    }),
  );
  const began = performance.now();
  const sent = request(`${url}/v1/events`, { agent, method: 'POST', headers: { 'content-type': 'application/cbor', 'content-length': body.length } });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`events: ${response.statusCode}`);
  const now = performance.now();
  for (const { trace, index } of places) {
    const times = acked.get(trace) ?? [];
    times[index] = now;
    acked.set(trace, times);
  }
  response.resume();
  await once(response, 'end');
  return now - began;
} // prettier-ignore

async function produce(url: string): Promise<{ sent: number; acks: number[] }> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const posts: Promise<number>[] = [];
  const start = performance.now();
  for (let n = 0; n < seconds * POSTS_A_SECOND; n++) {
    await sleep(Math.max(0, start + (n * 1000) / POSTS_A_SECOND - performance.now()));
    posts.push(post(url, agent, Math.round(rate / POSTS_A_SECOND)));
  }
  const acks = (await Promise.all(posts)).toSorted((a, b) => a - b);
  agent.destroy();
  return { sent: next, acks };
}

function topicsOf(n: number): string[] {
  const own = `trace:t-${n % TRACES}`;
  if (values.topics === 'run') return [`run:${RUN}`];
  return values.topics === 'trace' ? [own] : [`run:${RUN}`, own];
}

const folder = temporaryFolder('live');
const server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_LOG_LEVEL: 'warn' });
try {
  await server.ready(180_000);
  const pids = processesOf(server);
  const empty = usageOf(pids.server);
  const followers: LiveFollower[] = [];
  for (let n = 0; n < followerCount; n++) followers.push(await LiveFollower.open(server.url, topicsOf(n), arrived));
  await sleep(1_000);
  const before = Object.fromEntries(PROCESSES.map((name) => [name, usageOf(pids[name])]));
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const own = process.cpuUsage();
  const began = performance.now();
  const { sent, acks } = await produce(server.url);
  const took = (performance.now() - began) / 1000;
  const after = Object.fromEntries(PROCESSES.map((name) => [name, usageOf(pids[name])]));
  delay.disable();
  const ownUsed = process.cpuUsage(own);
  const perFollower = values.topics === 'run' ? sent : sent / followerCount + (values.topics === 'both' ? sent : 0);
  const until = performance.now() + ARRIVED_MS;
  while (followers.some((each) => each.nodes < perFollower) && performance.now() < until) await sleep(50);
  const total = (of: (each: LiveFollower) => number): number => followers.reduce((sum, each) => sum + of(each), 0);
  const share = (micros: number): string => `${((micros / took / 1e6) * 100).toFixed(0)} %`;
  console.log(`${followerCount} followers (${values.topics}), ${(sent / took).toFixed(0)} events/s for ${took.toFixed(0)} s`);
  console.log(`acknowledged to arrived, ms    p50 ${quantile(0.5)}, p90 ${quantile(0.9)}, p99 ${quantile(0.99)}, max ${quantile(1)} (bar: p99 below 300)`);
  console.log(`acknowledgement, ms            p50 ${acks[acks.length >> 1]?.toFixed(1)}, p99 ${acks[Math.floor(acks.length * 0.99)]?.toFixed(1)}`);
  console.log(`nodes heard of                 ${total((each) => each.nodes)} of ${perFollower * followerCount}, ${total((each) => each.skipped)} stretches skipped`);
  console.log(`messages a follower            ${(total((each) => each.messages) / followerCount / took).toFixed(2)}/s of ${(total((each) => each.bytes) / Math.max(1, total((each) => each.messages))).toFixed(0)} bytes`);
  console.log(`CPU of one core                ${PROCESSES.map((name) => `${name} ${share((after[name]?.cpu ?? 0) - (before[name]?.cpu ?? 0))}`).join(', ')}, this client ${share(ownUsed.user + ownUsed.system)}`);
  console.log(`server, anonymous MiB          ${empty.anonymous.toFixed(0)} empty, ${before['server']?.anonymous.toFixed(0)} with followers, ${after['server']?.anonymous.toFixed(0)} at the end`);
  console.log(`event loop delay of the client p99 ${(delay.percentile(99) / 1e6 - 10).toFixed(0)} ms`);
  for (const each of followers) each.close();
} finally {
  await server.kill('tree');
  folder.remove();
} // prettier-ignore
