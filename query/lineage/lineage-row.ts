/** One row of a batch in answers about lineage. 64-bit integers are strings. */
import { storedFloat } from '../traces/json-float.ts';
import type { JsonFloat } from '../traces/trace-answer.ts';

export type StoredRow = {
  readonly run: string | null; readonly rollout: string; readonly trace: string; readonly group: string | null; readonly env: string; readonly feed: string; readonly timeline: string;
  readonly n: string; readonly batch_id: string; readonly policy_version: string | null; readonly step: string | null; readonly abandoned: boolean; readonly row_id: string;
  readonly leaf: number; readonly rank: number | null; readonly micro_batch: number | null; readonly position: number | null; readonly seq_len: string | null;
  readonly trained: string | null; readonly advantage: number | string | null; readonly policy_version_min: string | null; readonly policy_version_max: string | null;
  readonly staleness: number | string | null;
}; // prettier-ignore

export type LineageRow = {
  readonly feed: string;
  readonly timeline: string;
  readonly n: string;
  readonly batchId: string;
  /** Null while the batch is not committed. */
  readonly step: string | null;
  /** Whether a rewind gave the batch up. */
  readonly abandoned: boolean;
  readonly rowId: string;
  readonly run: string | null;
  readonly rollout: string;
  readonly trace: string;
  readonly leaf: number;
  readonly rank: number | null;
  readonly microBatch: number | null;
  readonly position: number | null;
  readonly seqLen: string | null;
  readonly trained: string | null;
  readonly advantage: JsonFloat | null;
  readonly policyVersionMin: string | null;
  readonly policyVersionMax: string | null;
  readonly staleness: JsonFloat | null;
};

export function rowEntry(row: StoredRow): LineageRow {
  return {
    feed: row.feed,
    timeline: row.timeline,
    n: row.n,
    batchId: row.batch_id,
    step: row.step,
    abandoned: row.abandoned,
    rowId: row.row_id,
    run: row.run,
    rollout: row.rollout,
    trace: row.trace,
    leaf: row.leaf,
    rank: row.rank,
    microBatch: row.micro_batch,
    position: row.position,
    seqLen: row.seq_len,
    trained: row.trained,
    advantage: storedFloat(row.advantage),
    policyVersionMin: row.policy_version_min,
    policyVersionMax: row.policy_version_max,
    staleness: storedFloat(row.staleness),
  };
}
