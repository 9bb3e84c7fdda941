/** How old the policy was that sampled what a step trained on, in prime-rl's parts. Pure. */
import { mean } from '../statistics/moments.ts';
import type { TrainedRow } from './trained-rows.ts';

export type Staleness = {
  /** Rows whose policy versions are known; the others (teachers, imported rows) never go stale. */
  readonly rows: number;
  readonly mean: number | null;
  readonly max: number | null;
  readonly inFlight: number | null;
  readonly inQueue: number | null;
};

/**
 * Source: prime-rl `orchestrator/utils.py`, `episode_staleness`: total = max(0, (n - 1) - start), in_flight = min(total, end - start) while the rollout was made,
 * in_queue = total - in_flight while it waited; start and end are the versions at the row's first and last call, batch n trains step n.
 */
export function stalenessOf({
  n,
  versionMin,
  versionMax,
}: Pick<TrainedRow, 'n' | 'versionMin' | 'versionMax'>): { total: number; inFlight: number; inQueue: number } | null {
  if (versionMin === null) return null;
  const total = Math.max(0, n - 1 - versionMin);
  const inFlight = Math.min(total, (versionMax ?? versionMin) - versionMin);
  return { total, inFlight, inQueue: total - inFlight };
}

export function stalenessSummary(rows: readonly TrainedRow[]): Staleness {
  const known = rows.map(stalenessOf).filter((each) => each !== null);
  return {
    rows: known.length,
    mean: mean(known.map(({ total }) => total)),
    max: known.length === 0 ? null : known.reduce((largest, { total }) => Math.max(largest, total), 0),
    inFlight: mean(known.map(({ inFlight }) => inFlight)),
    inQueue: mean(known.map(({ inQueue }) => inQueue)),
  };
}
