/**
 * Batches of a feed as files for an unmodified prime-rl trainer: `rollouts/step_N/rank_R.bin` below its output folder, as its filesystem transport writes them (aside, then renamed).
 * Both count steps from 1, so batch n is step n. Reading needs no lease and changes nothing; the same batch gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import { TapedeckError } from '../../../base/errors.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import { microBatchFile } from '../../../trainer-feed/prime-rl/micro-batch-file.ts';
import { askServer } from '../../render/ask-server.ts';

export type PrimeRlExport = {
  readonly url: string;
  readonly project: string;
  readonly feed: string;
  /** The trainer's output folder. */
  readonly out: string;
  /** Batches; `to` null = all that are cut. */
  readonly from: number;
  readonly to: number | null;
  readonly ranks: number;
  /** Tokens of a micro-batch; null = as the batch is leased. */
  readonly maxTokens: number | null;
  readonly padToMultiple: number | null;
  /** How long a batch that is not cut yet is waited for, seconds. */
  readonly waitSeconds: number;
};

/** `ended`: the stream ends before `to`. */
export type PrimeRlExported = { readonly steps: number; readonly files: number; readonly bytes: number; readonly ended: boolean };

/** Seconds that one request waits. */
const POLL_SECONDS = 20;

/** Errors: those of the server; `deadline_exceeded` (a batch was not cut in time: what it waits for), `digest_mismatch`, `invalid_value` (a temperature was not recorded). */
export async function exportPrimeRl(options: PrimeRlExport, clock: Clock): Promise<PrimeRlExported> {
  const { from, ranks, out } = options;
  const to = options.to ?? (await cutSoFar(options));
  let files = 0;
  let bytes = 0;
  for (let n = from; n <= to; n++) {
    const slices: Uint8Array[] = [];
    for (let rank = 0; rank < ranks; rank++) {
      const slice = await sliceOf(options, n, rank, clock);
      if (slice === null) return { steps: n - from, files, bytes, ended: true };
      slices.push(slice);
    }
    const folder = join(out, 'rollouts', `step_${n}`);
    await mkdir(folder, { recursive: true });
    for (const [rank, slice] of slices.entries()) {
      const content = microBatchFile(slice);
      const path = join(folder, `rank_${rank}.bin`);
      await writeFile(`${path}.tmp`, content);
      await rename(`${path}.tmp`, path);
      files++;
      bytes += content.length;
    }
  }
  return { steps: Math.max(0, to - from + 1), files, bytes, ended: false };
}

async function cutSoFar({ url, feed, project }: PrimeRlExport): Promise<number> {
  const answer = await askServer(url, `/v1/feeds/${encodeURIComponent(feed)}/status?project=${encodeURIComponent(project)}`);
  return ((await answer.json()) as FeedStatus).cut;
}

/** One rank's slice of batch `n`; null when the stream ends before it. */
async function sliceOf(options: PrimeRlExport, n: number, rank: number, clock: Clock): Promise<Uint8Array | null> {
  const { url, feed, project, ranks, maxTokens, padToMultiple, waitSeconds } = options;
  const query = new URLSearchParams({ project, rank: String(rank), world: String(ranks) });
  if (maxTokens !== null) query.set('maxTokens', String(maxTokens));
  if (padToMultiple !== null) query.set('padToMultiple', String(padToMultiple));
  const end = clock.monotonicMs() + waitSeconds * 1000;
  for (;;) {
    const left = Math.max(0, (end - clock.monotonicMs()) / 1000);
    query.set('wait', String(Math.floor(Math.min(POLL_SECONDS, left))));
    const answer = await askServer(url, `/v1/feeds/${encodeURIComponent(feed)}/batches/${n}?${query.toString()}`);
    if (answer.headers.get('x-feed-end') === 'true') return null;
    if (answer.status === 200) return checked(answer, feed, n);
    const { pending } = (await answer.json()) as { readonly pending: { readonly waitsFor: string } };
    if (clock.monotonicMs() >= end) {
      throw new TapedeckError(
        'deadline_exceeded',
        `batch ${n} of feed ${feed} is not there after ${waitSeconds} s: it waits for ${pending.waitsFor}`,
      );
    }
    await clock.sleep(Math.min(1000, Math.max(1, end - clock.monotonicMs())));
  }
}

async function checked(answer: Response, feed: string, n: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(await answer.arrayBuffer());
  const told = answer.headers.get('repr-digest');
  const computed = `sha-256=:${createHash('sha256').update(bytes).digest('base64')}:`;
  if (told === computed) return bytes;
  throw new TapedeckError(
    'digest_mismatch',
    `batch ${n} of feed ${feed} came damaged: its digest is ${computed}, the server said ${told}; ask again`,
  );
}
