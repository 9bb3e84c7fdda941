/** What one ready group would bring to batch n: the numbers by which a batch is filled, and by which producers are told whether more is needed. */
import type { ResolvedSpec } from '../algorithms/spec.ts';
import { creditOf } from '../cut/credit.ts';
import { freezeGroup, type FrozenDraft } from '../cut/freeze.ts';
import { planRows } from '../cut/plan-rows.ts';
import type { PreparedGroup } from '../cut/prepare-group.ts';
import { isRefusal } from '../algorithms/algorithm.ts';

/** `rollouts`: distinct ones with a row. `minVersion`: of the oldest token that would ship. `reason`: why there is nothing. */
export type GroupYield = {
  readonly n: number;
  readonly rows: number;
  readonly rollouts: number;
  readonly tokens: number;
  readonly minVersion: number | null;
  readonly reason: string | null;
};

/** Why rows were left out, if for one reason. */
function commonReason({ excluded }: PreparedGroup): string | null {
  const reasons = new Set(excluded.map(({ reason }) => reason));
  return reasons.size === 1 ? ([...reasons][0] as string) : null;
}

/** For algorithms whose credit depends on the whole batch every row counts that is a member of it. */
export function groupYield(resolved: ResolvedSpec, prepared: PreparedGroup, n: number): GroupYield {
  const frozen = freezeGroup(resolved, prepared, n);
  const versions = prepared.members.flatMap(({ rows }) => rows.flatMap(({ minVersion }) => minVersion ?? []));
  const minVersion = versions.length === 0 ? null : Math.min(...versions);
  const nothing = (reason: string): GroupYield => ({ n, rows: 0, rollouts: 0, tokens: 0, minVersion, reason });
  const { verdict } = frozen.prepared;
  if (verdict.outcome !== 'ready' || prepared.resolved === null)
    return nothing(verdict.outcome === 'ready' ? 'env_not_in_spec' : verdict.reason);
  let rows: FrozenDraft[] = frozen.members.flat();
  if (prepared.resolved.algorithm.finish === null && rows.length > 0) {
    const credits = creditOf([frozen]);
    const [failure] = credits.failures;
    if (failure !== undefined) return nothing(failure.reason);
    const planned = planRows(frozen, credits.of, resolved.spec.dropZeroAdvantage);
    if (isRefusal(planned)) return nothing(planned.refused);
    rows = planned.plans.map(({ row }) => row);
  }
  if (rows.length === 0) return nothing(commonReason(prepared) ?? 'nothing_to_train');
  return {
    n,
    rows: rows.length,
    rollouts: new Set(rows.map(({ member }) => member.trace.rollout)).size,
    tokens: rows.reduce((sum, { draft }) => sum + draft.length, 0),
    minVersion,
    reason: null,
  };
}
