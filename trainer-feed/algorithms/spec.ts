/**
 * What a feed computes, as data: per env a source (who generated) and a score (which algorithm), what leaves a group out, which rows ship, how stale they may be and
 * how weights are reduced. `resolveSpec` checks it whole, lists every fault at once and refuses what could never give a row.
 */
import { z } from 'zod';
import type { Problem, Result } from '../../base/result.ts';
import type { BoundAlgorithm, Reduction } from './algorithm.ts';
import { groupReward } from './group-rewards/group-reward-spec.ts';
import type { Registry } from './registry.ts';
import type { TokenFilter } from './token-filter.ts';

const source = z
  .union([z.literal('policy'), z.strictObject({ frozen: z.string().min(1) })])
  .default('policy')
  .meta({ description: 'who generated: the policy, or a frozen model by name, which has no version and never goes stale' });

const score = z
  .strictObject({ algorithm: z.string().min(1), params: z.record(z.string(), z.unknown()).default({}) })
  .default({ algorithm: 'grpo', params: {} })
  .meta({ description: 'the algorithm and its parameters' });

const groupFilters = z
  .strictObject({
    zeroVariance: z.boolean().default(false).meta({ description: 'leave a group out whose rewards are all equal' }),
    difficulty: z
      .strictObject({ min: z.number().nullable().default(null), max: z.number().nullable().default(null) })
      .nullable()
      .default(null)
      .meta({ description: 'leave a group out whose mean reward is below min or above max' }),
    on: z.string().min(1).nullable().default(null).meta({ description: 'the reward that both read, unshaped; null = the total' }),
  })
  .prefault({});

const rowFilters = z
  .strictObject({
    minTokens: z.int().nonnegative().nullable().default(null),
    maxTokens: z.int().positive().nullable().default(null),
    minSampledTokens: z.int().nonnegative().nullable().default(null),
  })
  .prefault({})
  .meta({ description: 'rows outside are left out, their traces stay in the baseline' });

const envSpec = z.strictObject({
  source,
  score,
  groups: groupFilters,
  rows: rowFilters,
  failed: z
    .enum(['exclude', 'zero'])
    .default('exclude')
    .meta({ description: 'errored traces: no member, or in the baseline with reward 0' }),
  truncated: z
    .enum(['train', 'drop', 'exclude'])
    .default('train')
    .meta({ description: 'truncated traces: trained; in the baseline without a row; no member' }),
  partial: z
    .enum(['context', 'train'])
    .default('context')
    .meta({ description: 'nodes whose stream broke: read by what follows, or trained too' }),
  groupRewards: z
    .array(groupReward)
    .max(16)
    .optional()
    .meta({ description: 'rewards from comparing the members of a group, asked for before it is ready, in this order' }),
  branches: z.enum(['all', 'final']).default('all').meta({ description: 'which leaves give rows: all, or only the last' }),
});

const reduction = z.union([
  z.strictObject({ name: z.enum(['token_mean', 'seq_mean', 'prompt_mean']) }),
  z.strictObject({ name: z.literal('seq_sum_norm'), horizon: z.number().positive() }),
]);

/** The fields of a feed's specification that decide numbers. */
export const cutShape = {
  envs: z.record(z.string().min(1), envSpec).default({}).meta({ description: 'by env' }),
  others: envSpec
    .nullable()
    .optional()
    .meta({ description: 'all envs not named: default grpo where none is named, else null, which leaves their groups out' }),
  reduction: reduction.optional().meta({ description: 'default: what the algorithms are defined with, else token_mean' }),
  maxRowTokens: z.int().positive().meta({ description: 'tokens a row may have' }),
  overLength: z.enum(['drop', 'truncate', 'error']).default('drop').meta({ description: 'longer rows: left out, cut, or the group fails' }),
  placeholderIds: z
    .array(z.int().nonnegative().max(0x7fff_ffff))
    .default([])
    .meta({ description: 'token ids that stand for images or other media' }),
  dropZeroAdvantage: z
    .boolean()
    .default(true)
    .meta({ description: 'tokens without credit leave the loss, rows without tokens are not shipped' }),
  staleness: z
    .strictObject({
      maxOffPolicySteps: z.int().nonnegative().nullable().default(8).meta({ description: 'null = any age' }),
      strategy: z.enum(['drop', 'wait', 'withhold', 'mask']).default('drop'),
    })
    .prefault({}),
};
export const cutSpec = z.strictObject(cutShape);
export type CutSpecInput = z.input<typeof cutSpec>;
export type CutSpec = z.output<typeof cutSpec>;
export type EnvSpec = z.output<typeof envSpec>;

