/**
 * Batches of a feed as files for an unmodified prime-rl trainer: `rollouts/step_N/rank_R.bin` below its output folder, as its filesystem transport writes them (aside, then renamed).
 * Both count steps from 1, so batch n is step n. Reading needs no lease and changes nothing; the same batch gives the same bytes.
 */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../../base/clock.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import { microBatchFile } from '../../../trainer-feed/prime-rl/micro-batch-file.ts';
import { askServer } from '../../render/ask-server.ts';
import { readBatchSlice } from './read-batch-slice.ts';

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
function sliceOf(options: PrimeRlExport, n: number, rank: number, clock: Clock): Promise<Uint8Array | null> {
  const { url, feed, project, ranks, maxTokens, padToMultiple, waitSeconds } = options;
  const query = {
    rank: String(rank),
    world: String(ranks),
    ...(maxTokens === null ? {} : { maxTokens: String(maxTokens) }),
    ...(padToMultiple === null ? {} : { padToMultiple: String(padToMultiple) }),
  };
  return readBatchSlice({ url, feed, project, n, query, waitSeconds }, clock);
}
