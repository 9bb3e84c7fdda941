/**
 * What the gateway adds to a streamed answer: how late its pieces come, directly from the fake engine, through a plain reverse proxy, and through the gateway with its
 * record. The three take turns in rounds of one run; figures are medians over the rounds, `added` is gateway (or proxy) less direct within a round. Engine, proxy, gateway
 * and load generator are processes of their own on the same machine. At the end, `--open` streams are held open at once, for the memory of each.
 * Run: npm run bench -- gateway [--streams 256] [--rounds 5] [--calls 2] [--tokens 100] [--token-ms 50] [--open 2000] [--only gateway] [--json]
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import type { GatewaySaid, StreamPlan, StreamReport, Usage } from './gateway-protocol.ts';

const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '5' },
    calls: { type: 'string', default: '2' },
    tokens: { type: 'string', default: '100' },
    'token-ms': { type: 'string', default: '50' },
    'first-token-ms': { type: 'string', default: '100' },
    open: { type: 'string', default: '2000' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [streams, rounds, calls, tokens, tokenMs, firstTokenMs, open] = [values.streams, values.rounds, values.calls, values.tokens, values['token-ms'], values['first-token-ms'], values.open].map(Number) as [number, number, number, number, number, number, number]; // prettier-ignore
const PATH = '/v1/chat/completions';

/** `child` is null for the engine itself. */
type Target = {
  readonly name: string;
  readonly child: ChildProcess | null;
  readonly url: string;
  readonly headers: Record<string, string>;
};

async function startEngine(pace: {
  readonly firstTokenMs: number;
  readonly tokenMs: number;
}): Promise<{ child: ChildProcess; url: string }> {
  const args = ['--port', '0', '--first-token-ms', String(pace.firstTokenMs), '--token-ms', String(pace.tokenMs)];
  const child = fork(new URL('../e2e/fake-engine/main.ts', import.meta.url), args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return { child, url: /http:\/\/\S+/.exec(line.toString())?.[0] as string };
}

async function startServer(name: 'proxy' | 'gateway', engine: string): Promise<Target> {
  const profile = process.env['BENCH_PROF']?.split(' ') ?? [];
  const child = fork(new URL('gateway-server.ts', import.meta.url), [name, engine], { execArgv: [...profile, '--disable-warning=ExperimentalWarning'] }); // prettier-ignore
  const [listening] = (await once(child, 'message')) as [Extract<GatewaySaid, { kind: 'listening' }>];
  return { name, child, url: `http://127.0.0.1:${listening.port}`, headers: { authorization: `Bearer ${listening.key}` } };
}

async function startTargets(engine: string): Promise<Target[]> {
  const all: Target[] = [{ name: 'direct', child: null, url: engine, headers: {} }];
  for (const name of ['proxy', 'gateway'] as const) {
    if (values.only === undefined || values.only === name) all.push(await startServer(name, engine));
  }
  return values.only === undefined ? all : all.filter(({ name }) => name === values.only);
}

async function load(target: Target, more: Partial<StreamPlan> = {}): Promise<StreamReport> {
  const plan: StreamPlan = { url: target.url + PATH, headers: target.headers, streams, calls, tokens, firstTokenMs, tokenMs, ...more };
  const child = fork(new URL('gateway-load.ts', import.meta.url), { execArgv: ['--disable-warning=ExperimentalWarning'] });
  child.send(plan);
  const [report] = (await once(child, 'message')) as [StreamReport];
  return report;
}

async function usageOf({ child }: Target): Promise<Usage | null> {
  if (child === null) return null;
  child.send('usage');
  const [said] = (await once(child, 'message')) as [Extract<GatewaySaid, { kind: 'usage' }>];
  return said;
}

async function stop(targets: readonly Target[], engine: ChildProcess): Promise<void> {
  for (const { child } of targets) {
    if (child === null) continue;
    child.send('end');
    await once(child, 'exit');
  }
  engine.kill();
}

type Row = Record<string, number>;

async function measure(target: Target): Promise<Row> {
  const before = await usageOf(target);
  const { late, first, end, pieces, seconds, failures } = await load(target);
  const after = await usageOf(target);
  const cpu = before === null || after === null ? Number.NaN : after.cpuMicros - before.cpuMicros;
  return {
    p50: late.p50, p99: late.p99, firstP50: first.p50, firstP99: first.p99, endP50: end.p50, endP99: end.p99,
    'pieces/s': pieces / seconds, failures, 'cpu us/piece': cpu / pieces, 'cpu us/call': cpu / (streams * calls),
  }; // prettier-ignore
}

function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

function medians(rows: readonly Row[]): Row {
  return Object.fromEntries(Object.keys(rows[0] ?? {}).map((key) => [key, median(rows.map((row) => row[key] as number))]));
}

function print(name: string, row: Row): void {
  if (values.json) return;
  const known = Object.entries(row).filter(([, value]) => !Number.isNaN(value));
  const text = known.map(([key, value]) => `${key} ${Math.abs(value) >= 100 ? Math.round(value) : value.toFixed(2)}`);
  process.stdout.write(`${name.padEnd(22)} ${text.join('  ')}\n`);
}

async function compare(): Promise<Record<string, Row>> {
  const engine = await startEngine({ firstTokenMs, tokenMs });
  const targets = await startTargets(engine.url);
  for (const target of targets) await load(target, { streams: 32, calls: 1, tokens: 50 });
  const rows = new Map<string, Row[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    // each is first, second and third in turn
    const order = targets.map((_, i) => targets[(i + round) % targets.length] as Target);
    for (const target of order) {
      const row = await measure(target);
      rows.get(target.name)?.push(row);
      print(`round ${round + 1} ${target.name}`, row);
    }
  }
  await stop(targets, engine.child);
  const results = Object.fromEntries([...rows].map(([name, each]) => [name, medians(each)]));
  const direct = rows.get('direct');
  for (const [name, each] of rows) {
    if (direct === undefined || name === 'direct') continue;
    const added = each.map((row, i) => Object.fromEntries(['p50', 'p99', 'firstP50', 'firstP99', 'endP50', 'endP99'].map((key) => [key, (row[key] as number) - (direct[i]?.[key] as number)]))); // prettier-ignore
    results[`${name} added`] = medians(added);
  }
  return results;
}

/** Memory with that many streams open, their tokens a second apart, against the same process before. */
async function hold(name: 'proxy' | 'gateway'): Promise<Row> {
  const engine = await startEngine({ firstTokenMs: 1_000, tokenMs: 1_000 });
  const target = await startServer(name, engine.url);
  const plan = { calls: 1, firstTokenMs: 1_000, tokenMs: 1_000, inStep: true };
  await load(target, { ...plan, streams: 200, tokens: 3 });
  const before = (await usageOf(target)) as Usage;
  let isOver = false;
  const loading = load(target, { ...plan, streams: open, tokens: 20 }).finally(() => (isOver = true));
  let most = before.rssMb;
  for (; !isOver; await new Promise((resolve) => setTimeout(resolve, 200))) most = Math.max(most, ((await usageOf(target)) as Usage).rssMb);
  const { failures } = await loading;
  await stop([target], engine.child);
  return { 'rss MB': most, 'before MB': before.rssMb, 'KB/stream': ((most - before.rssMb) * 1000) / open, failures };
}

const results = rounds > 0 ? await compare() : {};
for (const name of ['proxy', 'gateway'] as const) {
  if (open > 0 && (values.only === undefined || values.only === name)) results[`${name}, ${open} open`] = await hold(name);
}
for (const [name, row] of Object.entries(results)) print(name, row);
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
