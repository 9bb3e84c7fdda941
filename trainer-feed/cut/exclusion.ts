/** What a batch left out, and why: the closed list of reasons. */

/** Reasons by what they leave out. Names of failed groups come from algorithms too, and are open. */
export const REASONS = {
  /** The trace is no member. */
  trace: ['error', 'truncated_excluded', 'untrainable', 'no_tokens', 'unscored', 'non_finite_reward'],
  /** The trace is a member and ships nothing. */
  member: [
    'failed_in_baseline', 'truncated_dropped', 'mixed_tokenizers', 'missing_demonstration', 'tokenizer_mismatch', 'echo_needs_attribution', 'singleton', 'below_threshold',
    'not_among_best',
  ],
  /** The row is left out, its trace stays in the baseline. */
  row: [
    'no_tokens', 'not_final', 'compaction_attempt', 'too_short', 'too_long', 'over_length', 'missing_reference', 'stale', 'versions_unknown',
    'nothing_to_train', 'overlong_filtered', 'zero_advantage',
  ],
  /** The whole group is left out by a filter or by its age. */
  group: ['env_not_in_spec', 'no_members', 'zero_variance', 'difficulty', 'stale_group'],
  /** The whole group fails: something is wrong with it or with its algorithm. */
  failure: [
    'negative_reward', 'ambiguous_channel', 'missing_reward', 'missing_logprobs', 'missing_advantage', 'non_finite_advantage', 'non_finite_logprobs', 'row_exceeds_max_tokens',
    'token_lengths', 'token_id_range', 'algorithm_threw', 'algorithm_output',
  ],
} as const; // prettier-ignore

/** One row, trace (leaf null) or group (trace null) that a batch left out. */
export type Exclusion = {
  readonly run: string | null;
  readonly group: string;
  readonly rollout: string | null;
  readonly trace: string | null;
  readonly leaf: number | null;
  readonly reason: string;
  /** A sentence where the reason alone does not say enough. */
  readonly message: string | null;
  /** Optimizer steps behind, of the row; null where it does not apply. */
  readonly staleness: number | null;
  /** Token ids of the row, or of all of the trace's nodes; null for a group. */
  readonly length: number | null;
};
