/**
 * What a feed has decided: the state that its own topic folds into, in log order, and nothing else. It never looks at rollouts or clocks, so that every reader of the log
 * comes to the same state. Memory: groups until they are trained and out of reach of an ordinary rewind; one short link per batch for ever.
 */
import type { BlobHandle } from '../../events/fields.ts';
import { DigestSet } from '../groups/digest-set.ts';
import type { GroupState } from '../groups/group-states.ts';
import type { GroupName } from '../groups/keys.ts';
import type { Foreign } from '../groups/member-trace.ts';

export type MemberKey = { readonly rollout: string; readonly trace: string };

/** `rollouts` are rollout keys; `time` of the event, microseconds; `limits`: how much of each partition was known then. */
export type SealedRecord = {
  readonly reason: string;
  readonly time: number;
  readonly rollouts: ReadonlySet<string>;
  readonly limits: readonly number[];
};

/** `offset` of group.ready names the group in batch.cut and orders readiness; `limits`: how much of each partition counts. */
export type ReadyRecord = {
  readonly offset: number;
  readonly reason: string;
  readonly time: number;
  /** `rollout` is the rollout's key. */
  readonly members: readonly MemberKey[];
  readonly rollouts: ReadonlySet<string>;
  readonly limits: readonly number[];
  readonly baselines: readonly number[] | null;
};

export type GroupRecord = {
  readonly key: string;
  readonly name: GroupName;
  state: Extract<GroupState, 'sealed' | 'ready' | 'cut'>;
  sealed: SealedRecord | null;
  ready: ReadyRecord | null;
  /** Numbers of the live batches that hold it. */
  readonly cuts: number[];
  /** Where it stands in the pool: the offset of its ready decision, later that of the last cut that took it. */
  order: number;
};

/** One batch of the chain: enough to check a checkpoint and to find the whole decision in the log. `forgotten`: groups that only it held are let go. */
export type ChainLink = {
  readonly n: number;
  readonly batchId: string;
  readonly timeline: number;
  readonly offset: number;
  forgotten: boolean;
};

/** A batch that was cut lately. `groups`: offsets of ready decisions, in order. */
export type BatchRecord = Omit<ChainLink, 'forgotten'> & {
  readonly previous: string | null;
  readonly time: number;
  readonly groups: readonly number[];
  readonly policyVersion: number | null;
  readonly positions: readonly number[];
  readonly algorithm: string;
  readonly rows: BlobHandle | null;
  readonly excluded: BlobHandle | null;
  readonly counts: BatchCounts;
  readonly statistics: Readonly<Record<string, unknown>>;
};

/** Sums that stand in batch.cut; `left` by reason of exclusion. */
export type BatchCounts = {
  readonly rows: number;
  readonly rollouts: number;
  readonly groups: number;
  readonly tokens: number;
  readonly longestRow: number;
  readonly N_rl: number;
  readonly N_ce: number;
  readonly N_ref_kl: number;
  readonly left: Readonly<Record<string, { readonly rows: number; readonly tokens: number }>>;
  /** Left-out rows by power of two of their length: index i counts lengths below 2^i. */
  readonly leftByLength: readonly number[];
};

export type Plan = { readonly world: number; readonly maxTokens: number; readonly padToMultiple: number } & Readonly<
  Record<string, unknown>
>;

/** `token` is the fencing token: the offset of the lease event that began the tenancy. Times in microseconds. */
export type Lease = {
  readonly token: number;
  readonly holder: string;
  readonly n: number;
  readonly batchId: string;
  readonly planId: string;
  readonly plan: Plan | null;
  readonly since: number;
  readonly expires: number;
  /** Event that wrote it last: sent twice, it counts once. */
  readonly event: string;
};

export type Checkpoint = {
  readonly n: number;
  readonly batchId: string;
  readonly timeline: number;
  readonly uri: string | null;
  readonly time: number;
};

