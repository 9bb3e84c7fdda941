/** Anybody can check a feed: every batch id is computed from its manifest, and names the batch before. */
import { batchIdOf, excludedDigestOf } from '../../../trainer-feed/cut/identity.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import type { Manifest } from '../../../trainer-feed/server/manifest.ts';

/** `wrong`: the first batch that is not what its id says, or does not follow the one before; null = all are. */
export type Verified = { readonly feed: string; readonly batches: number; readonly wrong: number | null; readonly text: string };

export async function verifyChain(
  feed: string,
  to: number | null,
  manifestOf: (n: number) => Promise<Manifest>,
  statusOf: () => Promise<FeedStatus>,
): Promise<Verified> {
  const last = to ?? (await statusOf()).cut;
  let previous: string | null = null;
  for (let n = 1; n <= last; n++) {
    const manifest = await manifestOf(n);
    const computed = idOf(manifest);
    if (computed !== manifest.batchId)
      return { feed, batches: n - 1, wrong: n, text: `batch ${n} says ${manifest.batchId}, but what it holds makes ${computed}` };
    if (manifest.previousId !== previous)
      return {
        feed,
        batches: n - 1,
        wrong: n,
        text: `batch ${n} names ${manifest.previousId ?? 'nothing'} before it, but batch ${n - 1} is ${previous ?? 'nothing'}`,
      };
    previous = manifest.batchId;
  }
  return { feed, batches: last, wrong: null, text: `${last} batches: every id is what the batch holds, and each names the one before` };
}

/** The id that follows from what a manifest says. */
export function idOf(manifest: Manifest): string {
  return batchIdOf({
    previousId: manifest.previousId,
    feed: manifest.feed,
    n: manifest.n,
    specHash: manifest.specHash,
    rows: manifest.rows,
    denominators: { rl: manifest.counts.N_rl, ce: manifest.counts.N_ce, refKl: manifest.counts.N_ref_kl },
    groups: manifest.groups,
    excludedDigest: excludedDigestOf(manifest.excluded),
    sourcePositions: manifest.sourcePositions,
    policyVersion: manifest.policyVersion,
  });
}
