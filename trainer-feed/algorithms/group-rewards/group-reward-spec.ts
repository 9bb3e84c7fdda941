/** How a feed asks for rewards that compare the members of a group. The values are in win-rate.ts, bradley-terry.ts and conciseness.ts. */
import { z } from 'zod';

/** What a judge is asked when the spec says nothing else. */
export const JUDGE_TEMPLATE =
  'Two answers were given to one task. Say which is better.\n\n<task>\n{prompt}\n</task>\n\n<answer_A>\n{first}\n</answer_A>\n\n<answer_B>\n{second}\n</answer_B>\n\n' +
  'End with one line that holds nothing but A, B or tie.';

const PLACES = ['{prompt}', '{first}', '{second}'] as const;

const common = {
  name: z.string().min(1).max(256).meta({ description: 'name of the reward' }),
  weight: z.number().default(1).meta({ description: 'its weight in the reward of a trace' }),
  agent: z.string().min(1).nullable().default(null).meta({ description: 'only traces of this agent are compared; null = all' }),
};

const judge = {
  upstream: z.string().min(1).meta({ description: "name of the judge's upstream in the server's configuration" }),
  model: z.string().min(1).nullable().default(null).meta({ description: 'its name there; null = the only one it serves' }),
  template: z
    .string()
    .refine((text) => PLACES.every((place) => text.includes(place)), { message: `must contain ${PLACES.join(', ')}` })
    .default(JUDGE_TEMPLATE)
    .meta({ description: 'the message to the judge' }),
  show: z
    .enum(['answer', 'transcript'])
    .default('answer')
    .meta({ description: 'what it sees of a trace: the last answer, or everything after the prompt' }),
  maxTokens: z.int().positive().max(32_768).default(512).meta({ description: 'tokens the judge may answer with' }),
};

export const groupReward = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('pairwise'), ...common, ...judge }),
  z.strictObject({ kind: z.literal('ranking'), ...common, ...judge }),
  z.strictObject({
    kind: z.literal('conciseness'),
    ...common,
    bonus: z.number().positive().meta({ description: 'reward of the shortest correct member' }),
    threshold: z.number().meta({ description: 'correct = at least this' }),
    on: z.string().min(1).nullable().default(null).meta({ description: 'the reward that says what is correct; null = the total' }),
  }),
]);
export type GroupRewardSpec = z.output<typeof groupReward>;

/** Rewards that must be there before members can be compared. */
export function neededRewards(specs: readonly GroupRewardSpec[]): string[] {
  return specs.flatMap((spec) => (spec.kind === 'conciseness' && spec.on !== null ? [spec.on] : []));
}

/** Whether the comparison needs some reward of the members' own, whichever; a judge needs none. */
export function needsOwnReward(specs: readonly GroupRewardSpec[]): boolean {
  return specs.some((spec) => spec.kind === 'conciseness' && spec.on === null);
}
