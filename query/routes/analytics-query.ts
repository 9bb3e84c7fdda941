/** What every analytics route takes. Values come as text from the address. */
import { z } from 'zod';
import { DEFAULT_PROJECT } from '../../events/envelope.ts';
import { entityId } from '../../events/fields.ts';
import { parseAsOf, type AsOf } from '../analytics/as-of.ts';
import type { Method } from '../analytics/estimates.ts';
import type { Selection } from '../analytics/evaluation.ts';

const MAX_K = 100_000;
const MAX_KS = 64;
const whole = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const name = z.string().min(1).max(1024);

/** One value given several times, or once with commas where the values cannot hold any. */
export function several<T extends z.ZodType>(item: T, most: number): z.ZodPrefault<z.ZodPreprocess<z.ZodArray<T>>> {
  return z.preprocess((given) => (Array.isArray(given) ? given : given === undefined ? [] : [given]), z.array(item).max(most)).prefault([]);
}

export const asOf = z
  .string()
  .default('latest')
  .transform((text, context): AsOf => {
    const parsed = parseAsOf(text);
    if (parsed.ok) return parsed.value;
    context.addIssue({ code: 'custom', message: parsed.error.message });
    return z.NEVER;
  })
  .meta({
    description: 'latest; a position as answers give it (1024.998~12); or a time (2026-01-31T12:00:00Z, or whole microseconds since 1970).',
  });

export const inProject = { project: entityId.default(DEFAULT_PROJECT), asOf };

const filters = {
  env: name.optional().meta({ description: 'Only rollouts of this environment.' }),
  workType: z
    .enum(['train', 'eval'])
    .optional()
    .meta({ description: 'Only training rollouts or only those of evaluations inside a training run.' }),
  step: whole.optional().meta({ description: 'Only rollouts made for this training step.' }),
};

export const ofRun = {
  run: entityId.meta({ description: 'The run.' }),
  ...filters,
  policyVersion: whole.optional().meta({ description: 'Only rollouts that began under this version.' }),
};

const ks = z
  .string()
  .regex(/^\d{1,6}(,\d{1,6})*$/, 'must be whole numbers with commas between them, such as 1,4,8')
  .transform((text) => text.split(',').map(Number))
  .pipe(z.array(z.number().min(1, 'must be at least 1').max(MAX_K)).max(MAX_KS));

export const judging = {
  reward: name.optional().meta({ description: 'Name of the reward to judge by; absent: the sum of score times weight.' }),
  threshold: z.coerce.number().default(1).meta({ description: 'A score of at least this solves a task.' }),
};

export const estimating = {
  ...judging,
  answer: name.optional().meta({ description: 'Metric that holds the answer of a rollout: adds majority votes (maj@k).' }),
  chooseBy: name.optional().meta({ description: 'Reward that best@k chooses by; absent: the one it is judged by.' }),
  k: ks.optional().meta({ description: 'Values of k with commas between them; absent: powers of two, and the largest.' }),
  missing: z
    .enum(['excluded', 'zero'])
    .default('excluded')
    .meta({ description: 'What a rollout without a score counts as. The other policy is answered beside it.' }),
  over: z.enum(['tasks', 'envs']).default('tasks').meta({ description: 'Mean over tasks, or over the means of environments.' }),
  confidence: z.coerce.number().min(0.5).max(0.9999).default(0.95),
  resamples: z.coerce.number().int().min(0).max(100_000).default(2_000).meta({ description: 'Resamples of the bootstrap; 0 for none.' }),
  seed: z.coerce.number().int().min(0).max(0xffff_ffff).default(0).meta({ description: 'Seed of everything that is drawn by chance.' }),
};

type Judged = { readonly reward?: string | undefined };
type Estimated = Judged & {
  readonly answer?: string | undefined; readonly chooseBy?: string | undefined; readonly threshold: number; readonly missing: Method['missing'];
  readonly over: Method['over']; readonly confidence: number; readonly resamples: number; readonly seed: number;
}; // prettier-ignore

export function methodOf(query: Estimated): Method {
  const { threshold, missing, over, confidence, resamples, seed } = query;
  return { reward: query.reward ?? null, answer: query.answer ?? null, chooseBy: query.chooseBy ?? null, threshold, missing, over, confidence, resamples, seed };
} // prettier-ignore

export function selectionOf(query: Selection): Selection {
  const { run, env, workType, step, policyVersion } = query;
  return { run, ...(env !== undefined && { env }), ...(workType !== undefined && { workType }), ...(step !== undefined && { step }), ...(policyVersion !== undefined && { policyVersion }) }; // prettier-ignore
}
