/**
 * The rows a trace could give, before anything that depends on the batch: one per leaf, filtered and cut to length (step 5). A row is its path of nodes; of the last
 * node only the first `lastKeep` tokens ship.
 */
import type { ResolvedEnv, CutSpec } from '../algorithms/spec.ts';
import type { MemberTrace } from '../groups/ready-group.ts';
import type { Exclusion } from './exclusion.ts';
import { exclusionOf, type FoundMember } from './members.ts';
import { ones, type NodeFacts } from './trace-nodes.ts';

export type DraftRow = {
  readonly leaf: number;
  readonly path: readonly NodeFacts[];
  readonly lastKeep: number;
  readonly length: number;
  readonly multimodal: boolean;
  /** Oldest and newest version of the sampled tokens that ship; null for a frozen source or when nothing is known. */
  readonly minVersion: number | null;
  readonly maxVersion: number | null;
  /** Of the sampled tokens that ship; `varies` if they differ; null if it is not known of all. */
  readonly temperature: number | 'varies' | null;
};

export type DraftRows = { readonly rows: readonly DraftRow[]; readonly excluded: readonly Exclusion[]; readonly overLength: number | null };

/** Rows of one member by ascending leaf. `overLength` is the length of a row that the spec lets fail its group for. */
export function draftRows(found: FoundMember, env: ResolvedEnv, spec: CutSpec, placeholders: ReadonlySet<number>): DraftRows {
  const { trace } = found;
  const rows: DraftRow[] = [];
  const excluded: Exclusion[] = [];
  let overLength: number | null = null;
  const leaves = trainableLeaves(trace, env, excluded);
  for (const leaf of leaves) {
    const path = pathTo(found, leaf);
    const length = path?.reduce((total, node) => total + node.length, 0) ?? null;
    const reason = path === null || length === null ? 'no_tokens' : filterReason(path, length, env, spec);
    if (path === null || length === null || reason !== null) {
      if (reason === 'row_exceeds_max_tokens') overLength ??= length;
      else excluded.push(exclusionOf(trace, reason ?? 'no_tokens', length, { leaf }));
      continue;
    }
    const end = length <= spec.maxRowTokens ? length : wholePlaceholders(path, spec.maxRowTokens, placeholders);
    const kept = keepFirst(path, end);
    if (kept === null) excluded.push(exclusionOf(trace, 'over_length', length, { leaf }));
    else
      rows.push({
        leaf,
        ...kept,
        length: end,
        multimodal: kept.path.some((n) => n.multimodal),
        ...versionsOf(kept.path, kept.lastKeep, trace, env),
        temperature: temperatureOf(kept.path, trace),
      });
  }
  return { rows, excluded, overLength };
}

function trainableLeaves(trace: MemberTrace, env: ResolvedEnv, excluded: Exclusion[]): readonly number[] {
  const attempted = trace.leaves.filter((leaf) => trace.compactionAttempts.has(leaf));
  for (const leaf of attempted) excluded.push(exclusionOf(trace, 'compaction_attempt', null, { leaf }));
  const leaves = trace.leaves.filter((leaf) => !trace.compactionAttempts.has(leaf)).toSorted((a, b) => a - b);
  if (env.spec.branches === 'all' || leaves.length < 2) return leaves;
  for (const leaf of leaves.slice(0, -1)) excluded.push(exclusionOf(trace, 'not_final', null, { leaf }));
  return leaves.slice(-1);
}

/** Nodes from the root to `leaf`; null if one of them has no tokens. */
function pathTo(found: FoundMember, leaf: number): NodeFacts[] | null {
  const path: NodeFacts[] = [];
  for (let at: number | null = leaf; at !== null;) {
    const node = found.nodes.byIndex.get(at);
    if (node === undefined) return null;
    path.push(node);
    const parent: number | null = node.tokens.parent;
    at = parent !== null && parent < at ? parent : null;
  }
  return path.reverse();
}

