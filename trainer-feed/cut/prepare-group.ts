/**
 * A group up to the point where the batch begins to matter (steps 1 to 5 of a cut): members, shaping, group-scope score, group filters on unshaped rewards, rows. Depends
 * on the group and the spec alone, so a feed prepares each group once.
 */
import { isRefusal, type GroupInput, type GroupScore, type Refusal } from '../algorithms/algorithm.ts';
import { allEqual, deviation, mean, sum } from '../algorithms/arithmetic.ts';
import type { ResolvedEnv, ResolvedSpec } from '../algorithms/spec.ts';
import type { MemberTrace, ReadyGroup } from '../groups/ready-group.ts';
import { draftRows, type DraftRow } from './draft-row.ts';
import type { Exclusion } from './exclusion.ts';
import { exclusionOf, findMembers, type FoundMember } from './members.ts';
import { readBaselines, type BaselineStep, type Baselines } from './running-baseline.ts';

/** A member with its group-scope value (null = no credit) and the rows it could ship. */
export type PreparedMember = FoundMember & {
  readonly value: number | null;
  readonly shaped: number;
  readonly muted: boolean;
  readonly rows: readonly DraftRow[];
};

/** ready: its rows may ship. dropped: a filter leaves it out. failed: something is wrong with it, by name. */
export type Verdict =
  | { readonly outcome: 'ready' }
  | { readonly outcome: 'dropped'; readonly reason: string }
  | { readonly outcome: 'failed'; readonly reason: string; readonly message: string };

export type PreparedGroup = {
  readonly group: string;
  readonly run: string | null;
  readonly readyAt: number;
  readonly env: string;
  /** null = the spec has no part for it. */
  readonly resolved: ResolvedEnv | null;
  /** All that count in the baseline, in order; without rows unless the verdict is ready. */
  readonly members: readonly PreparedMember[];
  readonly excluded: readonly Exclusion[];
  readonly verdict: Verdict;
  /** Mean and deviation of the members' unshaped rewards; null without members or rewards. */
  readonly rewardMean: number | null;
  readonly rewardStd: number | null;
  /** How the group moved running baselines, in member order. */
  readonly baselineSteps: readonly BaselineStep[];
};

/** Prepares `group`. `state` holds the running baselines before it and is moved by it, unless the group carries what its ready decision recorded. */
export function prepareGroup(resolved: ResolvedSpec, group: ReadyGroup, state: Baselines): PreparedGroup {
  const env = resolved.envOf(group.env);
  const start: PreparedGroup = {
    group: group.group,
    run: group.members[0]?.run ?? null,
    readyAt: group.readyAt,
    env: group.env,
    resolved: env,
    members: [],
    excluded: [],
    verdict: { outcome: 'ready' },
    rewardMean: null,
    rewardStd: null,
    baselineSteps: [],
  };
  if (env === null) return leftOut(start, group.members, { outcome: 'dropped', reason: 'env_not_in_spec' });
  const placeholders = new Set(resolved.spec.placeholderIds);
  const membership = findMembers(group, env, placeholders);
  if (isRefusal(membership)) return leftOut(start, group.members, failed(membership));
  const { found } = membership;
  const rewards = Float64Array.from(found, (m) => m.member.reward);
  const counted = { ...start, ...rewardMoments(rewards), excluded: membership.excluded };
  const running = readBaselines(env, group, found, state);
  if (isRefusal(running)) return leftOut(counted, found.map(({ trace }) => trace), failed(running)); // prettier-ignore
  const { baselines, steps } = running;
  const withMembers = { ...counted, baselineSteps: steps };
  if (found.length === 0) return leftOut(withMembers, [], { outcome: 'dropped', reason: 'no_members' });
  const scored = scoreGroup(env, { group: group.group, env: group.env, members: found.map((m) => m.member), rewards, baselines });
  const bare = found.map((m, i) => preparedMember(m, i, scored));
  const members = { ...withMembers, members: bare };
  const traces = found.map((m) => m.trace);
  if (isRefusal(scored)) return leftOut(members, traces, failed(scored));
  const filtered = filterGroup(env, found, rewards);
  if (filtered !== null) return leftOut(members, traces, isRefusal(filtered) ? failed(filtered) : filtered);
  return withRows(resolved, env, members, scored, placeholders);
}

type Scored = { readonly score: GroupScore; readonly shaped: Float64Array };

