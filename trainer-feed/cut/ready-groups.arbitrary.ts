/** Ready groups for tests: traces written as a list of nodes, and arbitrary ones. */
import fc from 'fast-check';
import { PRESET_REGISTRY, type Registry } from '../algorithms/registry.ts';
import { resolveSpec, type CutSpecInput, type ResolvedSpec } from '../algorithms/spec.ts';
import { cut, type CutContext } from './cut.ts';
import type { BareNode, MemberTrace, NodeTokens, ReadyGroup, Score } from '../groups/ready-group.ts';

/** A node in short: `sampled` tokens follow `context` tokens that were not sampled; `tokens: false` = the engine gave none. */
export type NodeSketch = {
  readonly parent?: number | null;
  readonly role?: string;
  readonly context?: number;
  readonly sampled?: number;
  readonly tokens?: false;
} & Partial<Omit<NodeTokens, 'sampled' | 'parent' | 'role'>>;
export type TraceSketch = Partial<Omit<MemberTrace, 'nodes' | 'bare' | 'leaves'>> & {
  readonly reward?: number | null;
  readonly nodes?: readonly NodeSketch[];
};

/** Nodes form a chain where no parent is said. Ids count up from 1, log-probabilities from -0.001 down, both over the trace. */
export function traceOf(sketch: TraceSketch = {}): MemberTrace {
  const { reward = 0, nodes: given = [{ role: 'user', context: 3 }, { sampled: 2 }], ...rest } = sketch;
  const nodes = new Map<number, NodeTokens>();
  const bare = new Map<number, BareNode>();
  const parents = new Set<number>();
  let id = 1;
  for (const [index, node] of given.entries()) {
    const parent = node.parent === undefined ? (index === 0 ? null : index - 1) : node.parent;
    if (parent !== null) parents.add(parent);
    const { context = 0, sampled = 0, tokens, ...more } = node;
    const role = node.role ?? (sampled > 0 ? 'assistant' : 'tool');
    if (tokens === false) {
      bare.set(index, { index, parent, role, sampled: sampled > 0 });
      continue;
    }
    const first = id;
    id += context + sampled;
    nodes.set(index, {
      index,
      role,
      sampled: sampled > 0,
      ids: Uint32Array.from({ length: context + sampled }, (_, i) => first + i),
      mask: Uint8Array.from({ length: context + sampled }, (_, i) => (i < context ? 0 : 1)),
      isContent: null,
      logprobs: Float32Array.from({ length: sampled }, (_, i) => -(first + context + i) / 1000),
      policyRuns: null,
      policyVersion: 0,
      temperature: null,
      attribution: 'renderer',
      referenceLogprobs: null,
      partial: false,
      ...more,
      parent,
    });
  }
  const trace = rest.trace ?? 't';
  return {
    run: 'run',
    group: 'g',
    rollout: `${trace}-rollout`,
    trace,
    env: 'env',
    taskKey: null,
    agent: 'agent',
    trainable: true,
    ok: true,
    error: null,
    truncated: false,
    stopCondition: null,
    scores: reward === null ? [] : [scoreOf(reward)],
    compactionAttempts: new Set(),
    policyStart: 0,
    policyEnd: 0,
    temperature: 1,
    logprobsMode: 'processed',
    tokenizerHash: null,
    mixedTokenizers: false,
    demonstration: null,
    logOffset: [0, 0],
    ...rest,
    nodes,
    bare,
    leaves: given.map((_, i) => i).filter((i) => !parents.has(i)),
  };
}

export function scoreOf(score: number | null, name = 'reward', weight = 1): Score {
  return { name, score, weight };
}

/** Traces are named `<group>-<position>` where they have no name. */
export function groupOf(sketches: readonly TraceSketch[], rest: Partial<Omit<ReadyGroup, 'members'>> = {}): ReadyGroup {
  const group = rest.group ?? 'g';
  const env = rest.env ?? 'env';
  return {
    group,
    env,
    readyAt: 0,
    baselines: null,
    ...rest,
    members: sketches.map((sketch, i) => traceOf({ trace: `${group}-${i}`, env, ...sketch, group })),
  };
}