/** An env's part with its algorithm bound. `population` is the same for envs that use one algorithm with equal parameters. */
export type ResolvedEnv = {
  readonly spec: EnvSpec;
  readonly algorithm: BoundAlgorithm;
  readonly population: string;
  readonly tokenFilter: TokenFilter | null;
};

/** A checked specification, with everything the cut needs resolved. */
export type ResolvedSpec = {
  readonly spec: CutSpec;
  readonly envOf: (env: string) => ResolvedEnv | null;
  readonly reduction: Reduction;
};

/** Checks `input` whole. `groupSize`, where it is known, shows specs that no group could meet. */
export function resolveSpec(
  input: unknown,
  registry: Registry,
  known: { readonly groupSize?: number } = {},
): Result<ResolvedSpec, readonly Problem[]> {
  const parsed = cutSpec.safeParse(input);
  if (!parsed.success) {
    return { ok: false, error: parsed.error.issues.map((issue) => problem(issue.path.join('.'), issue.message)) };
  }
  const spec = parsed.data;
  const problems: Problem[] = [];
  const envs = new Map<string, ResolvedEnv>();
  for (const [env, part] of Object.entries(spec.envs)) {
    const resolved = resolveEnv(part, `envs.${env}`, spec, registry, known, problems);
    if (resolved !== null) envs.set(env, resolved);
  }
  const unnamed = spec.others === undefined && envs.size === 0 && problems.length === 0 ? envSpec.parse({}) : (spec.others ?? null);
  const others = unnamed === null ? null : resolveEnv(unnamed, 'others', spec, registry, known, problems);
  if (spec.others === null && Object.keys(spec.envs).length === 0) problems.push(problem('envs', 'must name an env when others is null'));
  if (spec.staleness.maxOffPolicySteps === null && spec.staleness.strategy !== 'drop') {
    problems.push(problem('staleness.strategy', `${spec.staleness.strategy} has no meaning without maxOffPolicySteps: set it`));
  }
  const bound = others === null ? [...envs.values()] : [...envs.values(), others];
  const reduced = resolveReduction(spec, bound, problems);
  if (problems.length > 0) return { ok: false, error: problems };
  return { ok: true, value: { spec, envOf: (env) => envs.get(env) ?? others, reduction: reduced } };
}

function resolveEnv(
  part: EnvSpec,
  at: string,
  spec: CutSpec,
  registry: Registry,
  known: { readonly groupSize?: number },
  problems: Problem[],
): ResolvedEnv | null {
  const found = registry.algorithms.get(part.score.algorithm);
  if (found === undefined) {
    const names = [...registry.algorithms.keys()].join(', ');
    problems.push(problem(`${at}.score.algorithm`, `no algorithm ${part.score.algorithm}: this server knows ${names}`));
    return null;
  }
  const bound = found.bind(part.score.params);
  if (!bound.ok) {
    problems.push(...bound.error.map((p) => problem(`${at}.score${p.field === undefined ? '' : `.${p.field}`}`, p.message)));
    return null;
  }
  const algorithm = bound.value;
  const filterName = algorithm.streams.observations?.filter ?? null;
  const tokenFilter = filterName === null ? null : (registry.filters.get(filterName) ?? null);
  if (filterName !== null && tokenFilter === null) {
    problems.push(
      problem(`${at}.score.params.filter`, `no token filter ${filterName}: list the module that defines it in the server's configuration`),
    );
  }
  problems.push(...impossible(part, algorithm, spec, known).map(([field, message]) => problem(`${at}.${field}`, message)));
  return { spec: part, algorithm, population: populationOf(algorithm), tokenFilter };
}