function preparedMember(found: FoundMember, i: number, scored: Scored | Refusal): PreparedMember {
  if (isRefusal(scored)) return { ...found, value: null, shaped: found.member.reward, muted: false, rows: [] };
  const { score, shaped } = scored;
  return { ...found, value: score.values?.[i] ?? null, shaped: shaped[i] as number, muted: score.muted?.has(i) ?? false, rows: [] };
}

/** Steps 2 and 3: shaping and group-scope score. What an algorithm throws or gets wrong becomes a refusal. */
function scoreGroup({ algorithm }: ResolvedEnv, input: GroupInput): Scored | Refusal {
  try {
    const shaped = algorithm.shape?.(input) ?? input.rewards;
    if (isRefusal(shaped)) return shaped;
    const score = algorithm.score({ ...input, rewards: shaped });
    if (isRefusal(score)) return score;
    return outputFault(algorithm.name, input, shaped, score, algorithm.streams.rl !== 0) ?? { score, shaped };
  } catch (error) {
    return { refused: 'algorithm_threw', message: `${algorithm.name} threw: ${String(error)}` };
  }
}

function outputFault(name: string, input: GroupInput, shaped: Float64Array, { values }: GroupScore, trainsRl: boolean): Refusal | null {
  const n = input.members.length;
  for (const [what, array] of [
    ['shape', shaped],
    ['score', values],
  ] as const) {
    if (array === null) continue;
    if (!(array instanceof Float64Array) || array.length !== n) {
      return { refused: 'algorithm_output', message: `${name}: ${what} must give a Float64Array with one value for each of ${n} members` };
    }
  }
  if (values === null) {
    return trainsRl
      ? { refused: 'missing_advantage', message: `${name} trains sampled tokens by rl but gives no advantages: give values, or rl 0` }
      : null;
  }
  const bad = values.findIndex((value) => !Number.isFinite(Math.fround(value)));
  if (bad < 0) return null;
  return { refused: 'non_finite_advantage', message: `${name} gives trace ${input.members[bad]?.trace} the advantage ${values[bad]}` };
}

/** Step 4, on unshaped rewards: null = stays. */
function filterGroup(env: ResolvedEnv, found: readonly FoundMember[], totals: Float64Array): Verdict | Refusal | null {
  const { zeroVariance, difficulty, on } = env.spec.groups;
  const own = env.algorithm.groupFilter;
  for (const name of zeroVariance && own !== null ? [on, own.on] : zeroVariance ? [on] : own !== null ? [own.on] : []) {
    const values = namedRewards(found, totals, name);
    if (isRefusal(values)) return values;
    if (allEqual(values)) return { outcome: 'dropped', reason: 'zero_variance' };
  }
  if (difficulty === null) return null;
  const values = namedRewards(found, totals, on);
  if (isRefusal(values)) return values;
  const centre = mean(values);
  const inside = (difficulty.min === null || centre >= difficulty.min) && (difficulty.max === null || centre <= difficulty.max);
  return inside ? null : { outcome: 'dropped', reason: 'difficulty' };
}

/** The totals, or for each member the scores of that name (trace and rollout scope together), without weights. An errored member counts as 0. */
function namedRewards(found: readonly FoundMember[], totals: Float64Array, name: string | null): Float64Array | Refusal {
  if (name === null) return totals;
  const values = new Float64Array(found.length);
  for (const [i, { member }] of found.entries()) {
    if (member.failed) continue;
    const scores = member.scores.filter((s) => s.name === name && s.score !== null);
    if (scores.length === 0) {
      return { refused: 'missing_reward', message: `trace ${member.trace} has no reward ${name}, on which the group is filtered` };
    }
    values[i] = sum(Float64Array.from(scores, (s) => s.score as number));
  }
  return values;
}

/** Step 5, and what a trace must have for the streams it would ship. */
function withRows(
  resolved: ResolvedSpec,
  env: ResolvedEnv,
  prepared: PreparedGroup,
  { score }: Scored,
  placeholders: ReadonlySet<number>,
): PreparedGroup {
  const members: PreparedMember[] = [];
  const excluded = [...prepared.excluded];
  for (const [i, member] of prepared.members.entries()) {
    const reason = score.silent?.get(i) ?? silentReason(member, env);
    if (reason !== null) {
      excluded.push(exclusionOf(member.trace, reason, member.nodes.totalTokens));
      members.push(member);
      continue;
    }
    const drafts = draftRows(member, env, resolved.spec, placeholders);
    const refusal = rowFault(resolved, env, member, drafts);
    if (refusal !== null) return leftOut(prepared, prepared.members.map((m) => m.trace), failed(refusal)); // prettier-ignore
    for (const one of drafts.excluded) excluded.push(one);
    const unattributed = env.algorithm.streams.observations !== undefined && drafts.rows.some((row) => lacksAttribution(row, env));
    if (unattributed) excluded.push(exclusionOf(member.trace, 'echo_needs_attribution', member.nodes.totalTokens));
    members.push({ ...member, rows: unattributed ? [] : drafts.rows });
  }
  return { ...prepared, members, excluded };
}

