/**
 * The specification of a feed: what the cut reads (algorithms/spec.ts) plus groups and serving. `resolveFeedSpec` checks it whole, lists every fault at once, and refuses
 * what could never give a batch.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import type { Problem, Result } from '../../base/result.ts';
import { entityId } from '../../events/fields.ts';
import type { BoundAlgorithm } from '../algorithms/algorithm.ts';
import { needsOwnReward, neededRewards } from '../algorithms/group-rewards/group-reward-spec.ts';
import { HINT_TEMPLATE } from '../algorithms/opsd.ts';
import type { Registry } from '../algorithms/registry.ts';
import { cutShape, cutSpec, resolveSpec, sorted, type ResolvedSpec } from '../algorithms/spec.ts';
import type { Admission } from '../groups/admission.ts';
import type { GroupPolicy } from '../groups/group-judge.ts';

const DAY_SECONDS = 86_400;
const seconds = z
  .number()
  .positive()
  .max(365 * DAY_SECONDS);

const group = z
  .strictObject({
    size: z
      .int()
      .positive()
      .nullable()
      .default(null)
      .meta({ description: 'size of groups that declare none; null = group.sealed or the deadline closes them' }),
    minSize: z.int().positive().default(1).meta({ description: 'a group with fewer usable rollouts fails' }),
    redundant: z.enum(['first', 'all']).default('first').meta({ description: 'more rollouts than size: those that ended first, or all' }),
    deadlineSeconds: seconds
      .default(3600)
      .meta({ description: 'after the feed first saw the group, in time that the feed ran: what is there counts' }),
    scoringDeadlineSeconds: seconds.default(600).meta({ description: 'after the members were fixed: what is scored counts' }),
    unscored: z
      .enum(['exclude', 'fail'])
      .default('exclude')
      .meta({ description: 'at that deadline: leave unscored rollouts out, or give the group up' }),
    requiredRewards: z
      .array(z.string().min(1))
      .max(256)
      .default([])
      .meta({ description: 'rewards a rollout must have to be scored; none = any reward' }),
  })
  .prefault({});

export const feedSpec = z.strictObject({
  ...cutShape,
  runs: z
    .array(entityId)
    .min(1)
    .max(10_000)
    .nullable()
    .default(null)
    .meta({ description: 'runs it reads; null = all runs of the project' }),
  work: z.enum(['train', 'eval', 'any']).default('train').meta({ description: 'which rollouts enter, by work.type' }),
  unlabelled: z.enum(['skip', 'train', 'eval']).default('skip').meta({ description: 'what a rollout without work.type counts as' }),
  batch: z.strictObject({ by: z.enum(['rollouts', 'groups', 'tokens']), size: z.int().positive().max(1e12) }).meta({
    description: 'whole groups enter until this is reached; groups counts those that ship rows',
  }),
  group,
  cutAhead: z.int().min(1).max(64).default(1).meta({ description: 'how many batches may be cut beyond the last commit' }),
  stepsPerCut: z.int().min(1).max(64).default(1).meta({ description: 'so many batches are cut at once, against the same weights' }),
  maxTimesTrained: z.int().min(1).max(1000).default(1).meta({ description: 'how many batches may hold one group' }),
  flush: z.boolean().default(true).meta({ description: 'at the end of the runs, what is left makes a last, smaller batch' }),
  seed: z.int().min(0).max(0xffff_ffff).default(0).meta({ description: 'for the order of rows in a plan' }),
  from: z
    .union([z.enum(['beginning', 'now']), z.strictObject({ positions: z.array(z.int().nonnegative()).min(1) })])
    .default('beginning')
    .meta({ description: 'where in the events log it starts to read' }),
  membership: z
    .string()
    .refine((text) => text === 'recut' || (text.startsWith('as:') && text.length > 3), { message: 'must be recut or as:<feed>' })
    .default('recut')
    .meta({ description: 'as:<feed> = the same groups in the same batches as that feed' }),
  rewardsAsOf: z
    .enum(['cut', 'latest'])
    .default('cut')
    .meta({ description: 'latest = rewards as the log has them when the feed is created' }),
  rolloutExpirySeconds: seconds.default(3600).meta({ description: 'a rollout silent for so long no longer counts as running' }),
  keepBatches: z
    .int()
    .min(1)
    .max(1000)
    .default(4)
    .meta({ description: 'committed batches whose groups stay at hand for a rewind with recut' }),
  keepCheckpoints: z.int().min(1).max(100).default(2).meta({ description: 'newest checkpoints whose batches stay on disk' }),
});
export type FeedSpec = z.output<typeof feedSpec>;
export type FeedSpecInput = z.input<typeof feedSpec>;

export type ResolvedFeedSpec = { readonly spec: FeedSpec; readonly specHash: string; readonly cut: ResolvedSpec };

/** Every problem names its field and a remedy. */
export function resolveFeedSpec(input: unknown, registry: Registry): Result<ResolvedFeedSpec, readonly Problem[]> {
  const parsed = feedSpec.safeParse(input);
  if (!parsed.success) return { ok: false, error: parsed.error.issues.map((issue) => problem(issue.path.join('.'), issue.message)) };
  const spec = parsed.data;
  const size = spec.group.size;
  const cut = resolveSpec(cutPartOf(spec), registry, size === null ? {} : { groupSize: size });
  const problems = [...(cut.ok ? [] : cut.error), ...neverMet(spec)];
  if (!cut.ok || problems.length > 0) return { ok: false, error: problems };
  return { ok: true, value: { spec, specHash: specHashOf(spec), cut: cut.value } };
}

