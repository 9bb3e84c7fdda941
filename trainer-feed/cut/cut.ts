/**
 * A batch from ready groups, as one pure function (steps 2 to 12 of a cut): the same spec, groups and context give the same rows, numbers and id, in whatever order the groups
 * are passed.
 */
import { isRefusal } from '../algorithms/algorithm.ts';
import type { ResolvedSpec } from '../algorithms/spec.ts';
import type { ReadyGroup } from '../groups/ready-group.ts';
import { creditOf } from './credit.ts';
import type { Exclusion } from './exclusion.ts';
import { freezeGroup, type FrozenGroup } from './freeze.ts';
import { batchIdOf, excludedDigestOf } from './identity.ts';
import { exclusionOf } from './members.ts';
import { materialise, rowBytes } from './materialise.ts';
import { planRows, type RowPlan } from './plan-rows.ts';
import { prepareGroup, type PreparedGroup } from './prepare-group.ts';
import { reductionFactors } from './reduction.ts';
import type { Row } from './row.ts';
import { createSlab } from './slab.ts';
import { batchStatistics, type BatchStatistics } from './statistics.ts';
import type { BaselineStep } from './running-baseline.ts';

/** What a batch depends on besides its groups. */
export type CutContext = {
  readonly feed: string;
  readonly n: number;
  readonly previousId: string | null;
  readonly specHash: string;
  /** Newest published version at the cut; null if none is known. */
  readonly policyVersion: number | null;
  readonly sourcePositions: readonly (readonly [partition: number, offset: number])[];
  /** Running baselines before the oldest group, by `baselineKey`; groups that carry recorded ones do not read it. */
  readonly raeState: ReadonlyMap<string, number>;
};

/** What became of a group in this cut. `rows` ship. */
export type GroupOutcome = {
  readonly group: string;
  readonly env: string;
  readonly readyAt: number;
  readonly members: number;
  readonly rewardMean: number | null;
  readonly rewardStd: number | null;
  readonly rows: number;
  readonly outcome: 'cut' | 'dropped' | 'failed';
  readonly reason: string | null;
  readonly message: string | null;
};

/** `nRl`, `nCe`, `nRefKl` are the denominators of the loss: tokens of the whole batch in each component, at least 1. */
export type CutCounts = {
  readonly rows: number;
  readonly groups: number;
  readonly rollouts: number;
  readonly traces: number;
  readonly tokens: number;
  readonly nRl: number;
  readonly nCe: number;
  readonly nRefKl: number;
};

/** All decisions of a cut; rows are still to be written. */
export type Decision = {
  readonly plans: readonly RowPlan[];
  /** The reduction's factor of each plan, float64. */
  readonly factors: Float64Array;
  readonly excluded: readonly Exclusion[];
  readonly groups: readonly GroupOutcome[];
  readonly counts: CutCounts;
  readonly statistics: BatchStatistics;
  readonly raeUpdates: readonly BaselineStep[];
};

export type Cut = Omit<Decision, 'plans' | 'factors'> & {
  readonly rows: readonly Row[];
  readonly excludedDigest: string;
  readonly batchId: string;
};

/** Cuts batch `context.n` of all `groups`, oldest ready first. No rows is a possible result: `counts.rows` says so. */
export function cut(resolved: ResolvedSpec, groups: readonly ReadyGroup[], context: CutContext): Cut {
  const state = new Map(context.raeState);
  const prepared = inOrder(groups).map((group) => prepareGroup(resolved, group, state));
  return cutPrepared(resolved, prepared, context);
}

/** The same of groups that were prepared before. */
export function cutPrepared(resolved: ResolvedSpec, prepared: readonly PreparedGroup[], context: CutContext): Cut {
  const { plans, factors, ...decision } = decide(resolved, prepared, context.n);
  const slab = createSlab(plans.reduce((total, plan) => total + rowBytes(plan.row), 0));
  const rows = plans.map((plan, i) => materialise(plan, factors[i] as number, slab));
  const excludedDigest = excludedDigestOf(decision.excluded);
  const { nRl, nCe, nRefKl } = decision.counts;
  const batchId = batchIdOf({
    previousId: context.previousId,
    feed: context.feed,
    n: context.n,
    specHash: context.specHash,
    rows,
    denominators: { rl: nRl, ce: nCe, refKl: nRefKl },
    groups: decision.groups.filter((g) => g.rows > 0).map((g) => g.group),
    excludedDigest,
    sourcePositions: context.sourcePositions.toSorted(([a], [b]) => a - b),
    policyVersion: context.policyVersion,
  });
  return { ...decision, rows, excludedDigest, batchId };
}

