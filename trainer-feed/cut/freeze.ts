/**
 * Which rows are in batch n (steps 6 and 7): the staleness strategy, then the frozen membership, and which row trains a node that several share (step 9, which needs nothing
 * that comes between).
 */
import type { ResolvedEnv, ResolvedSpec } from '../algorithms/spec.ts';
import type { MemberTrace } from '../groups/ready-group.ts';
import { sampledIn, type DraftRow } from './draft-row.ts';
import type { Exclusion } from './exclusion.ts';
import { exclusionOf } from './members.ts';
import { leftOut, type PreparedGroup, type PreparedMember } from './prepare-group.ts';
import { oldestFresh, stalenessOf } from './staleness.ts';
import type { NodeFacts } from './trace-nodes.ts';

/** A row of the batch. `trains` has one entry per node of the path: whether its sampled tokens are trained in this row. */
export type FrozenDraft = {
  readonly draft: DraftRow;
  readonly member: PreparedMember;
  readonly env: ResolvedEnv;
  readonly trains: Uint8Array;
  /** Sampled tokens that are trained here. */
  readonly tokens: number;
  readonly staleness: number | null;
  /** Strategy `mask`: sampled tokens of older versions are not trained. null = none is. */
  readonly oldest: number | null;
};

export type FrozenGroup = {
  readonly prepared: PreparedGroup;
  readonly members: readonly (readonly FrozenDraft[])[];
  readonly excluded: readonly Exclusion[];
};

/** The rows of `prepared` in batch `n`. `members` is parallel to the group's members. */
export function freezeGroup(resolved: ResolvedSpec, given: PreparedGroup, n: number): FrozenGroup {
  const { maxOffPolicySteps: limit, strategy } = resolved.spec.staleness;
  const oldest = limit === null ? null : oldestFresh(n, limit);
  const prepared = given.verdict.outcome === 'ready' && strategy === 'drop' ? dropStale(given, n, oldest) : given;
  const { resolved: env } = prepared;
  if (prepared.verdict.outcome !== 'ready' || env === null) return { prepared, members: prepared.members.map(() => []), excluded: [] };
  const excluded: Exclusion[] = [];
  const members = prepared.members.map((member) => {
    const trained = new Set<NodeFacts>();
    const rows: FrozenDraft[] = [];
    for (const draft of member.rows) {
      const reason = strategy === 'withhold' || strategy === 'mask' ? staleReason(draft, member.trace, oldest, strategy) : null;
      const masked = strategy === 'mask' && oldest !== null && draft.minVersion !== null && draft.minVersion < oldest ? oldest : null;
      const { trains, tokens } = reason === null ? shareNodes(draft, trained, masked) : { trains: new Uint8Array(0), tokens: 0 };
      const staleness = stalenessOf(n, draft.minVersion);
      const out = reason ?? (tokens > 0 ? null : masked === null ? 'nothing_to_train' : 'stale');
      if (out === null) rows.push({ draft, member, env, trains, tokens, staleness, oldest: masked });
      else excluded.push(exclusionOf(member.trace, out, draft.length, { leaf: draft.leaf, staleness }));
    }
    return rows;
  });
  return { prepared, members, excluded };
}

/** Strategy `drop`: a group with a stale row is left out whole, for a part of it would be a biased sample. Each trace is listed with its own age. */
function dropStale(prepared: PreparedGroup, n: number, oldest: number | null): PreparedGroup {
  const ages = prepared.members.map((m) => m.rows.reduce<number | null>((min, row) => lower(min, row.minVersion), null));
  if (oldest === null || !ages.some((version) => version !== null && version < oldest)) return prepared;
  const listed = prepared.members.flatMap((m, i) => {
    if (m.rows.length === 0) return []; // listed already
    const version = ages[i] ?? null;
    const reason = version !== null && version < oldest ? 'stale' : 'stale_group';
    return [exclusionOf(m.trace, reason, m.nodes.totalTokens, { staleness: stalenessOf(n, version) })];
  });
  const out = leftOut(prepared, [], { outcome: 'dropped', reason: 'stale' });
  return { ...out, excluded: [...prepared.excluded, ...listed] };
}

function lower(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b);
}

function staleReason(draft: DraftRow, trace: MemberTrace, oldest: number | null, strategy: 'withhold' | 'mask'): string | null {
  if (oldest === null || draft.minVersion === null || draft.minVersion >= oldest) return null;
  if (strategy === 'withhold') return 'stale';
  const unknown = draft.path.some((node) => node.sampled > 0 && node.minVersion === null);
  const allStale = trace.policyStart !== null && trace.policyStart === trace.policyEnd && trace.policyStart < oldest;
  return unknown && !allStale ? 'versions_unknown' : null;
}

/** A sampled node is trained in the first row, by leaf, that holds it. */
function shareNodes(draft: DraftRow, trained: Set<NodeFacts>, oldest: number | null): { trains: Uint8Array; tokens: number } {
  const { path, lastKeep } = draft;
  const trains = new Uint8Array(path.length);
  let tokens = 0;
  for (const [i, node] of path.entries()) {
    if (node.sampled === 0 || trained.has(node)) continue;
    trained.add(node);
    const count = trainedIn(node, i === path.length - 1 ? lastKeep : node.length, oldest);
    if (count > 0) trains[i] = 1;
    tokens += count;
  }
  return { trains, tokens };
}

/** Sampled tokens among the first `keep` of a node whose version is at least `oldest`. Under `mask` a node without versions has one version, the trace's, which is too old. */
export function trainedIn(node: NodeFacts, keep: number, oldest: number | null): number {
  const sampled = sampledIn(node, keep);
  if (oldest === null || (node.minVersion !== null && node.minVersion >= oldest)) return sampled;
  const runs = node.tokens.policyRuns;
  if (node.maxVersion === null || node.maxVersion < oldest || runs === null) return 0;
  let fresh = 0;
  let left = sampled;
  for (const run of runs) {
    const within = Math.min(run.length, left);
    if (run.version >= oldest) fresh += within;
    left -= within;
  }
  return fresh;
}
