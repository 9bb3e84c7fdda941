/**
 * Reading a prepared batch in Python: verified over TCP and by mapping, default and all columns, at 1, 2 and 4 ranks. Beside it, in turns, the raw transfer of the same bytes with `readinto`.
 *
 *   npm run bench -- feed-read [--rounds 7] [--tokens 2000000]
 */
import { execFile } from 'node:child_process';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { findTorchPython } from '../e2e/torch-python.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, tokens: { type: 'string', default: '2000000' } } });
const ROUNDS = Number(values.rounds);
const SIZE = 8;
const PER_ROLLOUT = 16_384;
const GROUPS = Math.max(1, Math.round(Number(values.tokens) / PER_ROLLOUT / SIZE));
const MAX_TOKENS = 131_072;

type Report = { readonly tokens: number; readonly bytes: number; readonly seconds: Readonly<Record<string, readonly number[]>> };

const median = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] as number;

const found = await findTorchPython({ packages: ['pyarrow==21.0.0'] });
if ('missing' in found) {
  console.log(`not run: ${found.missing}`);
} else {
  const folder = temporaryFolder('bench-feed');
  const server = await startServer(
    { TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' },
    { listenMs: 120_000 },
  );
  try {
    await fill(server.url);
    for (const [feed, columns, bytes] of [
      ['plain', '', 'default columns, 9 B/token'],
      ['weighted', 'position_ids', 'all columns, 17 B/token'],
    ] as const) {
      // prettier-ignore
      for (const ranks of feed === 'plain' ? [1] : [1, 2, 4]) await measure(server.url, { feed, columns, ranks, title: `${bytes}, ${ranks} rank${ranks === 1 ? '' : 's'}`, python: found }); // prettier-ignore
    }
  } finally {
    await server.stop();
    folder.remove();
  }
}

async function fill(url: string): Promise<void> {
  const post = async (path: string, type: string, body: string | Buffer): Promise<void> => {
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': type }, body: body as string });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  };
  for (let g = 0; g < GROUPS; g++) {
    const events = world({
      seed: g + 1,
      groups: 1,
      size: SIZE,
      partitions: 1,
      turns: 8,
      tokensPerTurn: PER_ROLLOUT / 8,
      run: `run-${g}`,
    }).flat();
    await post('/v1/events', 'application/cbor-seq', Buffer.concat(events.map((event) => encodeEvent(event))));
  }
  const spec = {
    maxRowTokens: 65_536,
    batch: { by: 'groups', size: GROUPS },
    dropZeroAdvantage: false,
    staleness: { maxOffPolicySteps: null },
  };
  const weighted = { ...spec, others: { score: { algorithm: 'dr_grpo', params: { horizon: 1000 } } } };
  for (const [feed, of] of [['plain', spec], ['weighted', weighted]] as const) await post('/v1/feeds', 'application/json', JSON.stringify({ feed, spec: of })); // prettier-ignore
}

type Measure = {
  readonly feed: string;
  readonly columns: string;
  readonly ranks: number;
  readonly title: string;
  readonly python: { readonly python: string; readonly path: string };
};

async function measure(url: string, { feed, columns, ranks, title, python }: Measure): Promise<void> {
  const slices: Buffer[] = [];
  for (let rank = 0; rank < ranks; rank++) slices.push(await sliceOf(`${url}/v1/feeds/${feed}/batches/1?rank=${rank}&world=${ranks}&maxTokens=${MAX_TOKENS}&columns=${columns}&wait=60`)); // prettier-ignore
  const raw = await rawServer(slices);
  const start = Date.now() / 1000 + 4;
  const reports = await Promise.all(
    slices.map(async (_, rank): Promise<Report> => {
      const asked = { url, feed, n: 1, rank, world: ranks, max_tokens: MAX_TOKENS, columns, rounds: ROUNDS, raw: raw.url, start };
      const script = join(import.meta.dirname, 'feed_reader.py');
      const { stdout } = await promisify(execFile)(python.python, [script, JSON.stringify(asked)], {
        timeout: 600_000,
        env: { ...process.env, PYTHONPATH: [join(import.meta.dirname, '../trainer-feed/python/src'), python.path].join(':') },
      });
      return JSON.parse(stdout) as Report;
    }),
  );
  raw.server.close();
  const tokens = reports.reduce((sum, report) => sum + report.tokens, 0);
  const bytes = reports.reduce((sum, report) => sum + report.bytes, 0);
  console.log(`\n${title}: ${(tokens / 1e6).toFixed(2)} M tokens, ${(bytes / 1e6).toFixed(1)} MB, median of ${ROUNDS} rounds in turns`);
  // ranks read side by side: the slowest decides each round
  const rounds = (kind: string): number[] =>
    Array.from({ length: ROUNDS }, (_, i) => Math.max(...reports.map(({ seconds }) => seconds[kind]?.[i] ?? 0)));
  const limit = rounds('raw');
  for (const kind of Object.keys(reports[0]?.seconds ?? {})) {
    const all = rounds(kind);
    const share = median(all.map((seconds, i) => (limit[i] as number) / seconds));
    console.log(`  ${kind.padEnd(27)} ${(tokens / median(all) / 1e6).toFixed(0).padStart(6)} Mtok/s ${(bytes / median(all) / 1e9).toFixed(2).padStart(6)} GB/s   ${share.toFixed(2)} x raw`);
  } // prettier-ignore
}

async function sliceOf(url: string): Promise<Buffer> {
  for (;;) {
    const answer = await fetch(url);
    const body = Buffer.from(await answer.arrayBuffer());
    if (answer.status === 200) return body;
    if (answer.status !== 202) throw new Error(body.toString());
  }
}

/** The limit: the same bytes from memory with nothing around them. */
async function rawServer(slices: readonly Buffer[]): Promise<{ server: Server; url: string }> {
  const server = createServer((request, response) => {
    const body = slices[Number((request.url ?? '/0').slice(1))] as Buffer;
    response.writeHead(200, { 'content-length': String(body.length), 'content-type': 'application/octet-stream' }).end(body);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
