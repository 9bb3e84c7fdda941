/**
 * What a group is when it is ready: the seam between the group machine, which gathers it from the log, and the cut, which makes rows of it.
 *
 * Token columns are typed arrays, views into the row file or into memory: nobody writes to them. An absent column is null, never empty.
 */

/** A branch (root-to-leaf path) of a trace, by its leaf. `nodes` are node indices, root first; `length` counts their token ids. */
export type Branch = { readonly leaf: number; readonly nodes: readonly number[]; readonly length: number };

/** So many of a node's sampled tokens, in order, under one policy version. */
export type PolicyRun = { readonly length: number; readonly version: number };

/**
 * Token facts of a node. `ids`, `mask` (1 = sampled by the model) and `isContent` have one entry per token; `logprobs` and
 * `referenceLogprobs` are compact: one per masked token. `temperature` is that of the call that sampled it. `partial` = the engine's stream broke, what arrived is here.
 */
export type NodeTokens = {
  readonly index: number;
  readonly parent: number | null;
  readonly role: string;
  readonly sampled: boolean;
  readonly ids: Uint32Array;
  readonly mask: Uint8Array;
  readonly isContent: Uint8Array | null;
  readonly logprobs: Float32Array | null;
  readonly policyRuns: readonly PolicyRun[] | null;
  readonly policyVersion: number | null;
  readonly temperature: number | null;
  readonly attribution: 'renderer' | 'ladder' | 'none' | null;
  readonly referenceLogprobs: Float32Array | null;
  readonly partial: boolean;
};

/** A named reward as of the group's ready decision. A null score was not measured and is not 0; NaN and infinities are kept as they came. */
export type Score = { readonly name: string; readonly score: number | null; readonly weight: number };

/** Log-probabilities before temperature and top-p (raw), after (processed), or not known. */
export type LogprobsMode = 'raw' | 'processed' | 'unknown';

/** A node of a trace that has no `tokens`: a path through it gives no training row (reason `no_tokens`). */
export type BareNode = { readonly index: number; readonly parent: number | null; readonly role: string; readonly sampled: boolean };

/**
 * One trace of a member rollout.
 *
 * `scores` are those of the trace plus those of its rollout, the latest per scope and name. `nodes` holds the nodes that have tokens, `bare` the
 * others. `leaves` ascend. `compactionAttempts` are leaves linked as `compaction_attempt` that no `compaction` link continues from. `policyStart` and
 * `policyEnd` are the policy versions at the first and last call; null for a model that has none. `temperature` and `tokenizerHash` are null when its
 * calls differ; `mixedTokenizers` tells a difference from silence. `ok` = the trace and its rollout ended without error.
 */
export type MemberTrace = {
  readonly run: string | null;
  readonly group: string;
  readonly rollout: string;
  readonly trace: string;
  readonly env: string;
  readonly taskKey: string | null;
  readonly agent: string;
  readonly trainable: boolean;
  readonly ok: boolean;
  readonly error: string | null;
  readonly truncated: boolean;
  readonly stopCondition: string | null;
  readonly scores: readonly Score[];
  readonly nodes: ReadonlyMap<number, NodeTokens>;
  readonly bare: ReadonlyMap<number, BareNode>;
  readonly leaves: readonly number[];
  readonly compactionAttempts: ReadonlySet<number>;
  readonly policyStart: number | null;
  readonly policyEnd: number | null;
  readonly temperature: number | null;
  readonly logprobsMode: LogprobsMode;
  readonly tokenizerHash: string | null;
  readonly mixedTokenizers: boolean;
  readonly demonstration: string | null;
  readonly logOffset: readonly [partition: number, offset: number];
};

/**
 * A group whose membership and rewards are fixed. `readyAt` is its place in the order of readiness (the offset of its ready decision in the feed's
 * log); `members` keep the order of the ready decision. `baselines`: what the ready decision recorded for algorithms with a running baseline, one
 * number per member (`rae`: the baseline before the update); null for all others.
 */
export type ReadyGroup = {
  readonly group: string;
  readonly env: string;
  readonly readyAt: number;
  readonly members: readonly MemberTrace[];
  readonly baselines: readonly number[] | null;
};
