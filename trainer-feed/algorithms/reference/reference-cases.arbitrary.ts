/** Property-generated batches for the comparison with the reference implementations: the same cases for a seed, as ready groups and as what reference_values.py reads. */
import fc from 'fast-check';
import type { ReadyGroup } from '../../groups/ready-group.ts';
import { groupOf, type NodeSketch, type TraceSketch } from '../../cut/ready-groups.arbitrary.ts';

export type CaseMember = {
  readonly reward: number;
  /** Of the response: 1 = sampled. Ends with 1. */
  readonly mask: readonly number[];
  /** Tokens before it. */
  readonly context: number;
  readonly turns: number;
  readonly agent: string;
  readonly rollout: string;
  readonly channels: Readonly<Record<string, number | null>>;
};
export type CaseBatch = {
  readonly groups: readonly { readonly members: readonly CaseMember[] }[];
  readonly length_penalty: readonly [number, number, number];
  readonly decay: number;
  readonly gamma: number;
  readonly f: number;
  readonly weights: readonly [number, number];
  readonly dapo: { readonly maxLength: number; readonly buffer: number; readonly factor: number };
  /** Rewards are multiples of 1/8, exact in float32: groups may be all equal. */
  readonly dyadic: boolean;
};

const dyadic = fc.integer({ min: 0, max: 16 }).map((k) => k / 8);
const binary = fc.constantFrom(0, 1);
/** Values float32 holds exactly, so that both sides start from the same number. */
const real = fc.double({ min: 0, max: 3, noNaN: true }).map((v) => Math.fround(v));
const signed = fc.double({ min: -3, max: 3, noNaN: true }).map((v) => Math.fround(v));

const response = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 1, max: 6 })), { minLength: 1, maxLength: 3 })
  .map((turns) =>
    turns.flatMap(([context, sampled], i) => [...Array<number>(i === 0 ? 0 : context).fill(0), ...Array<number>(sampled).fill(1)]),
  );

function member(reward: fc.Arbitrary<number>, withNulls: boolean): fc.Arbitrary<Omit<CaseMember, 'rollout' | 'turns'>> {
  const channel = withNulls ? fc.oneof({ weight: 9, arbitrary: reward }, { weight: 1, arbitrary: fc.constant(null) }) : reward;
  return fc.record({
    reward,
    mask: response,
    context: fc.integer({ min: 1, max: 9 }),
    agent: fc.constantFrom('solver', 'solver', 'proposer'),
    channels: fc.record({ a: reward, b: channel }),
  });
}

const batch: fc.Arbitrary<CaseBatch> = fc
  .tuple(
    fc.constantFrom('dyadic', 'binary', 'real', 'signed'),
    fc.boolean(),
    fc.boolean(),
    fc.integer({ min: 2, max: 8 }),
    fc.integer({ min: 1, max: 5 }),
  )
  .chain(([kind, even, withNulls, size, groups]) => {
    const reward = { dyadic, binary, real, signed }[kind as 'dyadic'];
    const members = member(reward, withNulls);
    return fc.record({
      groups: fc.array(fc.array(members, even ? { minLength: size, maxLength: size } : { minLength: 1, maxLength: size }), {
        minLength: groups,
        maxLength: groups,
      }),
      length_penalty: fc.tuple(fc.constantFrom(0.2, 0.25), fc.constantFrom(0, 0.1), fc.constantFrom(0, 0.1)),
      decay: fc.constantFrom(0.95, 0.5),
      gamma: fc.constantFrom(0.9, 0.99),
      f: fc.constantFrom(0.5, 2),
      weights: fc.constantFrom<[number, number]>([1, 1], [1, 0.25]),
      dapo: fc.constantFrom({ maxLength: 8, buffer: 4, factor: 1 }, { maxLength: 12, buffer: 3, factor: 0.5 }),
      dyadic: fc.constant(kind === 'dyadic' || kind === 'binary'),
    });
  })
  .map((made) => ({
    ...made,
    groups: made.groups.map((members) => ({
      // two traces to a rollout, one after the other
      members: members.map((m, i) => ({ ...m, rollout: `r${Math.floor(i / 2)}`, turns: turnsOf(m.mask).length })),
    })),
  }));

