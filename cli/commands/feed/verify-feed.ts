/**
 * Anybody can check a feed: every batch id is computed from its manifest and names the batch before, no row is trained more often than the spec allows; with its rows, what ranks
 * read is hashed anew and compared with what the ids are made of.
 */
import { isTapedeckError, TapedeckError } from '../../../base/errors.ts';
import type { Clock } from '../../../base/clock.ts';
import { planRequest } from '../../../trainer-feed/planner/plan-request.ts';
import { readSlice, type ReadMicroBatch } from '../../../trainer-feed/planner/read-slice.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import type { Manifest } from '../../../trainer-feed/server/manifest.ts';
import { ChainVerifier, type Flaw } from '../../../trainer-feed/verify/verify-chain.ts';
import { verifyRows, type RowFlaw } from '../../../trainer-feed/verify/verify-rows.ts';
import { readBatchSlice } from './read-batch-slice.ts';

/** `wrong`: the first batch with a flaw; null = there is none. */
export type Verified = {
  readonly feed: string;
  readonly batches: number;
  readonly rows: number;
  readonly wrong: number | null;
  readonly flaws: readonly (Flaw | RowFlaw)[];
  readonly text: string;
};

export type VerifySource = {
  readonly url: string;
  readonly project: string;
  readonly feed: string;
  readonly manifestOf: (n: number) => Promise<Manifest>;
  readonly statusOf: () => Promise<FeedStatus>;
  readonly specOf: () => Promise<{ readonly maxTimesTrained?: number }>;
  readonly clock: Clock;
};

/** Stops after the first batch with a flaw. `to` null = all batches that are cut. */
export async function verifyFeed(source: VerifySource, to: number | null, withRows: boolean): Promise<Verified> {
  const { feed } = source;
  const last = to ?? (await source.statusOf()).cut;
  const verifier = new ChainVerifier({ maxTimesTrained: (await source.specOf()).maxTimesTrained ?? 1 });
  let rows = 0;
  for (let n = 1; n <= last; n++) {
    const manifest = await source.manifestOf(n);
    const flaws: (Flaw | RowFlaw)[] = [...verifier.add(manifest)];
    if (withRows) flaws.push(...verifyRows(manifest, await servedRows(source, n, manifest)));
    if (flaws.length > 0) return { feed, batches: n - 1, rows, wrong: n, flaws, text: flaws.map(({ message }) => message).join('\n') };
    rows += manifest.rows.length;
  }
  const seen = withRows ? `, and all ${rows} rows as ranks read them have the hashes it is made of` : '';
  return {
    feed,
    batches: last,
    rows,
    wrong: null,
    flaws: [],
    text: `${last} batches: every id is what the batch holds, each names the one before, no row is trained too often${seen}`,
  };
}

/** Of all ranks: of one rank, or under the plan that the batch is leased with. */
async function servedRows(source: VerifySource, n: number, manifest: Manifest): Promise<ReadMicroBatch[]> {
  try {
    return await slices(source, n, 1, { maxTokens: Math.max(1, manifest.counts.longestRow) });
  } catch (error) {
    const pinned = isTapedeckError(error, 'plan_mismatch') ? planRequest.safeParse(error.details?.['plan']) : null;
    if (pinned === null || !pinned.success) throw error;
    return slices(source, n, pinned.data.world, {});
  }
}

async function slices(source: VerifySource, n: number, world: number, more: { readonly maxTokens?: number }): Promise<ReadMicroBatch[]> {
  const { url, project, feed, clock } = source;
  const found: ReadMicroBatch[] = [];
  for (let rank = 0; rank < world; rank++) {
    const query = {
      rank: String(rank),
      world: String(world),
      ...(more.maxTokens === undefined ? {} : { maxTokens: String(more.maxTokens) }),
    };
    const bytes = await readBatchSlice({ url, project, feed, n, query, waitSeconds: 120 }, clock);
    if (bytes === null) throw new TapedeckError('not_found', `feed ${feed} ends before batch ${n}`);
    found.push(...readSlice(bytes));
  }
  return found;
}
