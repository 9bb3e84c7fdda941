/** The bytes each rank reads of a batch under a plan: an Arrow IPC stream per rank and its digest. Pure: the same batch, plan and columns give the same bytes for ever. */
import { createHash } from 'node:crypto';
import { TapedeckError } from '../../base/errors.ts';
import type { Row } from '../cut/row.ts';
import { MAX_METADATA_BYTES, writeArrowStream } from './arrow-stream.ts';
import { columnsOf, type Cell, type ExtraColumn } from './batch-columns.ts';
import type { MicroBatch, Plan } from './plan.ts';
import { PLANNER_VERSION } from './plan-request.ts';

/** What the header of every slice says of its batch. The denominators are those of the whole batch, whatever the rank. */
export type BatchHeader = {
  readonly feed: string;
  readonly timeline: number;
  readonly n: number;
  readonly batchId: string;
  readonly algorithm: string;
  readonly policyVersion: number | null;
  readonly counts: { readonly nRl: number; readonly nCe: number; readonly nRefKl: number };
};

export type Slice = {
  readonly rank: number;
  readonly bytes: Uint8Array;
  /** sha256, hexadecimal, of `bytes`. */
  readonly sha256: string;
  readonly microBatches: number;
  readonly rows: number;
  /** Tokens of rows, padding left out. */
  readonly tokens: number;
};

/** Every rank's slice, one at a time, so that they need not all be in memory. */
export function* prepareSlices(
  header: BatchHeader,
  rows: readonly Row[],
  plan: Plan,
  extra: readonly ExtraColumn[] = [],
): Generator<Slice, void, void> {
  const columns = columnsOf(rows, extra);
  for (const [rank, microBatches] of plan.ranks.entries()) {
    const bytes = writeArrowStream(
      columns,
      microBatches.map((microBatch) => cellsOf(microBatch, rows)),
      metadataOf(header, plan, rank),
    );
    yield {
      rank,
      bytes,
      sha256: createHash('sha256').update(bytes).digest('hex'),
      microBatches: microBatches.length,
      rows: microBatches.reduce((sum, microBatch) => sum + microBatch.rows.length, 0),
      tokens: microBatches.reduce((sum, { tokens }) => sum + tokens, 0),
    };
  }
}

function cellsOf({ rows, padding }: MicroBatch, all: readonly Row[]): Cell[] {
  const cells: Cell[] = rows.map((i) => all[i] as Row);
  return padding > 0 ? [...cells, { padding }] : cells;
}

function metadataOf(header: BatchHeader, plan: Plan, rank: number): Record<string, string> {
  const metadata = {
    'tapedeck.feed': header.feed,
    'tapedeck.timeline': String(header.timeline),
    'tapedeck.n': String(header.n),
    'tapedeck.batch_id': header.batchId,
    'tapedeck.plan_id': plan.planId,
    'tapedeck.planner_version': String(PLANNER_VERSION),
    'tapedeck.algorithm': header.algorithm,
    'tapedeck.policy_version': header.policyVersion === null ? '' : String(header.policyVersion),
    'tapedeck.n_rl': String(header.counts.nRl),
    'tapedeck.n_ce': String(header.counts.nCe),
    'tapedeck.n_ref_kl': String(header.counts.nRefKl),
    'tapedeck.world': String(plan.request.world),
    'tapedeck.rank': String(rank),
    'tapedeck.micro_batches': String(plan.microBatchesPerRank),
  };
  const bytes = Object.entries(metadata).reduce((sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value), 0);
  if (bytes > MAX_METADATA_BYTES)
    throw new TapedeckError('field_too_long', `the header of a slice has ${bytes} bytes, at most ${MAX_METADATA_BYTES} are allowed`);
  return metadata;
}
