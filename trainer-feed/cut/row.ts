/**
 * A row: one trainable sequence of a batch, ready to be packed. What the cut hands to the planner and to the manifest.
 *
 * Every array has `seqLen` entries. `logprobs[i]` is the log-probability of `tokenIds[i]` under the policy that sampled it, 0 where it was not sampled.
 * A null stream is absent, which is not zero: `STREAM_FILL` says what it reads as beside rows that carry it. Nobody writes to the arrays.
 */

/** `truncated`: the rollout hit a limit. Errored traces ship no rows. */
export type RowStatus = 'completed' | 'truncated';

/** How many tokens of a row take part in each loss component. */
export type MemberCounts = { readonly rl: number; readonly ce: number; readonly refKl: number };

/** Tokens of one array (`tokenIds` …) per row; see the head of this file. */
export type Row = {
  /** Names the row in its project for ever: run, rollout, trace and leaf (see `rowIdOf`). */
  readonly rowId: string;
  readonly run: string | null;
  readonly rollout: string;
  readonly trace: string;
  readonly leaf: number;
  readonly group: string;
  readonly env: string;
  readonly taskKey: string | null;
  readonly agent: string;
  readonly status: RowStatus;
  readonly seqLen: number;
  /** Ids below 2^31. */
  readonly tokenIds: Int32Array;
  /** 1 = sampled by the model and trained in this row; a node that several rows share is 1 in one of them. */
  readonly lossMask: Uint8Array;
  readonly logprobs: Float32Array;
  /** One number for all tokens with mask 1 (an array only if it varies along the tokens); null = the algorithm assigns no credit. */
  readonly advantage: number | Float32Array | null;
  /** null = 1 wherever the mask is 1. */
  readonly rlWeights: Float32Array | null;
  /** null = the row has no such component. */
  readonly ceWeights: Float32Array | null;
  readonly refKlWeights: Float32Array | null;
  readonly refLogprobs: Float32Array | null;
  /** Of the calls that sampled the row's tokens; one per token where they differ (1 at tokens nobody sampled). null = not recorded. */
  readonly temperature: number | Float32Array | null;
  /** The unshaped reward of the trace; null only for rows that need none (`sft`, `opd`). */
  readonly reward: number | null;
  /** Oldest and newest policy version among the row's sampled tokens; null for a frozen source. */
  readonly policyVersionMin: number | null;
  readonly policyVersionMax: number | null;
  /** (n - 1) - policyVersionMin in batch n; null for a frozen source. */
  readonly staleness: number | null;
  readonly logOffset: readonly [partition: number, offset: number];
  /** The nodes of the path, root first: where the tokens came from. A truncated row ends inside one of them. */
  readonly nodes: readonly number[];
  /** Whether placeholder ids of images or other media are among the tokens: such rows are packed apart. */
  readonly multimodal: boolean;
  readonly members: MemberCounts;
  /** sha256, hexadecimal, of ids, mask, log-probabilities and row scalars: what does not depend on the rest of the batch. */
  readonly contentHash: string;
  /** sha256, hexadecimal, of advantage and weights. */
  readonly signalHash: string;
};

/** What an absent stream reads as where another row of the batch carries it. */
export const STREAM_FILL = { rlWeights: 1, ceWeights: 0, refKlWeights: 0, refLogprobs: 0, advantage: 0 } as const;

/** `run/rollout/trace/leaf` with `%` and `/` inside the ids as `%25` and `%2F`, so that no two rows share a name; an absent run is empty. */
export function rowIdOf(run: string | null, rollout: string, trace: string, leaf: number): string {
  return `${escaped(run ?? '')}/${escaped(rollout)}/${escaped(trace)}/${leaf}`;
}

function escaped(id: string): string {
  return id.includes('%') || id.includes('/') ? id.replaceAll('%', '%25').replaceAll('/', '%2F') : id;
}