/** A group with one plain trace of `lengths[i]` sampled tokens for each reward. */
export function plainGroup(
  rewards: readonly number[],
  lengths: readonly number[] = rewards.map(() => 2),
  rest: Partial<Omit<ReadyGroup, 'members'>> = {},
): ReadyGroup {
  return groupOf(
    rewards.map((reward, i) => ({ reward, nodes: [{ role: 'user', context: 3 }, { sampled: lengths[i] ?? 2 }] })),
    rest,
  );
}

const node = (index: number): fc.Arbitrary<NodeSketch> =>
  fc.record({
    parent:
      index === 0
        ? fc.constant(null)
        : fc.oneof({ weight: 4, arbitrary: fc.constant(index - 1) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: index - 1 }) }),
    context: fc.integer({ min: 0, max: 4 }),
    sampled: index === 0 ? fc.constant(0) : fc.integer({ min: 0, max: 5 }),
    policyVersion: fc.integer({ min: 0, max: 4 }),
  });

/** Traces with forks, of 1 to 8 nodes; rewards are multiples of 1/8, often equal. */
export const arbitraryTrace: fc.Arbitrary<TraceSketch> = fc.record({
  reward: fc.integer({ min: -4, max: 16 }).map((k) => k / 8),
  nodes: fc.integer({ min: 1, max: 8 }).chain((n) => fc.tuple(...Array.from({ length: n }, (_, i) => node(i)))),
  truncated: fc.boolean(),
  agent: fc.constantFrom('a', 'b'),
});

/** 1 to 5 groups of 1 to 6 traces, in order of readiness. */
export const arbitraryGroups: fc.Arbitrary<ReadyGroup[]> = fc
  .array(fc.array(arbitraryTrace, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 5 })
  .map((groups) => groups.map((traces, i) => groupOf(traces, { group: `g${i}`, readyAt: i, env: i % 3 === 2 ? 'other' : 'env' })));

/** The specification, checked; a fault is a failed test. */
export function specOf(input: Partial<CutSpecInput> = {}, registry: Registry = PRESET_REGISTRY): ResolvedSpec {
  const resolved = resolveSpec({ maxRowTokens: 4096, ...input }, registry);
  if (!resolved.ok) throw new Error(resolved.error.map((p) => p.message).join('\n'));
  return resolved.value;
}

/** A spec under which all envs use one algorithm. */
export function scoredBy(algorithm: string, params: Record<string, unknown> = {}, rest: Partial<CutSpecInput> = {}): ResolvedSpec {
  const source = algorithm === 'sft' ? { frozen: 'big' } : ('policy' as const);
  return specOf({ others: { source, score: { algorithm, params } }, ...rest });
}

export const CONTEXT: CutContext = {
  feed: 'feed',
  n: 1,
  previousId: null,
  specHash: '0'.repeat(64),
  policyVersion: 0,
  sourcePositions: [[0, 100]],
  raeState: new Map(),
};

/** The advantage of every trace as it ships (0 included), by group in the order given and by member: the first row's; null = no row. */
export function advantagesOf(
  spec: ResolvedSpec,
  groups: readonly ReadyGroup[],
  context: Partial<CutContext> = {},
): (number | number[] | null)[][] {
  const keeping: ResolvedSpec = { ...spec, spec: { ...spec.spec, dropZeroAdvantage: false } };
  const { rows } = cut(keeping, groups, { ...CONTEXT, ...context });
  return groups.map((group) =>
    group.members.map((member) => {
      const row = rows.find((r) => r.trace === member.trace);
      if (row === undefined) return null;
      return row.advantage instanceof Float32Array ? [...row.advantage].filter((_, i) => row.lossMask[i] === 1) : row.advantage;
    }),
  );
}
