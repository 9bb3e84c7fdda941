/** What the manifest says about a batch besides its rows: statistics behind batch-scope advantages, age, and conventions that trainers should know to be mixed. */
import type { Reduction } from '../algorithms/algorithm.ts';
import { deviation, mean } from '../algorithms/arithmetic.ts';
import { stalenessParts } from './staleness.ts';
import type { PopulationStatistics } from './credit.ts';
import type { RowPlan } from './plan-rows.ts';

export type BatchStatistics = {
  readonly reduction: Reduction;
  readonly populations: readonly PopulationStatistics[];
  /** Over traces that ship and have a reward. */
  readonly rewardMean: number | null;
  readonly rewardStd: number | null;
  /** Rows by staleness, ascending; rows without a version are under `versionless`. */
  readonly staleness: readonly (readonly [staleness: number, rows: number])[];
  readonly versionless: number;
  /** Over traces with versions at their calls, in optimizer steps; null without any. */
  readonly meanInFlight: number | null;
  readonly meanInQueue: number | null;
  /** Rows by convention of their log-probabilities. More than one above 0: the batch mixes them. */
  readonly logprobsModes: { readonly raw: number; readonly processed: number; readonly unknown: number };
};

export function batchStatistics(
  plans: readonly RowPlan[],
  n: number,
  populations: readonly PopulationStatistics[],
  reduction: Reduction,
): BatchStatistics {
  const members = [...new Set(plans.map((plan) => plan.row.member))];
  const rewards = Float64Array.from(members.map((m) => m.member.reward).filter((reward) => !Number.isNaN(reward)));
  const ages = new Map<number, number>();
  const modes = { raw: 0, processed: 0, unknown: 0 };
  let versionless = 0;
  for (const { row } of plans) {
    if (row.staleness === null) versionless++;
    else ages.set(row.staleness, (ages.get(row.staleness) ?? 0) + 1);
    modes[row.member.trace.logprobsMode]++;
  }
  const parts = [...new Set(plans.filter((p) => p.row.staleness !== null).map((p) => p.row.member.trace))].flatMap(
    ({ policyStart, policyEnd }) => (policyStart === null || policyEnd === null ? [] : [stalenessParts(n, policyStart, policyEnd)]),
  );
  const average = (of: (part: { readonly inFlight: number; readonly inQueue: number }) => number): number | null =>
    parts.length === 0 ? null : mean(Float64Array.from(parts, of));
  return {
    reduction,
    populations,
    rewardMean: rewards.length === 0 ? null : mean(rewards),
    rewardStd: rewards.length === 0 ? null : deviation(rewards),
    staleness: [...ages].toSorted(([a], [b]) => a - b),
    versionless,
    meanInFlight: average((part) => part.inFlight),
    meanInQueue: average((part) => part.inQueue),
    logprobsModes: modes,
  };
}
