/** The manifest of a batch: everything its id is made of, what it holds and what it left out, from its decision in the log and the lists that decision names. */
import { TapedeckError } from '../../base/errors.ts';
import { decodeExcludedList, decodeRowList, type ListedExclusion, type ListedRow } from '../../events/row-list.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { BatchCounts, ChainLink } from '../feed/decision-state.ts';
import type { FeedOrigin } from '../feed/open-feed.ts';
import { feedEventOf } from '../feed/read-topics.ts';

export type ManifestRow = Omit<ListedRow, 'lossMask' | 'advantage' | 'temperature' | 'rlWeights' | 'ceWeights' | 'refKlWeights'> & {
  /** One number, or `per token`. */
  readonly advantage: number | 'per token' | null;
  readonly temperature: number | 'per token' | null;
  /** Sums of the weights, so that batches can be compared; null = the stream is absent. */
  readonly weights: { readonly rl: number | null; readonly ce: number | null; readonly refKl: number | null };
};

/** Times in microseconds. */
export type Manifest = {
  readonly feed: string;
  readonly project: string;
  readonly timeline: number;
  readonly n: number;
  readonly batchId: string;
  readonly previousId: string | null;
  readonly specHash: string;
  readonly algorithm: string;
  readonly policyVersion: number | null;
  readonly sourcePositions: readonly (readonly [partition: number, offset: number])[];
  readonly cut: number;
  readonly committed: boolean;
  readonly counts: BatchCounts;
  readonly statistics: Readonly<Record<string, unknown>>;
  /** Groups with rows, in the order of their rows. */
  readonly groups: readonly string[];
  readonly rows: readonly ManifestRow[];
  readonly excluded: readonly ListedExclusion[];
};

type From = { readonly origin: FeedOrigin; readonly feeds: EventLog; readonly blobs: BlobStore; readonly signal: AbortSignal };

/** Errors: `log_corrupt` when the log has no such decision where the chain says; those of the blob store. */
export async function manifestOf(link: ChainLink, committed: number, { origin, feeds, blobs, signal }: From): Promise<Manifest> {
  const chunk = await feeds.read(origin.partition, link.offset, { maxBytes: 1, signal });
  const [record] = chunk.records;
  const event = record === undefined || record.offset !== link.offset ? null : feedEventOf(record.value, origin.project);
  if (event?.type !== 'batch.cut')
    throw new TapedeckError('log_corrupt', `the log of feed ${origin.feed} has no batch ${link.n} at ${link.offset}`);
  const { data } = event;
  const rows = data.rows ? (await decodeRowList(await blobs.get(data.rows.sha256, signal))).rows : [];
  const excluded = data.excluded ? await decodeExcludedList(await blobs.get(data.excluded.sha256, signal)) : [];
  return {
    feed: origin.feed,
    project: origin.project,
    timeline: link.timeline,
    n: link.n,
    batchId: link.batchId,
    previousId: data.previous ?? null,
    specHash: origin.resolved.specHash,
    algorithm: data.algorithm,
    policyVersion: data.policyVersion ?? null,
    sourcePositions: (data.positions ?? []).map((offset, partition) => [partition, offset] as const),
    cut: event.time,
    committed: link.n <= committed,
    counts: data.counts as BatchCounts,
    statistics: data.statistics ?? {},
    groups: [...new Set(rows.map(({ group }) => group))],
    rows: rows.map(manifestRow),
    excluded,
  };
}

function manifestRow({ lossMask: _mask, advantage, temperature, rlWeights, ceWeights, refKlWeights, ...row }: ListedRow): ManifestRow {
  const sum = (stream: Float32Array | null): number | null =>
    stream === null ? null : stream.reduce((total, weight) => total + weight, 0);
  return {
    ...row,
    advantage: typeof advantage === 'object' && advantage !== null ? 'per token' : advantage,
    temperature: typeof temperature === 'object' && temperature !== null ? 'per token' : temperature,
    weights: { rl: sum(rlWeights), ce: sum(ceWeights), refKl: sum(refKlWeights) },
  };
}
