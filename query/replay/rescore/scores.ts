/** What a scoring module answers, and what follows from it: which rewards are new, which stand, which are corrected. Pure. */
import { z } from 'zod';
import { fail, ok, type Result } from '../../../base/result.ts';
import { float, name, nodeIndex, record } from '../../../events/fields.ts';
import { rewardKey, type RolloutView, type StandingReward } from './rollout-view.ts';

const score = z.strictObject({
  name,
  score: float.nullable().meta({ description: 'null = not measured' }),
  weight: float.optional(),
  scope: z.enum(['rollout', 'trace', 'node']).default('rollout'),
  trace: z.string().optional(),
  node: nodeIndex.optional(),
  extra: record.optional(),
});
export type Score = z.output<typeof score>;

export type ScoreSource = { readonly kind: 'code' | 'model'; readonly name: string; readonly version: string };

/** One reward before and after. `before` null: it is new. `isSame`: this version has given this very score already. */
export type Rescored = {
  readonly rollout: string;
  readonly score: Score;
  readonly before: StandingReward | null;
  readonly isSame: boolean;
};

/** Null, one score or a list. Problems name the field. */
export function readScores(value: unknown, view: RolloutView): Result<readonly Score[]> {
  if (value === null || value === undefined) return ok([]);
  const parsed = z.array(score).safeParse(Array.isArray(value) ? value : [value]);
  if (!parsed.success)
    return fail('invalid_value', parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('; '));
  const scores: Score[] = [];
  const seen = new Set<string>();
  for (const given of parsed.data) {
    const placed = placedIn(given, view);
    if (!placed.ok) return placed;
    const key = keyOf(placed.value);
    if (seen.has(key)) return fail('invalid_value', `reward ${given.name} is given twice for one ${given.scope}`);
    seen.add(key);
    scores.push(placed.value);
  }
  return ok(scores);
}

/** A score of a trace or node names its trace; the only trace of a rollout goes without saying. */
function placedIn(given: Score, { traces, rollout }: RolloutView): Result<Score> {
  if (given.scope === 'rollout') return ok(given);
  const [only] = traces;
  const trace = given.trace ?? (traces.length === 1 ? only?.trace : undefined);
  const found = traces.find((each) => each.trace === trace);
  if (found === undefined)
    return fail(
      'invalid_value',
      `reward ${given.name}: name one of the traces of ${rollout}: ${traces.map((each) => each.trace).join(', ')}`,
    );
  if (given.scope === 'node' && !found.nodes.some(({ index }) => index === given.node)) {
    return fail('invalid_value', `reward ${given.name}: trace ${found.trace} has no node ${given.node ?? '(none named)'}`);
  }
  return ok({ ...given, trace: found.trace });
}

function keyOf({ scope, trace, node, name: of }: Score): string {
  return rewardKey({ scope, trace: trace ?? null, node: node ?? null, name: of });
}

export function compared(scores: readonly Score[], view: RolloutView, source: ScoreSource): Rescored[] {
  const standing = new Map(view.rewards.map((reward) => [rewardKey(reward), reward]));
  return scores.map((given) => {
    const before = standing.get(keyOf(given)) ?? null;
    const isSame =
      before !== null &&
      Object.is(before.score, given.score) &&
      (given.weight === undefined || before.weight === given.weight) &&
      before.source?.name === source.name &&
      before.source.version === source.version;
    return { rollout: view.rollout, score: given, before, isSame };
  });
}

/** The data of `reward.assigned`. A weight that is not said stays as it was. */
export function rewardData({ score: given, before }: Rescored, source: ScoreSource): Record<string, unknown> {
  const weight = given.weight ?? before?.weight ?? null;
  return {
    scope: given.scope,
    ...(given.scope === 'node' && { node: given.node }),
    name: given.name,
    score: given.score,
    ...(weight !== null && { weight }),
    source,
    ...(before !== null && { supersedes: before.event }),
    ...(given.extra !== undefined && { extra: given.extra }),
  };
}