/** verl refuses to whiten a batch of one token. */
function whitenable({ groups }: CaseBatch): boolean {
  return groups.flatMap((g) => g.members.flatMap((m) => m.mask)).filter((bit) => bit === 1).length > 1;
}

export function caseBatches(seed: number, count: number): CaseBatch[] {
  return fc.sample(batch.filter(whitenable), { seed, numRuns: count });
}

/** Stretches of context and the sampled stretch after each. */
function turnsOf(mask: readonly number[]): { context: number; sampled: number }[] {
  const turns: { context: number; sampled: number }[] = [];
  let context = 0;
  for (const [i, bit] of mask.entries()) {
    if (bit === 0) context++;
    else if (i === 0 || mask[i - 1] === 0) {
      turns.push({ context, sampled: 1 });
      context = 0;
    } else (turns.at(-1) as { sampled: number }).sampled++;
  }
  return turns;
}

/** The batch as ready groups. `channels`: members are scored by the two channels instead of by one reward. */
export function readyGroups(given: CaseBatch, channels = false): ReadyGroup[] {
  return given.groups.map(({ members }, g) =>
    groupOf(
      members.map((m): TraceSketch => {
        const [first, ...rest] = turnsOf(m.mask);
        const nodes: NodeSketch[] = [{ role: 'user', context: m.context }, { ...first }];
        for (const turn of rest) nodes.push({ role: 'tool', context: turn.context }, { sampled: turn.sampled });
        const scores = channels
          ? { scores: Object.entries(m.channels).map(([name, score], c) => ({ name, score, weight: given.weights[c] as number })) }
          : {};
        return { reward: m.reward, agent: m.agent, rollout: m.rollout, nodes, ...scores };
      }),
      { group: `g${g}`, readyAt: g },
    ),
  );
}

/** The largest reward, and whether a set is too even for a comparison with float32: nearly equal rewards over epsilon are noise. */
export function isComparable(rewards: readonly number[], exact: boolean): boolean {
  if (rewards.every((r) => r === rewards[0])) return exact;
  const centre = rewards.reduce((a, b) => a + b, 0) / rewards.length;
  const s = Math.sqrt(rewards.reduce((t, r) => t + (r - centre) ** 2, 0) / (rewards.length - 1));
  return s >= 1e-3 * Math.max(1, ...rewards.map(Math.abs));
}

const graphNode = (index: number) =>
  fc.record({
    parent:
      index === 0
        ? fc.constant(null)
        : fc.oneof({ weight: 3, arbitrary: fc.constant(index - 1) }, { weight: 1, arbitrary: fc.integer({ min: 0, max: index - 1 }) }),
    role: fc.constantFrom('assistant', 'assistant', 'tool', 'user'),
    context: fc.integer({ min: 1, max: 3 }),
    sampled: fc.integer({ min: 1, max: 4 }),
    body: fc.option(fc.constant(null), { nil: 'none' as const }),
  });

/** Groups of forked graphs whose observation nodes carry a body mask or none. */
export function graphGroups(seed: number, count: number): ReadyGroup[] {
  const trace = fc.tuple(
    dyadic,
    fc.integer({ min: 2, max: 9 }).chain((n) => fc.tuple(...Array.from({ length: n }, (_, i) => graphNode(i)))),
  );
  return fc.sample(fc.array(trace, { minLength: 1, maxLength: 4 }), { seed, numRuns: count }).map((traces, g) =>
    groupOf(
      traces.map(([reward, nodes]) => ({
        reward,
        nodes: nodes.map((node, i): NodeSketch => {
          if (node.role !== 'assistant' || i === 0) {
            const isContent = node.body === 'none' ? null : Uint8Array.from({ length: node.context }, (_, k) => (k > 0 ? 1 : 0));
            return {
              parent: node.parent,
              role: i === 0 ? 'system' : node.role === 'assistant' ? 'tool' : node.role,
              context: node.context,
              isContent,
            };
          }
          const referenceLogprobs = Float32Array.from({ length: node.sampled }, (_, k) => -(k + i) / 8);
          return { parent: node.parent, role: 'assistant', context: node.context, sampled: node.sampled, referenceLogprobs };
        }),
      })),
      { group: `graph${g}` },
    ),
  );
}
