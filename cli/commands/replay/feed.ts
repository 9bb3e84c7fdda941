/** `tapedeck replay feed`: committed batches again, by step range: as files, to a trainer, or the same log under another algorithm as a new feed. */
import { createHash } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Command } from 'commander';
import { systemClock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import { systemRandom } from '../../../base/random.ts';
import { DEFAULT_PROJECT } from '../../../events/envelope.ts';
import { openServer } from '../../../ingest/http/server.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import { createReplayedFeed, type ReplayedBatch } from '../../../trainer-feed/replay/replayed-feed.ts';
import { registerReplayedFeed } from '../../../trainer-feed/replay/replayed-feed-routes.ts';
import type { Manifest } from '../../../trainer-feed/server/manifest.ts';
import { ChainVerifier } from '../../../trainer-feed/verify/verify-chain.ts';
import { askServer } from '../../render/ask-server.ts';
import type { Config } from '../../config.ts';
import { write } from '../../render/output.ts';
import { carried } from './carried.ts';
import { deriveFeed } from './derive-feed.ts';
import { wholeNumber } from './session-options.ts';

type Options = {
  readonly url: string;
  readonly project: string;
  readonly from?: number;
  readonly to?: number;
  readonly out?: string;
  readonly serve?: number;
  readonly as?: string;
  readonly algorithm?: string;
  readonly spec?: string;
  readonly rewards: 'cut' | 'latest';
  readonly world: number;
  readonly maxTokens?: number;
  readonly padToMultiple?: number;
};

export function feedReplayCommand(config: Pick<Config, 'url' | 'project'>): Command {
  return new Command('feed')
    .description('give the committed batches of a feed again, or cut the same log under another algorithm')
    .argument('<feed>', 'name of the feed')
    .option('--from <n>', 'first step (default: 1)', wholeNumber)
    .option('--to <n>', 'last step (default: the last one committed)', wholeNumber)
    .option('--out <folder>', 'write step_N/rank_R.arrow and step_N/manifest.json there')
    .option('--serve <port>', 'serve the steps to a trainer on this port (0: a free one), until it is through or Ctrl-C', wholeNumber)
    .option('--world <n>', 'with --out: data-parallel ranks', wholeNumber, 1)
    .option('--max-tokens <n>', 'with --out: tokens of one micro-batch (default: the longest row)', wholeNumber)
    .option('--pad-to-multiple <n>', 'with --out: micro-batches have a multiple of so many tokens', wholeNumber)
    .option('--as <feed>', 'make a new feed that holds the same groups in the same batches')
    .option('--algorithm <name>', 'with --as: the algorithm of all environments')
    .option('--spec <file>', 'with --as: a JSON file with members of the spec that differ; - is standard input')
    .option('--rewards <which>', 'with --as: cut (as that feed saw them) or latest (as the log has them now)', 'latest')
    .option('--url <url>', 'server of the feed', config.url)
    .option('--project <id>', 'project of the feed', config.project ?? DEFAULT_PROJECT)
    .action((feed: string, options: Options) => carried((signal) => replayFeed(feed, options, signal)));
}

async function replayFeed(feed: string, options: Options, signal: AbortSignal): Promise<number> {
  const chosen = [options.out, options.serve, options.as].filter((each) => each !== undefined).length;
  if (chosen > 1) throw new TapedeckError('usage', 'choose one of --out, --serve and --as');
  if (options.as !== undefined) {
    await write(process.stdout, await deriveFeed(feed, { ...options, as: options.as }));
    return 0;
  }
  const source = sourceOf(feed, options, signal);
  const { committed } = await source.status();
  const [from, to] = [options.from ?? 1, options.to ?? committed];
  if (to > committed) throw new TapedeckError('out_of_order', `feed ${feed} has committed ${committed} steps: a replay ends there`);
  if (committed === 0) throw new TapedeckError('not_found', `feed ${feed} has no committed batch yet`);
  if (options.serve !== undefined) return serveSteps(feed, { ...options, from, to, serve: options.serve }, source, signal);
  return writeSteps(feed, { ...options, from, to }, source);
}

type Source = ReturnType<typeof sourceOf>;

/** The server of the feed. Every manifest is checked: its id is what it holds. */
function sourceOf(feed: string, { url, project }: Options, signal: AbortSignal) {
  const path = (rest: string, query: URLSearchParams = new URLSearchParams()): string => {
    query.set('project', project);
    return `/v1/feeds/${encodeURIComponent(feed)}${rest}?${query.toString()}`;
  };
  const manifests = new Map<number, Promise<Manifest>>();
  const manifest = async (n: number): Promise<Manifest> => {
    const read = (await (await askServer(url, path(`/batches/${n}/manifest`), { signal })).json()) as Manifest;
    const [flaw] = new ChainVerifier().add(read);
    if (flaw !== undefined) throw new TapedeckError('chain_mismatch', flaw.message);
    return read;
  };
  return {
    feed: async (): Promise<unknown> => (await askServer(url, path(''), { signal })).json(),
    status: async (): Promise<FeedStatus> => (await askServer(url, path('/status'), { signal })).json() as Promise<FeedStatus>,
    manifest: (n: number): Promise<Manifest> => {
      const known = manifests.get(n) ?? manifest(n);
      manifests.set(n, known);
      for (const old of manifests.keys()) if (manifests.size > KEPT_MANIFESTS && old !== n) manifests.delete(old);
      known.catch(() => manifests.delete(n));
      return known;
    },
    slice: (n: number, query: URLSearchParams): Promise<Response> => askServer(url, path(`/batches/${n}`, query), { signal }),
  };
}

const KEPT_MANIFESTS = 8;

type Range = Options & { readonly from: number; readonly to: number };

async function writeSteps(feed: string, options: Range, source: Source): Promise<number> {
  const { from, to, world, out } = options;
  if (from < 1 || to < from) throw new TapedeckError('usage', `steps ${from} to ${to} are no range: steps count from 1`);
  await write(process.stdout, '| step | batch id | rows | tokens | slices | sha256 of rank 0 |\n| --- | --- | --- | --- | --- | --- |\n');
  for (let n = from; n <= to; n++) {
    const manifest = await source.manifest(n);
    const longest = manifest.rows.reduce((most, { seqLen }) => Math.max(most, seqLen), 1);
    const digests: string[] = [];
    for (let rank = 0; rank < world; rank++) {
      const query = new URLSearchParams({ rank: String(rank), world: String(world), maxTokens: String(options.maxTokens ?? longest) });
      if (options.padToMultiple !== undefined) query.set('padToMultiple', String(options.padToMultiple));
      const bytes = await verifiedSlice(await source.slice(n, withWait(query)), n, manifest.batchId);
      digests.push(sha256(bytes));
      if (out !== undefined) await put(join(out, `step_${n}`), `rank_${rank}.arrow`, bytes);
    }
    if (out !== undefined) await put(join(out, `step_${n}`), 'manifest.json', Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`));
    const tokens = manifest.rows.reduce((sum, { seqLen }) => sum + seqLen, 0);
    await write(
      process.stdout,
      `| ${n} | ${manifest.batchId.slice(0, 16)} | ${manifest.rows.length} | ${tokens} | ${world} | ${(digests[0] as string).slice(0, 16)} |\n`,
    );
  }
  const where = out === undefined ? '' : `; written to ${out}`;
  await write(process.stdout, `\n${to - from + 1} steps of feed ${feed}: every id is what its batch holds${where}\n`);
  return 0;
}

const WAIT_SECONDS = 30;

function withWait(query: URLSearchParams): URLSearchParams {
  query.set('wait', String(WAIT_SECONDS));
  return query;
}

async function verifiedSlice(answer: Response, n: number, batchId: string): Promise<Buffer> {
  if (answer.status !== 200) throw new TapedeckError('not_ready', `batch ${n} is being made again from the log: try again`);
  const bytes = Buffer.from(await answer.arrayBuffer());
  const said = /^sha-256=:(.+):$/.exec(answer.headers.get('repr-digest') ?? '')?.[1];
  if (said === undefined || Buffer.from(said, 'base64').toString('hex') !== sha256(bytes)) {
    throw new TapedeckError('digest_mismatch', `the bytes of batch ${n} are not those that its digest names`);
  }
  const id = answer.headers.get('x-feed-batch');
  if (id !== batchId) throw new TapedeckError('chain_mismatch', `batch ${n} came as ${id ?? 'nothing'}, its manifest says ${batchId}`);
  return bytes;
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Aside, then renamed. */
async function put(folder: string, name: string, bytes: Uint8Array): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, `${name}.tmp`), bytes);
  await rename(join(folder, `${name}.tmp`), join(folder, name));
}

async function serveSteps(feed: string, options: Range & { readonly serve: number }, source: Source, signal: AbortSignal): Promise<number> {
  const { from, to } = options;
  const replayed = createReplayedFeed({ feed, from, to, batch: async (n) => batchOf(await source.manifest(n)) });
  const app = await openServer({ clock: systemClock, random: systemRandom });
  const over = Promise.withResolvers<void>();
  registerReplayedFeed(app, {
    feed: replayed,
    source: { feed: source.feed, slice: (n, query) => source.slice(n, withWait(query)), manifest: (n) => source.manifest(n) },
    nowMicros: () => systemClock.nowMicros(),
    onCommit: (n, batchId) => {
      process.stdout.write(`step ${n} of ${to} committed: ${batchId}\n`);
      if (n === to) over.resolve();
    },
  });
  const stop = (): void => over.resolve();
  signal.addEventListener('abort', stop, { once: true });
  try {
    await app.listen({ host: '127.0.0.1', port: options.serve });
    const [address] = app.addresses() as AddressInfo[];
    process.stderr.write(
      `steps ${from} to ${to} of feed ${feed} at http://127.0.0.1:${address?.port ?? options.serve}; nothing of it reaches the feed itself\n`,
    );
    await over.promise;
    // the trainer asks once more, and is told the end
    if (!signal.aborted) await systemClock.sleep(LINGER_MS, signal).catch(() => {});
  } finally {
    signal.removeEventListener('abort', stop);
    await app.close();
  }
  return replayed.isOver ? 0 : 1;
}

const LINGER_MS = 2_000;

function batchOf({ n, batchId, previousId, timeline, algorithm, policyVersion, counts, rows }: Manifest): ReplayedBatch {
  const packed = rows.map(({ rowId, seqLen, multimodal }) => ({ rowId, seqLen, multimodal }));
  return { n, batchId, previousId, timeline, algorithm, policyVersion, counts, rows: packed };
}
