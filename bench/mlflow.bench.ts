/**
 * MLflow beside ours: one call with 2 KB of text, 512 token ids and log-probabilities at a time, 100 a request, until all of it can be asked for. Each round runs MLflow (OTLP/HTTP,
 * SQLite: bench/peers/mlflow_otlp.py) and then `tapedeck serve` (bench/pipeline.bench.ts, JSON and CBOR) on the same machine; medians of the rounds at the end. Needs a Python that
 * has, or can install, MLflow; says so and ends where there is none.
 * Run: node bench/mlflow.bench.ts [--spans 3000] [--seconds 15] [--rounds 3]
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { findPython } from '../e2e/python.ts';

const { values } = parseArgs({
  options: {
    spans: { type: 'string', default: '3000' },
    seconds: { type: 'string', default: '15' },
    rounds: { type: 'string', default: '3' },
  },
});
const PYTHON = {
  packages: ['mlflow==3.17.2', 'opentelemetry-sdk==1.45.2', 'opentelemetry-exporter-otlp-proto-http==1.45.2'],
  imports: ['mlflow', 'opentelemetry.proto.collector.trace.v1.trace_service_pb2'],
} as const;
const run = promisify(execFile);
const ROUND_TIMEOUT_MS = 900_000;

type Figures = Readonly<Record<'accepted/s' | 'queryable/s' | 'CPU us/event' | 'bytes/event', number>>;

async function mlflow(python: string): Promise<Figures> {
  const { stdout } = await run(python, [join(import.meta.dirname, 'peers/mlflow_otlp.py'), '--spans', values.spans], {
    timeout: ROUND_TIMEOUT_MS,
  });
  const said = JSON.parse(stdout) as Record<string, number> & { failures: number[] };
  if (said.failures.length > 0) throw new Error(`MLflow refused requests: ${said.failures.join(' ')}`);
  const figure = (name: string): number => said[name] as number;
  return {
    'accepted/s': figure('accepted/s'),
    'queryable/s': figure('queryable/s'),
    'CPU us/event': figure('CPU us/span'),
    'bytes/event': figure('bytes/span'),
  };
}

async function ours(encoding: 'cbor' | 'json-numbers'): Promise<Figures> {
  const bench = join(import.meta.dirname, 'pipeline.bench.ts');
  const options = ['--rate', 'max', '--seconds', values.seconds, '--encoding', encoding, '--json'];
  const { stdout } = await run(process.execPath, ['--disable-warning=ExperimentalWarning', bench, ...options], {
    timeout: ROUND_TIMEOUT_MS,
  });
  const said = JSON.parse(stdout) as Record<string, number>;
  const figure = (name: string): number => said[name] as number;
  return {
    'accepted/s': figure('accepted events/s'),
    'queryable/s': figure('queryable events/s'),
    'CPU us/event': figure('CPU us/event'),
    'bytes/event': figure('table bytes/event') + figure('log bytes/event'),
  };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1] as number;
}

function say(name: string, figures: Figures): void {
  const text = Object.entries(figures).map(([key, value]) => `${key} ${Math.round(value)}`.padEnd(22));
  process.stdout.write(`${name.padEnd(22)} ${text.join(' ')}\n`);
}

const found = await findPython(PYTHON);
if ('missing' in found) process.stdout.write(`not run: ${found.missing}\n`);
else {
  const peers = {
    MLflow: () => mlflow(found.python),
    'ours, JSON numbers': () => ours('json-numbers'),
    'ours, CBOR': () => ours('cbor'),
  } as const;
  const rounds: Record<string, Figures[]> = {};
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [name, measure] of Object.entries(peers)) {
      const figures = await measure();
      (rounds[name] ??= []).push(figures);
      say(`${round + 1} ${name}`, figures);
    }
  }
  for (const [name, all] of Object.entries(rounds)) {
    const middle = (key: keyof Figures): number => median(all.map((figures) => figures[key]));
    say(`median ${name}`, { 'accepted/s': middle('accepted/s'), 'queryable/s': middle('queryable/s'), 'CPU us/event': middle('CPU us/event'), 'bytes/event': middle('bytes/event') }); // prettier-ignore
  }
}