export type Totals = {
  /** Rollouts and tokens that were never in a batch, by reason. */
  readonly dropped: Map<string, { rollouts: number; tokens: number }>;
  /** What batches left out and what was dropped, by power of two of the length. */
  readonly byLength: number[];
  /** Groups given up, by reason. */
  readonly failedGroups: Map<string, number>;
  trainedRows: number;
  trainedTokens: number;
};

export type DecisionState = {
  readonly feed: string;
  readonly project: string;
  readonly spec: unknown;
  readonly specHash: string;
  readonly created: number;
  readonly start: readonly number[];
  /** How often a group may be trained. */
  readonly maxTimesTrained: number;
  /** Batches this far below the last commit are forgotten, but for their link. */
  readonly keepBatches: number;
  /** How far batches may be cut beyond the last commit. */
  readonly cutAhead: number;
  deleted: boolean;
  timeline: number;
  committed: number;
  /** The live chain; index n - 1. */
  readonly chain: ChainLink[];
  /** By n: those not forgotten. */
  readonly batches: Map<number, BatchRecord>;
  /** After a rewind with replay: what is to be cut again, in order. */
  replay: ChainLink[];
  lease: Lease | null;
  checkpoints: Checkpoint[];
  readonly groups: Map<string, GroupRecord>;
  /** Offset of group.ready -> key of the group. */
  readonly readyAt: Map<number, string>;
  /** Groups the feed is done with. */
  readonly gone: DigestSet;
  /** Rollouts that no longer matter: their group is gone, or they were dropped. */
  readonly closed: DigestSet;
  readonly foreign: Foreign[];
  /** Every rewind, oldest first: the timeline it began, and the batch it went back to. */
  readonly rewinds: { readonly timeline: number; readonly to: number }[];
  /** Running baselines, by JSON text of [env, agent]. */
  readonly baselines: Map<string, number>;
  readonly totals: Totals;
};

export type FeedIdentity = Pick<
  DecisionState,
  'feed' | 'project' | 'spec' | 'specHash' | 'created' | 'start' | 'maxTimesTrained' | 'keepBatches' | 'cutAhead'
>;

export function newDecisions(identity: FeedIdentity): DecisionState {
  return {
    ...identity,
    deleted: false,
    timeline: 0,
    committed: 0,
    chain: [],
    batches: new Map(),
    replay: [],
    lease: null,
    checkpoints: [],
    groups: new Map(),
    readyAt: new Map(),
    gone: new DigestSet(),
    closed: new DigestSet(),
    foreign: [],
    rewinds: [],
    baselines: new Map(),
    totals: { dropped: new Map(), byLength: [], failedGroups: new Map(), trainedRows: 0, trainedTokens: 0 },
  };
}

/** The groups a batch may take, oldest first. */
export function poolOf(state: DecisionState): GroupRecord[] {
  const pool: GroupRecord[] = [];
  for (const group of state.groups.values()) if (isPooled(state, group)) pool.push(group);
  return pool.toSorted((a, b) => a.order - b.order);
}

/** Ready and not used up. */
export function isPooled(state: Pick<DecisionState, 'maxTimesTrained'>, group: GroupRecord): boolean {
  return group.ready !== null && group.cuts.length < state.maxTimesTrained;
}

/** Number of the last batch that is cut. */
export function lastCut(state: DecisionState): number {
  return state.chain.length;
}

/** The batch by number, live timeline; undefined when it is not cut. */
export function linkOf(state: DecisionState, n: number): ChainLink | undefined {
  return state.chain[n - 1];
}

/** Batches at or below this number are forgotten but for their link. */
export function forgottenUpTo(state: DecisionState): number {
  return Math.max(0, state.committed - state.keepBatches);
}

/** Batches whose rows may still be asked for, those first that will be asked for next. */
export function batchesInUse(state: DecisionState, keepCheckpoints: number): ChainLink[] {
  const { chain, committed, checkpoints, replay } = state;
  const resumable = checkpoints.slice(-keepCheckpoints)[0]?.n ?? committed;
  const from = Math.min(forgottenUpTo(state), resumable);
  return [...chain.slice(committed), ...replay, ...chain.slice(from, committed).toReversed()];
}