function cutPartOf(spec: FeedSpec): unknown {
  return Object.fromEntries(Object.keys(cutSpec.shape).flatMap((key) => (key in spec ? [[key, spec[key as keyof FeedSpec]]] : [])));
}

/** sha256 of the whole specification with its defaults, keys in order. */
export function specHashOf(spec: FeedSpec): string {
  return hash('sha256', JSON.stringify(sorted(spec)), 'hex');
}

function neverMet(spec: FeedSpec): Problem[] {
  const found: Problem[] = [];
  const { maxOffPolicySteps } = spec.staleness;
  if (spec.group.size !== null && spec.group.minSize > spec.group.size) {
    found.push(problem('group.minSize', `exceeds group.size ${spec.group.size}: no group could be ready`));
  }
  if (spec.stepsPerCut > spec.cutAhead) {
    found.push(problem('cutAhead', `must be at least stepsPerCut (${spec.stepsPerCut}), or its batches could never be cut together`));
  }
  if (maxOffPolicySteps !== null && spec.cutAhead - 1 > maxOffPolicySteps && spec.staleness.strategy !== 'wait') {
    found.push(
      problem(
        'cutAhead',
        `${spec.cutAhead} with maxOffPolicySteps ${maxOffPolicySteps}: the last batches cut ahead would hold only rows that are too old; use at most ${maxOffPolicySteps + 1}`,
      ),
    );
  }
  if (spec.batch.by === 'tokens' && spec.maxRowTokens > spec.batch.size) {
    found.push(
      problem('batch.size', `is below maxRowTokens ${spec.maxRowTokens}: one row could be larger than the batch; make it at least that`),
    );
  }
  if (spec.membership !== 'recut' && [...Object.values(spec.envs), spec.others].some((env) => (env?.groupRewards ?? []).length > 0)) {
    found.push(
      problem('membership', 'as:<feed> takes rewards as that feed saw them, so groupRewards would never be asked for: remove them'),
    );
  }
  if (spec.membership !== 'recut' && spec.stepsPerCut > 1) {
    found.push(problem('stepsPerCut', 'has no meaning with membership as:<feed>, whose batches are given: remove it'));
  }
  return found;
}

function problem(field: string, message: string): Problem {
  return { code: 'invalid_value', message: field === '' ? message : `${field}: ${message}`, field };
}

/** What of the specification decides which rollouts enter. */
export function admissionOf({ spec, cut }: ResolvedFeedSpec, project: string): Admission {
  const algorithms = [...Object.keys(cut.spec.envs).map((env) => cut.envOf(env)), cut.envOf(UNNAMED)].flatMap(
    (env) => env?.algorithm ?? [],
  );
  return {
    project,
    runs: spec.runs,
    envs: cut.envOf(UNNAMED) === null ? Object.keys(cut.spec.envs) : null,
    work: spec.work,
    unlabelled: spec.unlabelled,
    teacherOf: (env) => teacherOf(cut, env),
    teachers: new Set(algorithms.flatMap((algorithm) => sourceOfScores(algorithm) ?? [])),
    demoKeyOf: (env) => textParam(cut.envOf(env)?.algorithm ?? null, 'demoKey'),
  };
}

/** No env is called so: ids are not empty. */
const UNNAMED = '';

/** `source` of the reference scores that count for rollouts of an env; null when its algorithm needs none. */
export function teacherOf(cut: ResolvedSpec, env: string): string | null {
  const algorithm = cut.envOf(env)?.algorithm ?? null;
  return algorithm === null ? null : sourceOfScores(algorithm);
}

/** The teacher's name, or `policy` where the live policy is its own teacher; shown anything but the usual hint it is another teacher. */
function sourceOfScores(algorithm: BoundAlgorithm): string | null {
  if (!algorithm.needsReference) return null;
  const teacher = textParam(algorithm, 'teacher');
  if (teacher !== null || !algorithm.needsDemonstration) return teacher;
  const shown = JSON.stringify([textParam(algorithm, 'demoKey'), textParam(algorithm, 'template')]);
  return shown === USUAL_HINT ? 'policy' : `policy:${hash('sha256', shown, 'hex').slice(0, 16)}`;
}

const USUAL_HINT = JSON.stringify(['demonstration', HINT_TEMPLATE]);

function textParam(algorithm: BoundAlgorithm | null, name: string): string | null {
  const value = algorithm?.params[name];
  return typeof value === 'string' ? value : null;
}

const MICROS = 1_000_000;

/** When a group of `env` is complete, scored and given up. */
export function groupPolicyOf({ spec, cut }: ResolvedFeedSpec, env: string): GroupPolicy {
  const { size, minSize, redundant, deadlineSeconds, scoringDeadlineSeconds, unscored } = spec.group;
  const compared = cut.envOf(env)?.spec.groupRewards ?? [];
  const own = new Set(compared.map(({ name }) => name));
  const requiredRewards = [...new Set([...spec.group.requiredRewards, ...neededRewards(compared)])].filter((name) => !own.has(name));
  // a judge compares rollouts that nothing else scores
  const judged = requiredRewards.length === 0 && compared.length > 0 && !needsOwnReward(compared);
  return {
    size,
    minGroupSize: minSize,
    redundant,
    deadline: deadlineSeconds * MICROS,
    scoringDeadline: scoringDeadlineSeconds * MICROS,
    unscored,
    requiredRewards,
    needsRewards: !judged && (cut.envOf(env)?.algorithm.needsReward ?? true),
  };
}
