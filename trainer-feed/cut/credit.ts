/**
 * The advantages of the frozen batch (step 8): group-scope values as they are, batch-scope ones from the statistics of their population: all frozen members whose envs use
 * the same algorithm with equal parameters.
 */
import type { BatchScore, BoundAlgorithm, FrozenMember } from '../algorithms/algorithm.ts';
import { plainZero } from '../algorithms/arithmetic.ts';
import { sampledIn } from './draft-row.ts';
import { trainedIn, type FrozenDraft, type FrozenGroup } from './freeze.ts';
import { writeMask } from './mask.ts';

/** float32, as it ships: one number for all trained tokens of the row, or one per trained token. null = no credit. */
export type Credit = number | Float32Array | null;

/** What a population's statistics were, for the manifest. */
export type PopulationStatistics = {
  readonly algorithm: string;
  readonly version: number;
  readonly params: Readonly<Record<string, unknown>>;
  readonly statistics: Readonly<Record<string, number>>;
};

export type Failure = { readonly group: FrozenGroup; readonly reason: string; readonly message: string };
export type Credits = {
  /** By row. */
  readonly of: ReadonlyMap<FrozenDraft, Credit>;
  readonly statistics: readonly PopulationStatistics[];
  readonly failures: readonly Failure[];
};

type Entry = { readonly group: FrozenGroup; readonly rows: readonly FrozenDraft[]; readonly frozen: FrozenMember };

export function creditOf(groups: readonly FrozenGroup[]): Credits {
  const of = new Map<FrozenDraft, Credit>();
  const populations = new Map<string, { readonly algorithm: BoundAlgorithm; readonly entries: Entry[] }>();
  for (const group of groups) {
    for (const rows of group.members) {
      const [first] = rows;
      if (first === undefined) continue;
      if (first.env.algorithm.finish === null) {
        const value = first.member.value === null ? null : plainZero(Math.fround(first.member.value));
        for (const row of rows) of.set(row, value);
        continue;
      }
      const entry = { group, rows, frozen: frozenMember(group, rows) };
      const population = populations.get(first.env.population);
      if (population === undefined) populations.set(first.env.population, { algorithm: first.env.algorithm, entries: [entry] });
      else population.entries.push(entry);
    }
  }
  const statistics: PopulationStatistics[] = [];
  const failures: Failure[] = [];
  for (const { algorithm, entries } of populations.values()) finishPopulation(algorithm, entries, of, statistics, failures);
  return { of, statistics, failures };
}

function frozenMember(group: FrozenGroup, rows: readonly FrozenDraft[]): FrozenMember {
  const { member } = rows[0] as FrozenDraft;
  return {
    member: member.member,
    group: group.prepared.group,
    value: member.value ?? 0,
    reward: member.shaped,
    rows: rows.map((row) => ({ tokens: row.tokens, sampledAfter: () => sampledAfter(row) })),
  };
}

/** For each trained token of a row: how many sampled tokens of the whole branch follow, those beyond a cut to the row limit too. */
function sampledAfter(row: FrozenDraft): Uint32Array {
  const { draft, member } = row;
  const whole = branchSampled(row);
  const out = new Uint32Array(row.tokens);
  let seen = 0;
  let k = 0;
  for (const [i, node] of draft.path.entries()) {
    const keep = i === draft.path.length - 1 ? draft.lastKeep : node.length;
    const sampled = sampledIn(node, keep);
    if (row.trains[i] === 1) {
      const trained = new Uint8Array(keep);
      const all = new Uint8Array(keep);
      writeMask(trained, 0, node, keep, row.oldest);
      writeMask(all, 0, node, keep, null);
      let within = 0;
      for (let t = 0; t < keep; t++) {
        within += all[t] as number;
        if (trained[t] === 1) out[k++] = whole - seen - within;
      }
    }
    seen += sampled;
  }
  if (k !== row.tokens) throw new Error(`row ${member.trace.trace}/${draft.leaf}: ${k} trained tokens, ${row.tokens} counted`);
  return out;
}

/** Sampled tokens of the branch from its root to the leaf, whatever of it ships. */
function branchSampled({ draft, member }: FrozenDraft): number {
  let total = 0;
  for (let at: number | null = draft.leaf; at !== null;) {
    const node = member.nodes.byIndex.get(at);
    if (node === undefined) break;
    total += node.sampled;
    at = node.tokens.parent;
  }
  return total;
}

function finishPopulation(
  algorithm: BoundAlgorithm,
  entries: readonly Entry[],
  of: Map<FrozenDraft, Credit>,
  statistics: PopulationStatistics[],
  failures: Failure[],
): void {
  const finished = runFinish(algorithm, entries);
  if ('reason' in finished) {
    for (const group of new Set(entries.map((e) => e.group))) failures.push({ group, ...finished });
    return;
  }
  statistics.push({ algorithm: algorithm.name, version: algorithm.version, params: algorithm.params, statistics: finished.statistics });
  const failed = new Set<FrozenGroup>();
  for (const [i, { group, rows, frozen }] of entries.entries()) {
    for (const [k, row] of rows.entries()) {
      const credit = rounded(finished, i, k);
      if (isFiniteCredit(credit)) of.set(row, credit);
      else if (!failed.has(group)) {
        failed.add(group);
        failures.push({
          group,
          reason: 'non_finite_advantage',
          message: `${algorithm.name} gives trace ${frozen.member.trace} an advantage that is not finite in float32`,
        });
      }
    }
  }
}

function runFinish(
  algorithm: BoundAlgorithm,
  entries: readonly Entry[],
): BatchScore | { readonly reason: string; readonly message: string } {
  try {
    const score = algorithm.finish?.(entries.map((e) => e.frozen)) as BatchScore;
    const wrong =
      !(score.values instanceof Float64Array) ||
      score.values.length !== entries.length ||
      (score.tokens !== undefined &&
        entries.some(
          (e, i) => e.rows.some((row, k) => score.tokens?.[i]?.[k]?.length !== row.tokens) || score.tokens?.[i]?.length !== e.rows.length,
        ));
    if (wrong)
      return {
        reason: 'algorithm_output',
        message: `${algorithm.name}: finish must give one value per member, or one per trained token of each row`,
      };
    return score;
  } catch (error) {
    return { reason: 'algorithm_threw', message: `${algorithm.name} threw: ${String(error)}` };
  }
}

function rounded(score: BatchScore, member: number, row: number): number | Float32Array {
  const tokens = score.tokens?.[member]?.[row];
  if (tokens !== undefined) return Float32Array.from(tokens, plainZero);
  return plainZero(Math.fround(score.values[member] as number));
}

function isFiniteCredit(credit: number | Float32Array): boolean {
  return typeof credit === 'number' ? Number.isFinite(credit) : credit.every((value) => Number.isFinite(value));
}

/** Trained tokens of a row with credit other than 0. */
export function creditedTokens(row: FrozenDraft, credit: Credit): number {
  if (credit === null) return row.tokens;
  if (typeof credit === 'number') return credit === 0 ? 0 : row.tokens;
  let count = 0;
  for (const value of credit) if (value !== 0) count++;
  return count;
}

/** Trained tokens of node `i` of a row. */
export function trainedTokens(row: FrozenDraft, i: number): number {
  const { path, lastKeep } = row.draft;
  const node = path[i];
  if (node === undefined || row.trains[i] !== 1) return 0;
  return trainedIn(node, i === path.length - 1 ? lastKeep : node.length, row.oldest);
}