function silentReason({ member, trace }: PreparedMember, env: ResolvedEnv): string | null {
  const { needsDemonstration, tokenizerHash } = env.algorithm;
  if (member.failed) return 'failed_in_baseline';
  if (member.truncated && env.spec.truncated === 'drop') return 'truncated_dropped';
  if (trace.mixedTokenizers) return 'mixed_tokenizers';
  if (needsDemonstration && trace.demonstration === null) return 'missing_demonstration';
  if (tokenizerHash !== null && trace.tokenizerHash !== tokenizerHash) return 'tokenizer_mismatch';
  return null;
}

function rowFault(
  resolved: ResolvedSpec,
  env: ResolvedEnv,
  member: PreparedMember,
  { rows, overLength }: ReturnType<typeof draftRows>,
): Refusal | null {
  if (overLength !== null) {
    return {
      refused: 'row_exceeds_max_tokens',
      message: `trace ${member.trace.trace} gives a row of ${overLength} tokens, over maxRowTokens ${resolved.spec.maxRowTokens}: raise it, or set overLength to drop or truncate`,
    };
  }
  const { streams, finish } = env.algorithm;
  const credited = finish !== null || !resolved.spec.dropZeroAdvantage || (member.value !== null && Math.fround(member.value) !== 0);
  const needed = streams.refKl !== 0 || (streams.rl !== 0 && !member.muted && credited);
  if (!needed || rows.every((row) => row.path.every((n) => n.sampled === 0 || n.tokens.logprobs !== null))) return null;
  return {
    refused: 'missing_logprobs',
    message: `trace ${member.trace.trace} has sampled tokens without log-probabilities, which ${env.algorithm.name} needs: record them, or use sft`,
  };
}

/** Whether tokens that echo would learn cannot be told apart in a row: a message of a learned role after the first sampled node that owns no span. */
function lacksAttribution(row: DraftRow, env: ResolvedEnv): boolean {
  const roles = env.algorithm.streams.observations?.roles ?? {};
  const first = row.path.findIndex((node) => node.tokens.sampled);
  return row.path.slice(first + 1).some(({ tokens, length }) => {
    if (tokens.sampled) return false;
    if (tokens.role === 'input') return roles['input'] === undefined;
    return roles[tokens.role] !== undefined && (tokens.attribution === 'none' || (length === 0 && tokens.attribution !== 'renderer'));
  });
}

function failed({ refused, message }: Refusal): Verdict {
  return { outcome: 'failed', reason: refused, message };
}

/** The whole group is out: each of its traces (or, without any, the group itself) is listed with the reason. */
export function leftOut(
  prepared: PreparedGroup,
  traces: readonly MemberTrace[],
  verdict: Exclude<Verdict, { outcome: 'ready' }> | Verdict,
): PreparedGroup {
  if (verdict.outcome === 'ready') return prepared;
  const message = verdict.outcome === 'failed' ? verdict.message : null;
  const listed = traces.map((trace) => exclusionOf(trace, verdict.reason, tokensOf(trace), { message }));
  const itself: Exclusion = {
    run: prepared.run,
    group: prepared.group,
    rollout: null,
    trace: null,
    leaf: null,
    reason: verdict.reason,
    message,
    staleness: null,
    length: null,
  };
  return {
    ...prepared,
    members: prepared.members.map((m) => (m.rows.length === 0 ? m : { ...m, rows: [] })),
    excluded: [...prepared.excluded, ...(listed.length === 0 ? [itself] : listed)],
    verdict,
  };
}

function tokensOf(trace: MemberTrace): number {
  let total = 0;
  for (const node of trace.nodes.values()) total += node.ids.length;
  return total;
}

function rewardMoments(rewards: Float64Array): { rewardMean: number | null; rewardStd: number | null } {
  if (rewards.length === 0 || rewards.some((reward) => Number.isNaN(reward))) return { rewardMean: null, rewardStd: null };
  return { rewardMean: mean(rewards), rewardStd: deviation(rewards) };
}
