/**
 * Other transports beside ours, with the same sequences in the same run, in turns, each ending in torch tensors: prime-rl (filesystem, ZMQ), Atropos' run-api, dm-reverb. A peer is left out, with the
 * reason, where its source (prime-rl: ../shared/peers/src, or the folder that TAPEDECK_PRIME_RL names) or its packages are not at hand.
 *
 *   npm run bench -- feed-peers [--rounds 7] [--tokens 500000]
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { exportPrimeRl } from '../cli/commands/feed/export-prime-rl.ts';
import { systemClock } from '../base/clock.ts';
import { startServer, temporaryFolder } from '../e2e/server.ts';
import { findTorchPython } from '../e2e/torch-python.ts';
import { encodeEvent } from '../events/codec/cbor-encode.ts';
import { world } from '../trainer-feed/feed/feed-world.ts';
import { startPeer, type PeerProcess, type Round } from './peer-process.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '7' }, tokens: { type: 'string', default: '500000' } } });
const PRIME = process.env['TAPEDECK_PRIME_RL'] ?? join(import.meta.dirname, '../../shared/peers/src/prime-rl');
const CLIENT = join(import.meta.dirname, '../trainer-feed/python/src');
const PEERS = [
  {
    script: 'prime_rl_transports.py',
    packages: ['msgspec==0.19.0', 'pyzmq==27.3.0', 'jaxtyping==0.2.36', 'loguru==0.7.3', 'prime-pydantic-config==0.4.3'],
    args: (out: string) => [PRIME, out],
    missing: existsSync(PRIME) ? null : 'the source of prime-rl (../shared/peers/src) is not here',
  },
  {
    script: 'atropos_api.py',
    packages: ['fastapi==0.165.0', 'uvicorn==0.54.0'],
    unpack: ['atroposlib==0.4.0'],
    args: () => [],
    missing: null,
  },
  { script: 'reverb_table.py', packages: ['dm-reverb[tensorflow]==0.14.0', 'setuptools<81'], args: () => [], missing: null },
] as const;
const SIZE = 8;
const PER_ROLLOUT = 2048;
const MAX_TOKENS = 8192;
const GROUPS = Math.max(1, Math.round(Number(values.tokens) / SIZE / PER_ROLLOUT));

const folder = temporaryFolder('bench-peers');
const server = await startServer(
  { TAPEDECK_DATA: join(folder.path, 'data'), TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' },
  { listenMs: 120_000 },
);
try {
  const out = await fill(server.url);
  const peers = await startPeers(out, JSON.stringify({ url: server.url, feed: 'f', n: 1, max_tokens: MAX_TOKENS }));
  try {
    tell(await turns(peers));
  } finally {
    await Promise.all(peers.map((peer) => peer.stop()));
  }
} finally {
  await server.stop();
  folder.remove();
}

/** One batch, as a feed and as the files of prime-rl's transport; returns the folder of these. */
async function fill(url: string): Promise<string> {
  const post = async (path: string, type: string, body: string | Buffer): Promise<void> => {
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers: { 'content-type': type }, body: body as string });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  };
  for (let g = 0; g < GROUPS; g++) {
    const events = world({ seed: g + 1, groups: 1, size: SIZE, partitions: 1, turns: 2, tokensPerTurn: PER_ROLLOUT / 2, run: `run-${g}` }).flat();
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
  const asked = { url, project: 'default', feed: 'f', out, from: 1, to: 1, ranks: 1, maxTokens: MAX_TOKENS, padToMultiple: null, waitSeconds: 120 };
  await exportPrimeRl(asked, systemClock);
  return out;
} // prettier-ignore

async function startPeers(out: string, asked: string): Promise<PeerProcess[]> {
  const started: PeerProcess[] = [];
  for (const { script, packages, args, missing, ...more } of PEERS) {
    const python = missing === null ? await findTorchPython({ packages: ['pyarrow==21.0.0', ...packages], ...more }) : { missing };
    if ('missing' in python) {
      console.log(`left out: ${script}: ${python.missing}`);
      continue;
    }
    const path = join(import.meta.dirname, 'peers', script);
    await startPeer(python.python, [path, ...args(out), asked], [CLIENT, python.path]).then(
      (peer) => started.push(peer),
      (error: unknown) => console.log(`left out: ${script}: ${String(error)}`),
    );
  }
  return started;
}

async function turns(peers: readonly PeerProcess[]): Promise<Map<string, Round[]>> {
  const rounds = new Map<string, Round[]>();
  for (let i = 0; i < Number(values.rounds); i++) {
    for (const peer of peers) {
      for (const kind of peer.kinds) rounds.set(kind, [...(rounds.get(kind) ?? []), await peer.round(kind)]);
    }
  }
  return rounds;
}

/** Rates are medians; ratios are medians of the rounds' own ratios. */
function tell(rounds: ReadonlyMap<string, readonly Round[]>): void {
  const median = (list: readonly number[]): number => list.toSorted((a, b) => a - b)[list.length >> 1] as number;
  const rates = new Map([...rounds].map(([kind, list]) => [kind, list.map(({ tokens, seconds }) => tokens / seconds / 1e6)]));
  const ours = [...rates].filter(([kind]) => kind.startsWith('tapedeck'));
  const [first] = [...rounds.values()];
  console.log(`${((first?.[0]?.tokens ?? 0) / 1e6).toFixed(2)} M tokens to torch tensors, median of ${values.rounds} rounds in turns`);
  for (const [kind, list] of rates) {
    const ratios = ours.map(([, own]) => `${median(own.map((rate, i) => rate / (list[i] as number))).toFixed(1).padStart(8)} x`); // prettier-ignore
    console.log(`  ${kind.padEnd(36)} ${median(list).toFixed(2).padStart(8)} Mtok/s   ours: ${ratios.join('')}`);
  }
}
