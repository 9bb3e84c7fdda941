/**
 * What a group in `scoring` still lacks, from facts alone: rewards that come from comparing its members, and teacher scores of sampled nodes. Pure. What was appended once is in
 * the facts of every fold, so a feed that is folded anew owes nothing that was ever given.
 */
import { hash } from 'node:crypto';
import { uuidV8 } from '../../base/uuid.ts';
import { BRADLEY_TERRY_VERSION } from '../algorithms/group-rewards/bradley-terry.ts';
import { CONCISENESS_VERSION } from '../algorithms/group-rewards/conciseness.ts';
import type { GroupRewardSpec } from '../algorithms/group-rewards/group-reward-spec.ts';
import { WIN_RATE_VERSION } from '../algorithms/group-rewards/win-rate.ts';
import { sorted, type ResolvedEnv } from '../algorithms/spec.ts';
import type { GroupFacts } from '../groups/group-facts.ts';
import { tracesOf, type MemberName, type Owed } from '../groups/group-judge.ts';
import { latest, leavesOf, openAttempts } from '../groups/member-trace.ts';
import { endOf, HAS_COLUMN, referenceKey, type NodeFact, type RolloutFacts, type TraceFacts } from '../groups/rollout-facts.ts';

export const REDUCER_VERSIONS: Readonly<Record<GroupRewardSpec['kind'], number>> = {
  pairwise: WIN_RATE_VERSION,
  ranking: BRADLEY_TERRY_VERSION,
  conciseness: CONCISENESS_VERSION,
};

/** A trace with the id that the event with its reward has: a function of what is compared, how, and by which version. */
export type ComparedTrace = MemberName & { readonly facts: TraceFacts; readonly eventId: string };
export type RewardTask = { readonly spec: GroupRewardSpec; readonly version: number; readonly traces: readonly ComparedTrace[] };

/** Paths (root first) that a teacher must read to score all sampled nodes of a trace that have no score yet. */
export type ReferenceTask = {
  readonly rollout: RolloutFacts;
  readonly trace: TraceFacts;
  readonly paths: readonly (readonly NodeFact[])[];
};

/** The first comparison that is not made yet (they are made in order), and all teacher scores. */
export type GroupDebts = { readonly reward: RewardTask | null; readonly references: readonly ReferenceTask[] };

export type OwedContext = {
  readonly project: string;
  readonly env: ResolvedEnv | null;
  /** Source of the reference scores that count. */
  readonly teacher: string | null;
  readonly maxRowTokens: number;
  readonly dropsOverLength: boolean;
};

const NO_DEBTS: GroupDebts = { reward: null, references: [] };

export function debtsOf(group: GroupFacts, members: readonly RolloutFacts[], context: OwedContext): GroupDebts {
  const { env } = context;
  if (env === null) return NO_DEBTS;
  const specs = env.spec.groupRewards ?? [];
  if (specs.length === 0 && !env.algorithm.needsReference) return NO_DEBTS;
  const traces = tracesOf(members).flatMap((name) => trainableTrace(name) ?? []);
  return {
    reward: firstDue(specs, group, traces, context),
    references: env.algorithm.needsReference ? traces.flatMap((name) => referenceTask(name, env, context) ?? []) : [],
  };
}

/** For people. */
export function sayDebts({ reward, references }: GroupDebts, teacher: string | null): Owed {
  return {
    rewards: reward === null ? [] : [`group reward ${reward.spec.name} (${reward.spec.kind}) of ${reward.traces.length} traces`],
    references: references.length === 0 ? [] : [`log-probabilities of ${references.length} traces by ${teacher ?? 'a teacher'}`],
  };
}

type Named = MemberName & { readonly facts: TraceFacts };

/** A trace that may be trained: it ended well, its agent is trainable, and something in it was sampled. */
function trainableTrace({ rollout, trace }: MemberName): Named | null {
  const facts = rollout.traces.get(trace);
  if (facts === undefined || endOf(rollout)?.kind !== 'ended' || endOf(rollout)?.ok === false) return null;
  if (latest(facts.ends, 'ok')?.ok === false || latest(facts.starts, 'trainable')?.trainable === false) return null;
  return [...facts.nodes.values()].some(({ sampled }) => sampled) ? { rollout, trace, facts } : null;
}

function firstDue(specs: readonly GroupRewardSpec[], group: GroupFacts, traces: readonly Named[], context: OwedContext): RewardTask | null {
  for (const spec of specs) {
    const compared = traces.filter(({ facts }) => spec.agent === null || latest(facts.starts, 'agent')?.agent === spec.agent);
    const version = REDUCER_VERSIONS[spec.kind];
    const names = compared.map(({ rollout, trace }) => [rollout.rollout, trace]);
    const { run, group: name, solo } = group.name;
    const of = JSON.stringify([context.project, run, name, solo, 'group-reward', version, sorted(spec), names]);
    const withIds = compared.map((each) => ({ ...each, eventId: uuidV8(hash('sha256', `${each.trace}\n${of}`, 'buffer')) }));
    const isThere = (each: ComparedTrace): boolean => each.rollout.rewards.some(({ id }) => id === each.eventId);
    if (!withIds.every(isThere)) return { spec, version, traces: withIds };
  }
  return null;
}

function referenceTask({ rollout, trace, facts }: Named, env: ResolvedEnv, context: OwedContext): ReferenceTask | null {
  const { teacher } = context;
  if (teacher === null || (env.algorithm.needsDemonstration && rollout.start?.demonstration === null)) return null;
  if (env.spec.truncated !== 'train' && latest(facts.ends, 'truncated')?.truncated === true) return null;
  const attempts = openAttempts(rollout, trace);
  const leaves = leavesOf(facts).filter((leaf) => !attempts.has(leaf));
  const covered = new Set<number>();
  const paths: NodeFact[][] = [];
  for (const leaf of env.spec.branches === 'all' ? leaves : leaves.slice(-1)) {
    const path = pathTo(facts, leaf);
    if (path === null || (context.dropsOverLength && tokensOf(path) > context.maxRowTokens)) continue;
    const due = path.filter((node) => !covered.has(node.index) && isUnscored(node, facts, env, teacher));
    if (due.length === 0) continue;
    for (const { index } of due) covered.add(index);
    paths.push(path);
  }
  return paths.length === 0 ? null : { rollout, trace: facts, paths };
}

function isUnscored(node: NodeFact, trace: TraceFacts, env: ResolvedEnv, teacher: string): boolean {
  if (!node.sampled || node.tokens === null || node.tokens.masked === 0 || (node.partial && env.spec.partial === 'context')) return false;
  const own = ((node.tokens.at?.columns ?? 0) & HAS_COLUMN.reference) !== 0;
  return !own && !trace.references.has(referenceKey(node.index, teacher));
}

/** Nodes from the root to `leaf`; null where one has no tokens at hand: such a path gives no row. */
export function pathTo(trace: TraceFacts, leaf: number): NodeFact[] | null {
  const path: NodeFact[] = [];
  for (let at: number | null = leaf; at !== null;) {
    const node = trace.nodes.get(at);
    if (node === undefined || node.tokens === null || node.tokens.at === null) return null;
    path.push(node);
    at = node.parent !== null && node.parent < at ? node.parent : null;
  }
  return path.reverse();
}

function tokensOf(path: readonly NodeFact[]): number {
  return path.reduce((total, { tokens }) => total + (tokens?.length ?? 0), 0);
}
