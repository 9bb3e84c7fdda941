/**
 * Which loss components train which tokens of the frozen batch (step 10): routing of the algorithm, tokens without credit, and what echo learns from the environment. A row
 * left without a token in any component is not shipped.
 */
import { isRefusal, type Refusal } from '../algorithms/algorithm.ts';
import type { ResolvedEnv } from '../algorithms/spec.ts';
import type { TokenFilter } from '../algorithms/token-filter.ts';
import type { MemberTrace } from '../groups/ready-group.ts';
import { creditedTokens, type Credit } from './credit.ts';
import type { Exclusion } from './exclusion.ts';
import type { FrozenDraft, FrozenGroup } from './freeze.ts';
import { exclusionOf } from './members.ts';
import type { MemberCounts } from './row.ts';
import type { NodeFacts } from './trace-nodes.ts';

/** Tokens of a node of the path that cross-entropy learns though nobody sampled them. `keep`: 1 = learn, one per token; null = all. */
export type Observed = { readonly node: number; readonly weight: number; readonly keep: Uint8Array | null };

/** All that is decided about a row; only its arrays are still to be written. */
export type RowPlan = {
  readonly row: FrozenDraft;
  readonly group: FrozenGroup;
  readonly credit: Credit;
  readonly members: MemberCounts;
  readonly observed: readonly Observed[];
  readonly dropsZero: boolean;
};

export type PlannedGroup = { readonly plans: readonly RowPlan[]; readonly excluded: readonly Exclusion[] };

/** The rows of `group` that ship, in order of member and leaf; a refusal fails the group. */
export function planRows(group: FrozenGroup, credits: ReadonlyMap<FrozenDraft, Credit>, dropsZero: boolean): PlannedGroup | Refusal {
  const plans: RowPlan[] = [];
  const excluded: Exclusion[] = [];
  for (const rows of group.members) {
    const learned = new Set<NodeFacts>();
    for (const row of rows) {
      const credit = credits.get(row) ?? null;
      const observed = observe(row, learned);
      if (isRefusal(observed)) return observed;
      const members = countMembers(row, credit, observed, dropsZero);
      if (members.rl + members.ce + members.refKl > 0) plans.push({ row, group, credit, members, observed, dropsZero });
      else
        excluded.push(
          exclusionOf(row.member.trace, row.member.muted ? 'overlong_filtered' : 'zero_advantage', row.draft.length, {
            leaf: row.draft.leaf,
            staleness: row.staleness,
          }),
        );
    }
  }
  return { plans, excluded };
}

function countMembers(row: FrozenDraft, credit: Credit, observed: readonly Observed[], dropsZero: boolean): MemberCounts {
  const { rl, ce, refKl } = row.env.algorithm.streams;
  const credited = dropsZero ? creditedTokens(row, credit) : row.tokens;
  const seen = observed.reduce((total, o) => total + observedTokens(row, o), 0);
  return {
    rl: rl === 0 || row.member.muted ? 0 : credited,
    ce: (ce === 0 ? 0 : row.tokens) + seen,
    refKl: refKl === 0 ? 0 : row.tokens,
  };
}

function observedTokens({ draft }: FrozenDraft, { node, keep }: Observed): number {
  const length = node === draft.path.length - 1 ? draft.lastKeep : (draft.path[node] as NodeFacts).length;
  if (keep === null) return length;
  let count = 0;
  for (let i = 0; i < length; i++) count += keep[i] as number;
  return count;
}

/** Nodes of learned roles after the first sampled node, each in the first row that holds it. */
function observe(row: FrozenDraft, learned: Set<NodeFacts>): readonly Observed[] | Refusal {
  const observations = row.env.algorithm.streams.observations;
  if (observations === undefined) return [];
  const found: Observed[] = [];
  const { path } = row.draft;
  const first = path.findIndex((node) => node.tokens.sampled);
  for (const [i, node] of path.entries()) {
    const weight = observations.roles[node.tokens.role];
    if (i <= first || node.tokens.sampled || weight === undefined || node.length === 0 || learned.has(node)) continue;
    const keep = keepOf(row.env, node, row.member.trace);
    if (isRefusal(keep)) return keep;
    learned.add(node);
    const one: Observed = { node: i, weight, keep: keep.mask };
    if (observedTokens(row, one) > 0) found.push(one);
  }
  return found;
}

/** Message body only, where it is known, narrowed by the spec's token filter. */
function keepOf(env: ResolvedEnv, node: NodeFacts, trace: MemberTrace): { readonly mask: Uint8Array | null } | Refusal {
  const content = node.tokens.isContent;
  if (env.tokenFilter === null) return { mask: content };
  const chosen = runFilter(env.tokenFilter, node, trace);
  if (chosen === null || isRefusal(chosen)) return chosen ?? { mask: content };
  return { mask: chosen.map((keep, i) => (keep !== 0 && (content === null || content[i] === 1) ? 1 : 0)) };
}

function runFilter(filter: TokenFilter, node: NodeFacts, trace: MemberTrace): Uint8Array | null | Refusal {
  try {
    const keep = filter.keep(node.tokens, trace);
    if (keep === null || (keep instanceof Uint8Array && keep.length === node.length)) return keep;
    return { refused: 'algorithm_output', message: `token filter ${filter.name} must give null or a Uint8Array of ${node.length} entries` };
  } catch (error) {
    return { refused: 'algorithm_threw', message: `token filter ${filter.name} threw: ${String(error)}` };
  }
}