function filterReason(path: readonly NodeFacts[], length: number, env: ResolvedEnv, spec: CutSpec): string | null {
  const { minTokens, maxTokens, minSampledTokens } = env.spec.rows;
  if (minTokens !== null && length < minTokens) return 'too_short';
  if (maxTokens !== null && length > maxTokens) return 'too_long';
  const sampled = path.reduce((total, node) => total + node.sampled, 0);
  if (minSampledTokens !== null && sampled < minSampledTokens) return 'too_short';
  if (sampled === 0) return 'nothing_to_train';
  if (length > spec.maxRowTokens && spec.overLength === 'error') return 'row_exceeds_max_tokens';
  if (length > spec.maxRowTokens && spec.overLength === 'drop') return 'over_length';
  if (env.algorithm.needsReference && path.some((n) => n.sampled > 0 && n.tokens.referenceLogprobs === null)) return 'missing_reference';
  return null;
}

/** The largest cut of at most `limit` tokens that splits no run of placeholder ids. */
function wholePlaceholders(path: readonly NodeFacts[], limit: number, placeholders: ReadonlySet<number>): number {
  if (placeholders.size === 0) return limit;
  const at = (position: number): number | undefined => {
    let offset = 0;
    for (const node of path) {
      if (position < offset + node.length) return node.tokens.ids[position - offset];
      offset += node.length;
    }
    return undefined;
  };
  const id = at(limit);
  let end = limit;
  if (id !== undefined && placeholders.has(id)) while (end > 0 && at(end - 1) === id) end--;
  return end;
}

/** The first `end` tokens of a path; null if that is nothing. */
function keepFirst(path: readonly NodeFacts[], end: number): { path: NodeFacts[]; lastKeep: number } | null {
  if (end === 0) return null;
  const kept: NodeFacts[] = [];
  let left = end;
  for (const node of path) {
    if (left === 0 && node.length > 0) break;
    kept.push(node);
    if (node.length > left) return { path: kept, lastKeep: left };
    left -= node.length;
  }
  return { path: kept, lastKeep: kept.at(-1)?.length ?? 0 };
}

/** Sampled tokens among the first `keep` of a node. */
export function sampledIn(node: NodeFacts, keep: number): number {
  return node.sampled === 0 || keep === node.length ? node.sampled : ones(node.tokens.mask, keep);
}

function versionsOf(
  path: readonly NodeFacts[],
  lastKeep: number,
  trace: MemberTrace,
  env: ResolvedEnv,
): { readonly minVersion: number | null; readonly maxVersion: number | null } {
  if (env.spec.source !== 'policy') return { minVersion: null, maxVersion: null };
  let min: number | null = null;
  let max: number | null = null;
  for (const [i, node] of path.entries()) {
    const keep = i === path.length - 1 ? lastKeep : node.length;
    const sampled = sampledIn(node, keep);
    if (sampled === 0) continue;
    const [low, high] = nodeVersions(node, sampled, trace);
    if (low !== null) min = min === null ? low : Math.min(min, low);
    if (high !== null) max = max === null ? high : Math.max(max, high);
  }
  return { minVersion: min, maxVersion: max };
}

/** Versions of the first `sampled` sampled tokens of a node; those of the trace's calls where the node has none. */
function nodeVersions(node: NodeFacts, sampled: number, trace: MemberTrace): readonly [number | null, number | null] {
  if (node.minVersion === null) return [trace.policyStart, trace.policyEnd];
  const runs = node.tokens.policyRuns;
  if (sampled === node.sampled || runs === null) return [node.minVersion, node.maxVersion];
  let left = sampled;
  const within: number[] = [];
  for (const run of runs) {
    if (left <= 0) break;
    within.push(run.version);
    left -= run.length;
  }
  return [Math.min(...within), Math.max(...within)];
}

function temperatureOf(path: readonly NodeFacts[], trace: MemberTrace): number | 'varies' | null {
  let found: number | null | undefined;
  let varies = false;
  for (const node of path) {
    if (node.sampled === 0) continue;
    const temperature = nodeTemperature(node, trace);
    if (temperature === null) return null;
    varies ||= found !== undefined && found !== temperature;
    found = temperature;
  }
  return varies ? 'varies' : (found ?? null);
}

/** The temperature a node was sampled at: its own, else the trace's. */
export function nodeTemperature(node: NodeFacts, trace: MemberTrace): number | null {
  return node.tokens.temperature ?? trace.temperature;
}
