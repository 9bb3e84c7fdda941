/**
 * Running baselines (algorithm `rae`): one number per env and agent that every member moves, in the order of the group-ready decisions and of members within a group. A ready
 * decision records what it read, so that a replay never depends on an order again.
 */
import type { ResolvedEnv, ResolvedSpec } from '../algorithms/spec.ts';
import { isRefusal, type Refusal } from '../algorithms/algorithm.ts';
import type { ReadyGroup } from '../groups/ready-group.ts';
import { findMembers, type FoundMember } from './members.ts';

/** By `baselineKey`. */
export type Baselines = Map<string, number>;
export type BaselineStep = {
  readonly group: string;
  readonly env: string;
  readonly agent: string;
  readonly trace: string;
  readonly before: number;
  readonly after: number;
};

export function baselineKey(env: string, agent: string): string {
  return JSON.stringify([env, agent]);
}

/**
 * The baseline before each of `found`, and the steps. Moves `state`, unless the group carries recorded baselines: those are read and nothing moves. A refusal moves nothing
 * either: one number that is none would stay in the baseline for ever.
 */
export function readBaselines(
  env: ResolvedEnv,
  group: ReadyGroup,
  found: readonly FoundMember[],
  state: Baselines,
): { readonly baselines: Float64Array | null; readonly steps: readonly BaselineStep[] } | Refusal {
  const running = env.algorithm.baseline;
  if (running === null) return { baselines: null, steps: [] };
  const recorded = group.baselines;
  const baselines = new Float64Array(found.length);
  const steps: BaselineStep[] = [];
  const moved = new Map<string, number>();
  for (const [i, { position, trace, member }] of found.entries()) {
    const key = baselineKey(group.env, trace.agent);
    const before = recorded?.[position] ?? moved.get(key) ?? state.get(key) ?? running.initial;
    const after = nextBaseline(env, before, member.reward);
    if (typeof after !== 'number') return after;
    moved.set(key, after);
    baselines[i] = before;
    steps.push({ group: group.group, env: group.env, agent: trace.agent, trace: trace.trace, before, after });
  }
  if (recorded === null) for (const [key, after] of moved) state.set(key, after);
  return { baselines, steps };
}

function nextBaseline({ algorithm }: ResolvedEnv, before: number, reward: number): number | Refusal {
  try {
    const after: unknown = algorithm.baseline?.next(before, reward);
    if (typeof after === 'number' && Number.isFinite(after)) return after;
    return {
      refused: 'algorithm_output',
      message: `${algorithm.name}: the baseline after ${before} and reward ${reward} is ${String(after)}`,
    };
  } catch (error) {
    return { refused: 'algorithm_threw', message: `${algorithm.name} threw: ${String(error)}` };
  }
}

/**
 * What a ready decision records: the baseline before each trace of the group (of one that is no member: the one it would have met), and the steps that move `state`. null
 * for an env whose algorithm keeps none.
 */
export function recordBaselines(
  resolved: ResolvedSpec,
  group: ReadyGroup,
  state: Baselines,
): { readonly baselines: readonly number[]; readonly steps: readonly BaselineStep[] } | null {
  const env = resolved.envOf(group.env);
  if (env === null || env.algorithm.baseline === null) return null;
  const membership = findMembers(group, env, new Set(resolved.spec.placeholderIds));
  const found = isRefusal(membership) ? [] : membership.found;
  const { initial } = env.algorithm.baseline;
  const before = group.members.map((trace) => state.get(baselineKey(group.env, trace.agent)) ?? initial);
  const read = readBaselines(env, { ...group, baselines: null }, found, state);
  if (isRefusal(read)) return { baselines: before, steps: [] }; // the cut fails the group by name
  const { baselines, steps } = read;
  for (const [i, { position }] of found.entries()) before[position] = baselines?.[i] ?? initial;
  return { baselines: before, steps };
}
