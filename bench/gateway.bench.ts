/**
 * What the gateway adds to a streamed answer: how late its pieces come, directly from the fake engine, through a plain reverse proxy, and through the gateway with its
 * record, one after the other in the same run. Engine, proxy or gateway, and load generator are processes of their own on the same machine.
 * Run: node bench/gateway.bench.ts [--streams 256] [--calls 2] [--tokens 100] [--token-ms 50] [--only gateway] [--json]
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import type { GatewaySaid, StreamPlan, StreamReport } from './gateway-protocol.ts';

const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '256' },
    calls: { type: 'string', default: '2' },
    tokens: { type: 'string', default: '100' },
    'token-ms': { type: 'string', default: '50' },
    'first-token-ms': { type: 'string', default: '100' },
    only: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [streams, calls, tokens, tokenMs, firstTokenMs] = [values.streams, values.calls, values.tokens, values['token-ms'], values['first-token-ms']].map(Number) as [number, number, number, number, number]; // prettier-ignore

async function startEngine(): Promise<{ child: ChildProcess; url: string }> {
  const args = ['--port', '0', '--first-token-ms', String(firstTokenMs), '--token-ms', String(tokenMs)];
  const child = fork(new URL('../e2e/fake-engine/main.ts', import.meta.url), args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return { child, url: /http:\/\/\S+/.exec(line.toString())?.[0] as string };
}

async function load(plan: StreamPlan): Promise<StreamReport> {
  const child = fork(new URL('gateway-load.ts', import.meta.url));
  child.send(plan);
  const [report] = (await once(child, 'message')) as [StreamReport];
  return report;
}

async function usage(child: ChildProcess): Promise<Extract<GatewaySaid, { kind: 'usage' }>> {
  child.send('usage');
  const [said] = (await once(child, 'message')) as [Extract<GatewaySaid, { kind: 'usage' }>];
  return said;
}

const results: Record<string, Record<string, number>> = {};
function report(name: string, result: StreamReport, more: Record<string, number>): void {
  const { late, first, end } = result;
  results[name] = {
    p50: late.p50,
    p99: late.p99,
    firstP50: first.p50,
    firstP99: first.p99,
    endP50: end.p50,
    endP99: end.p99,
    'pieces/s': result.pieces / result.seconds,
    failures: result.failures,
    ...more,
  };
  if (values.json) return;
  const text = Object.entries(results[name]).map(
    ([key, value]) => `${key} ${Math.abs(value) >= 100 ? Math.round(value) : value.toFixed(2)}`,
  );
  process.stdout.write(`${name.padEnd(8)} ${text.join('  ')}\n`);
}

const plan = { headers: {}, streams, calls, tokens, firstTokenMs, tokenMs };
const engine = await startEngine();
const path = '/v1/chat/completions';
await load({ ...plan, url: engine.url + path, streams: 16, calls: 1 });
if (values.only === undefined) report('direct', await load({ ...plan, url: engine.url + path }), {});
for (const kind of ['proxy', 'gateway'] as const) {
  if (values.only !== undefined && values.only !== kind) continue;
  const child = fork(new URL('gateway-server.ts', import.meta.url), [kind, engine.url], { execArgv: [...(process.env['BENCH_PROF'] ? (process.env['BENCH_PROF'] as string).split(' ') : []), '--max-semi-space-size=64', '--disable-warning=ExperimentalWarning'] }); // prettier-ignore
  const [listening] = (await once(child, 'message')) as [Extract<GatewaySaid, { kind: 'listening' }>];
  const target = { ...plan, url: `http://127.0.0.1:${listening.port}${path}`, headers: { authorization: `Bearer ${listening.key}` } };
  await load({ ...target, streams: 32, calls: 1, tokens: 50 });
  const before = await usage(child);
  const result = await load(target);
  const after = await usage(child);
  report(kind, result, { 'cpu us/piece': (after.cpuMicros - before.cpuMicros) / result.pieces, 'rss MB': after.rssMb });
  child.send('end');
  await once(child, 'exit');
}
engine.child.kill();
if (values.json) process.stdout.write(`${JSON.stringify(results)}\n`);
