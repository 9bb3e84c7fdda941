/**
 * prime-rl's transports beside ours, with the same sequences in the same run, in turns, each ending in torch tensors. Skipped where its source (../shared/peers/src) or its packages are not at hand.
 *
 *   npm run bench -- feed-peers [--rounds 7] [--tokens 500000]
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { exportPrimeRl } from '../cli/commands/feed/export-prime-rl.ts';
import { systemClock } from '../base/clock.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { findTorchPython } from '../e2e/torch-python.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, tokens: { type: 'string', default: '500000' } } });
const PRIME = join(import.meta.dirname, '../../shared/peers/src/prime-rl');
const PACKAGES = [
  'pyarrow==21.0.0',
  'msgspec==0.19.0',
  'pyzmq==27.3.0',
  'jaxtyping==0.2.36',
  'loguru==0.7.3',
  'prime-pydantic-config==0.4.3',
];
const SIZE = 8;
const PER_ROLLOUT = 2048;
const MAX_TOKENS = 8192;
const GROUPS = Math.max(1, Math.round(Number(values.tokens) / SIZE / PER_ROLLOUT));

type Report = {
  readonly tokens: Readonly<Record<string, number>>;
  readonly seconds: Readonly<Record<string, readonly number[]>>;
  readonly bytes: number;
};

const found = await findTorchPython({ packages: PACKAGES });
if ('missing' in found) console.log(`not run: ${found.missing}`);
else if (!existsSync(PRIME)) console.log('not run: the source of prime-rl (../shared/peers/src) is not here');
else await run(found);

async function run(python: { readonly python: string; readonly path: string }): Promise<void> {
  const folder = temporaryFolder('bench-peers');
  const server = await startServer(
    { TAPEDECK_DATA: join(folder.path, 'data'), TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' },
    { listenMs: 120_000 },
  );
  try {
    const post = async (path: string, type: string, body: string | Buffer): Promise<void> => {
      const answer = await fetch(`${server.url}${path}`, { method: 'POST', headers: { 'content-type': type }, body: body as string });
      if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    };
    for (let g = 0; g < GROUPS; g++) {
      const events = world({
        seed: g + 1,
        groups: 1,
        size: SIZE,
        partitions: 1,
        turns: 2,
        tokensPerTurn: PER_ROLLOUT / 2,
        run: `run-${g}`,
      }).flat();
      await post('/v1/events', 'application/cbor-seq', Buffer.concat(events.map((event) => encodeEvent(event))));
    }
    const spec = {
      maxRowTokens: MAX_TOKENS,
      batch: { by: 'groups', size: GROUPS },
      dropZeroAdvantage: false,
      staleness: { maxOffPolicySteps: null },
    };
    await post('/v1/feeds', 'application/json', JSON.stringify({ feed: 'f', spec }));
    const out = join(folder.path, 'run');
    await exportPrimeRl(
      {
        url: server.url,
        project: 'default',
        feed: 'f',
        out,
        from: 1,
        to: 1,
        ranks: 1,
        maxTokens: MAX_TOKENS,
        padToMultiple: null,
        waitSeconds: 120,
      },
      systemClock,
    );
    const asked = { url: server.url, feed: 'f', n: 1, max_tokens: MAX_TOKENS, rounds: Number(values.rounds) };
    const { stdout } = await promisify(execFile)(
      python.python,
      [join(import.meta.dirname, 'peers/prime_rl_transports.py'), PRIME, out, JSON.stringify(asked)],
      {
        timeout: 900_000,
        env: { ...process.env, PYTHONPATH: [join(import.meta.dirname, '../trainer-feed/python/src'), python.path].join(':') },
      },
    );
    tell(JSON.parse(stdout) as Report);
  } finally {
    await server.stop();
    folder.remove();
  }
}

function tell({ tokens, seconds, bytes }: Report): void {
  const median = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] as number;
  const reference = seconds['prime-rl filesystem'] ?? [];
  console.log(
    `${((tokens['prime-rl filesystem'] ?? 0) / 1e6).toFixed(2)} M tokens to torch tensors, median of ${values.rounds} rounds in turns; prime-rl's file has ${(bytes / 1e6).toFixed(1)} MB`,
  );
  for (const [kind, list] of Object.entries(seconds)) {
    const ratio = median(list.map((each, i) => (reference[i] as number) / each));
    console.log(
      `  ${kind.padEnd(36)} ${((tokens[kind] as number) / median(list) / 1e6).toFixed(2).padStart(8)} Mtok/s   ${ratio.toFixed(1)} x prime-rl filesystem`,
    );
  }
}