/** Steps 6 to 11: everything but the arrays. */
export function decide(resolved: ResolvedSpec, prepared: readonly PreparedGroup[], n: number): Decision {
  const frozen = inOrder(prepared).map((group) => freezeGroup(resolved, group, n));
  const credits = creditOf(frozen);
  const failures = new Map(credits.failures.map((f) => [f.group, f]));
  const plans: RowPlan[] = [];
  const excluded: Exclusion[] = [];
  const groups: GroupOutcome[] = [];
  for (const group of frozen) {
    for (const one of group.prepared.excluded) excluded.push(one);
    for (const one of group.excluded) excluded.push(one);
    const failure = failures.get(group);
    const planned =
      failure === undefined
        ? planRows(group, credits.of, resolved.spec.dropZeroAdvantage)
        : { refused: failure.reason, message: failure.message };
    if (isRefusal(planned)) {
      excluded.push(...failedTraces(group, planned.refused, planned.message));
      groups.push(outcomeOf(group, 0, { outcome: 'failed', reason: planned.refused, message: planned.message }));
      continue;
    }
    for (const plan of planned.plans) plans.push(plan);
    for (const one of planned.excluded) excluded.push(one);
    groups.push(outcomeOf(group, planned.plans.length, null));
  }
  const factors = reductionFactors(
    resolved.reduction,
    plans.map((plan) => ({ trace: plan.row.member, group: plan.group, tokens: plan.members.rl })),
  );
  return {
    plans,
    factors,
    excluded,
    groups,
    counts: countsOf(plans),
    statistics: batchStatistics(plans, n, credits.statistics, resolved.reduction),
    raeUpdates: frozen.flatMap((group) => group.prepared.baselineSteps),
  };
}

/** Oldest ready first; ids decide between groups that became ready at one place. */
function inOrder<G extends { readonly readyAt: number; readonly group: string }>(groups: readonly G[]): readonly G[] {
  return groups.toSorted((a, b) => a.readyAt - b.readyAt || (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
}

function failedTraces(group: FrozenGroup, reason: string, message: string): Exclusion[] {
  return group.prepared.members
    .filter((_, i) => (group.members[i]?.length ?? 0) > 0)
    .map((member) => exclusionOf(member.trace, reason, member.nodes.totalTokens, { message }));
}

function outcomeOf(
  { prepared }: FrozenGroup,
  rows: number,
  failed: Pick<GroupOutcome, 'outcome' | 'reason' | 'message'> | null,
): GroupOutcome {
  const { verdict } = prepared;
  const became =
    failed ??
    (verdict.outcome === 'ready'
      ? { outcome: 'cut' as const, reason: null, message: null }
      : { outcome: verdict.outcome, reason: verdict.reason, message: verdict.outcome === 'failed' ? verdict.message : null });
  return {
    group: prepared.group,
    env: prepared.env,
    readyAt: prepared.readyAt,
    members: prepared.members.length,
    rewardMean: prepared.rewardMean,
    rewardStd: prepared.rewardStd,
    rows,
    ...became,
  };
}

function countsOf(plans: readonly RowPlan[]): CutCounts {
  const total = (of: (plan: RowPlan) => number): number => plans.reduce((all, plan) => all + of(plan), 0);
  return {
    rows: plans.length,
    groups: new Set(plans.map((p) => p.group)).size,
    rollouts: new Set(plans.map((p) => JSON.stringify([p.row.member.trace.run, p.row.member.trace.rollout]))).size,
    traces: new Set(plans.map((p) => p.row.member)).size,
    tokens: total((p) => p.row.draft.length),
    nRl: Math.max(
      1,
      total((p) => p.members.rl),
    ),
    nCe: Math.max(
      1,
      total((p) => p.members.ce),
    ),
    nRefKl: Math.max(
      1,
      total((p) => p.members.refKl),
    ),
  };
}
