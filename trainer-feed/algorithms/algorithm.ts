/**
 * What an algorithm is: checked parameters, the streams its rows carry, and pure functions from the rewards of a group (and, for batch scope, of the frozen
 * batch) to one number per member. Everything else (which traces are members, filters, staleness, weights, denominators) is the cut's.
 */
import type { z } from 'zod';
import type { Score } from '../groups/ready-group.ts';

/** One trace that counts in its group's baseline. */
export type Member = {
  readonly trace: string;
  readonly rollout: string;
  readonly agent: string;
  readonly env: string;
  /** Sum of score x weight, before any shaping. 0 for an errored trace that the spec puts into the baseline. */
  readonly reward: number;
  /** The named rewards `reward` was made of. */
  readonly scores: readonly Score[];
  /** Tokens the model sampled in the trace, each node once. */
  readonly sampledTokens: number;
  /** All tokens of the trace, each node once. */
  readonly totalTokens: number;
  /** Sampled nodes. */
  readonly turns: number;
  readonly truncated: boolean;
  /** Errored, in the baseline by policy of the spec; ships no row. */
  readonly failed: boolean;
};

/** What a group-scope score sees: members in the order of the group's ready decision, and one (shaped) reward each. */
export type GroupInput = {
  readonly group: string;
  readonly env: string;
  readonly members: readonly Member[];
  readonly rewards: Float64Array;
  /** For algorithms with a running baseline: its value before each member, in order. */
  readonly baselines: Float64Array | null;
};

/** A baseline that runs through all groups of a feed, one per env and agent: where it starts, and how a member's reward moves it. */
export type RunningBaseline = { readonly initial: number; readonly next: (before: number, reward: number) => number };

/** The group cannot be scored, by name and with a sentence for people: it fails, the feed goes on. */
export type Refusal = { readonly refused: string; readonly message: string };

/**
 * One number per member (the advantage, or for batch scope what `finish` starts from); null = no credit is assigned.
 * `silent`: members (by position) that ship no row, with the reason. `muted`: members whose tokens get rl weight 0.
 */
export type GroupScore = {
  readonly values: Float64Array | null;
  readonly silent?: ReadonlyMap<number, string>;
  readonly muted?: ReadonlySet<number>;
};

/** A row of the frozen batch, as far as statistics need it. */
export type FrozenRow = {
  /** Tokens of the row that are sampled and trained there. */
  readonly tokens: number;
  /** For each of them, in order: how many sampled tokens of the whole branch follow it. */
  readonly sampledAfter: () => Uint32Array;
};

/** A member of the frozen batch: it has at least one row there. */
export type FrozenMember = {
  readonly member: Member;
  readonly group: string;
  /** What `score` gave. */
  readonly value: number;
  /** The shaped reward. */
  readonly reward: number;
  readonly rows: readonly FrozenRow[];
};

/**
 * The advantages of the frozen members: one each, or, where `tokens` is given, one per token of each row (then `values` holds nothing that ships).
 * `statistics` stands in the manifest.
 */
export type BatchScore = {
  readonly values: Float64Array;
  readonly tokens?: readonly (readonly Float64Array[])[];
  readonly statistics: Readonly<Record<string, number>>;
};

/** Which loss components train which tokens, at which weight; 0 = not a member of that component. */
export type Streams = {
  readonly rl: number;
  readonly ce: number;
  readonly refKl: number;
  /** ce on tokens that were not sampled, by role of their node, after the first sampled node. */
  readonly observations?: { readonly roles: Readonly<Record<string, number>>; readonly filter: string | null };
};

/** How weights are reduced over a batch. */
export type Reduction =
  | { readonly name: 'token_mean' }
  | { readonly name: 'seq_mean' }
  | { readonly name: 'seq_sum_norm'; readonly horizon: number }
  | { readonly name: 'prompt_mean' };

/** A condition on the unshaped rewards of a group (by name, null = the total): where it does not hold the whole group is left out. */
export type GroupFilter = { readonly on: string | null };

export type Scope = 'group' | 'batch';

/** An algorithm with parameters `P`; its functions are pure. */
export type Algorithm<P> = {
  readonly name: string;
  /** Goes up whenever the same input gives another number. */
  readonly version: number;
  /** batch: advantages depend on what else is in the batch, and `finish` gives them. */
  readonly scope: Scope | ((params: P) => Scope);
  readonly params: z.ZodType<P>;
  readonly streams: (params: P) => Streams;
  /** False for algorithms that need no reward: an unscored trace is a member all the same. Default true. */
  readonly needsReward?: boolean;
  /** The rewards that make a trace scored; without it, any. */
  readonly rewardNames?: (params: P) => readonly string[];
  /** The reduction the algorithm is defined with; without it, the spec's. */
  readonly reduction?: (params: P) => Reduction;
  /** A zero-variance filter that is part of the algorithm. */
  readonly groupFilter?: (params: P) => GroupFilter;
  readonly baseline?: (params: P) => RunningBaseline;
  /** Whether a group of one always gives advantage 0 under these parameters. */
  readonly silentAlone?: (params: P) => boolean;
  /** The only sources the algorithm makes sense with. */
  readonly sources?: readonly ('policy' | 'frozen')[];
  /** Teacher log-probabilities: whether sampled tokens must have them. */
  readonly needsReference?: boolean;
  readonly needsDemonstration?: boolean;
  /** The tokenizer that traces must have been made with; null = any. */
  readonly tokenizerHash?: (params: P) => string | null;
  /** Shaped rewards, one per member; `rewards` of the input are the unshaped ones. Without it, they are the same. */
  readonly shape?: (input: GroupInput, params: P) => Float64Array | Refusal;
  readonly score: (input: GroupInput, params: P) => GroupScore | Refusal;
  /** For batch scope. Over the members of all envs that use the algorithm with equal parameters. */
  readonly finish?: (members: readonly FrozenMember[], params: P) => BatchScore;
};

/** An algorithm together with checked parameters: what the cut works with. */
export type BoundAlgorithm = {
  readonly name: string;
  readonly version: number;
  readonly params: Readonly<Record<string, unknown>>;
  readonly streams: Streams;
  readonly needsReward: boolean;
  readonly rewardNames: readonly string[] | null;
  readonly reduction: Reduction | null;
  readonly groupFilter: GroupFilter | null;
  readonly baseline: RunningBaseline | null;
  readonly silentAlone: boolean;
  readonly sources: readonly ('policy' | 'frozen')[];
  readonly needsReference: boolean;
  readonly needsDemonstration: boolean;
  readonly tokenizerHash: string | null;
  readonly shape: ((input: GroupInput) => Float64Array | Refusal) | null;
  readonly score: (input: GroupInput) => GroupScore | Refusal;
  readonly finish: ((members: readonly FrozenMember[]) => BatchScore) | null;
};

/** The plain policy-gradient streams. */
export const RL_STREAMS: Streams = { rl: 1, ce: 0, refKl: 0 };

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value;
}
