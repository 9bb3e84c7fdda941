/**
 * Who counts in a group's baseline (step 1 of a cut). A member is one trace that ended without error, whose agent is trainable, that has a sampled token, and that is
 * scored. Nothing is read as 0: a null score is skipped, a trace without any is unscored, and one score that is not finite excludes the trace.
 */
import { isRefusal, type Member, type Refusal } from '../algorithms/algorithm.ts';
import { sum } from '../algorithms/arithmetic.ts';
import type { ResolvedEnv } from '../algorithms/spec.ts';
import type { MemberTrace, ReadyGroup } from '../groups/ready-group.ts';
import type { Exclusion } from './exclusion.ts';
import { readNodes, type TraceNodes } from './trace-nodes.ts';

/** A member with the trace it came from; `position` is its place in the group's list of traces. */
export type FoundMember = { readonly position: number; readonly trace: MemberTrace; readonly nodes: TraceNodes; readonly member: Member };
export type Membership = { readonly found: readonly FoundMember[]; readonly excluded: readonly Exclusion[] };

const NO_NODES: TraceNodes = { byIndex: new Map(), sampledTokens: 0, totalTokens: 0, turns: 0 };

/** The members of `group` in order, and the traces that are none with their reasons; a refusal fails the group. */
export function findMembers(group: ReadyGroup, env: ResolvedEnv, placeholders: ReadonlySet<number>): Membership | Refusal {
  const found: FoundMember[] = [];
  const excluded: Exclusion[] = [];
  for (const [position, trace] of group.members.entries()) {
    const zero = !trace.ok && env.spec.failed === 'zero';
    const early = earlyReason(trace, env);
    if (early !== null) {
      excluded.push(exclusionOf(trace, early, lengthOf(trace)));
      continue;
    }
    const nodes = readNodes(trace, env.spec.partial, placeholders);
    if (isRefusal(nodes) && !zero) return nodes;
    const facts = isRefusal(nodes) ? NO_NODES : nodes;
    const reward = zero ? 0 : rewardOf(trace, env);
    const late = zero ? null : facts.sampledTokens === 0 ? 'no_tokens' : typeof reward === 'string' ? reward : null;
    if (late !== null) {
      excluded.push(exclusionOf(trace, late, facts.totalTokens));
      continue;
    }
    found.push({ position, trace, nodes: facts, member: memberOf(trace, facts, reward as number, zero) });
  }
  return { found, excluded };
}

export function exclusionOf(trace: MemberTrace, reason: string, length: number | null, more: Partial<Exclusion> = {}): Exclusion {
  const { run, group, rollout, trace: id } = trace;
  return { run, group, rollout, trace: id, leaf: null, reason, message: null, staleness: null, length, ...more };
}

function earlyReason(trace: MemberTrace, env: ResolvedEnv): string | null {
  if (!trace.trainable) return 'untrainable';
  if (!trace.ok) return env.spec.failed === 'zero' ? null : 'error';
  return trace.truncated && env.spec.truncated === 'exclude' ? 'truncated_excluded' : null;
}

/** The sum of score x weight, NaN for an unscored trace whose algorithm needs no reward, or the reason why the trace is no member. */
function rewardOf(trace: MemberTrace, { algorithm }: ResolvedEnv): number | 'unscored' | 'non_finite_reward' {
  if (trace.scores.some((s) => s.score !== null && !(Number.isFinite(s.score) && Number.isFinite(s.weight)))) return 'non_finite_reward';
  const given = trace.scores.filter((s) => s.score !== null);
  const names = algorithm.rewardNames;
  const scored = names === null ? given.length > 0 : given.some((s) => names.includes(s.name));
  if (!scored) return algorithm.needsReward ? 'unscored' : Number.NaN;
  const reward = sum(Float64Array.from(given, (s) => (s.score as number) * s.weight));
  return Number.isFinite(reward) ? reward : 'non_finite_reward';
}

function memberOf(trace: MemberTrace, nodes: TraceNodes, reward: number, failed: boolean): Member {
  return {
    trace: trace.trace,
    rollout: trace.rollout,
    agent: trace.agent,
    env: trace.env,
    reward,
    scores: trace.scores,
    sampledTokens: nodes.sampledTokens,
    totalTokens: nodes.totalTokens,
    turns: nodes.turns,
    truncated: trace.truncated,
    failed,
  };
}

function lengthOf(trace: MemberTrace): number {
  let total = 0;
  for (const node of trace.nodes.values()) total += node.ids.length;
  return total;
}