/** What could never give a row, by field. */
function impossible(part: EnvSpec, algorithm: BoundAlgorithm, spec: CutSpec, known: { readonly groupSize?: number }): [string, string][] {
  const found: [string, string][] = [];
  const sourceKind = part.source === 'policy' ? 'policy' : 'frozen';
  if (!algorithm.sources.includes(sourceKind)) {
    found.push([
      'source',
      `${algorithm.name} needs a source that is ${algorithm.sources.join(' or ')}${sourceKind === 'policy' ? ': {"frozen": "<model>"}' : ''}`,
    ]);
  }
  const { minTokens, maxTokens, minSampledTokens } = part.rows;
  if (minTokens !== null && minTokens > spec.maxRowTokens)
    found.push(['rows.minTokens', `exceeds maxRowTokens ${spec.maxRowTokens}: no row could pass`]);
  if (minSampledTokens !== null && minSampledTokens > spec.maxRowTokens) {
    found.push(['rows.minSampledTokens', `exceeds maxRowTokens ${spec.maxRowTokens}: no row could pass`]);
  }
  if (minTokens !== null && maxTokens !== null && minTokens > maxTokens)
    found.push(['rows.minTokens', 'exceeds rows.maxTokens: no row could pass']);
  found.push(...groupRewardFaults(part));
  const band = part.groups.difficulty;
  if (band !== null && band.min !== null && band.max !== null && band.min > band.max) {
    found.push(['groups.difficulty', 'min exceeds max: no group could pass']);
  }
  if ((part.groups.zeroVariance || band !== null) && !algorithm.needsReward) {
    found.push(['groups', `${algorithm.name} needs no rewards, so a filter on them would leave out groups that have none: remove it`]);
  }
  if (known.groupSize === 1) {
    if (part.groups.zeroVariance) found.push(['groups.zeroVariance', 'leaves out every group of size 1: no row could pass']);
    else if (algorithm.silentAlone && spec.dropZeroAdvantage) {
      found.push([
        'score',
        `${algorithm.name} gives a group of size 1 no credit, and dropZeroAdvantage drops it: no row could pass (singleton: "reward", or larger groups)`,
      ]);
    }
  }
  return found;
}

function groupRewardFaults({ groupRewards = [] }: EnvSpec): [string, string][] {
  const found: [string, string][] = [];
  const names = groupRewards.map(({ name }) => name);
  for (const [i, spec] of groupRewards.entries()) {
    const at = `groupRewards.${i}`;
    if (names.indexOf(spec.name) < i) found.push([`${at}.name`, `${spec.name} is the name of an earlier one: choose another`]);
    if (spec.kind !== 'conciseness' || spec.on === null) continue;
    const source = names.indexOf(spec.on);
    if (source >= i) found.push([`${at}.on`, `${spec.on} is compared later, or is itself: put it before`]);
  }
  return found;
}

function resolveReduction(spec: CutSpec, envs: readonly ResolvedEnv[], problems: Problem[]): Reduction {
  let chosen: Reduction | null = spec.reduction ?? null;
  for (const { algorithm } of envs) {
    const own = algorithm.reduction;
    if (own === null) continue;
    if (chosen === null) chosen = own;
    else if (JSON.stringify(sorted(chosen)) !== JSON.stringify(sorted(own))) {
      problems.push(
        problem(
          'reduction',
          `${algorithm.name} is defined with ${say(own)}, but the batch is reduced with ${say(chosen)}: one batch has one reduction`,
        ),
      );
    }
  }
  return chosen ?? { name: 'token_mean' };
}

function say(value: Reduction): string {
  return value.name === 'seq_sum_norm' ? `seq_sum_norm over ${value.horizon}` : value.name;
}

/** Equal for algorithms that are one population in batch statistics: the same name, version and parameters, whatever order their keys came in. */
function populationOf(algorithm: BoundAlgorithm): string {
  return JSON.stringify([algorithm.name, algorithm.version, sorted(algorithm.params)]);
}

/** The value with object keys in order, at every depth. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, inner]) => [key, sorted(inner)]),
  );
}

function problem(field: string, message: string): Problem {
  return { code: 'invalid_value', message: `${field}: ${message}`, field };
}
