/**
 * grpo: reward minus the mean of the group, as it is (`scale: none`), over the deviation of the group, or over that of the batch; optionally with a penalty
 * on length. Sources: prime-rl GRPOAlgorithm; verl grpo; TRL scale_rewards.
 */
import { z } from 'zod';
import { deviation, mean } from './arithmetic.ts';
import {
  RL_STREAMS,
  type Algorithm,
  type BatchScore,
  type FrozenMember,
  type GroupInput,
  type GroupScore,
  type Refusal,
} from './algorithm.ts';
import { groupCredit, singleton } from './group-credit.ts';
import { overParts, partsBy } from './parts.ts';

const weight = z.number().min(0);
const lengthPenalty = z.strictObject({
  output: weight.default(0.25).meta({ description: 'weight of sampled tokens' }),
  input: weight.default(0.1).meta({ description: 'weight of all other tokens' }),
  turns: weight.default(0.1).meta({ description: 'weight of sampled nodes' }),
  allowNegative: z.boolean().default(false).meta({ description: 'accept a negative mean, where the penalty becomes a bonus' }),
});

/** Fields of grpo's parameters, for algorithms that give the same credit. */
export const grpoShape = {
  scale: z.enum(['none', 'group', 'batch']).default('none').meta({ description: 'whose deviation divides' }),
  epsilon: z.number().positive().optional().meta({ description: 'added to the deviation; 1e-6 for scale group, 1e-4 for batch' }),
  perAgent: z.boolean().default(false).meta({ description: 'compare only members of the same agent' }),
  singleton,
  lengthPenalty: lengthPenalty.nullable().default(null).meta({ description: 'shares of the mean reward taken from the longest member' }),
};
export type GrpoParams = {
  readonly scale: 'none' | 'group' | 'batch';
  readonly epsilon?: number | undefined;
  readonly perAgent: boolean;
  readonly singleton: 'zero' | 'reward';
  readonly lengthPenalty: z.output<typeof lengthPenalty> | null;
};

/** Fills what depends on other fields and refuses what has no meaning. */
export function completeGrpo<P extends GrpoParams>(params: P, context: z.RefinementCtx): P {
  if (params.scale === 'batch' && params.lengthPenalty !== null) {
    context.addIssue({ code: 'custom', path: ['lengthPenalty'], message: 'cannot be combined with scale batch: use scale none or group' });
  }
  if (params.scale === 'none') {
    if (params.epsilon !== undefined)
      context.addIssue({ code: 'custom', path: ['epsilon'], message: 'has no meaning with scale none: remove it' });
    return params;
  }
  return { ...params, epsilon: params.epsilon ?? (params.scale === 'group' ? 1e-6 : 1e-4) };
}

/** r' = r - mean(r) x (a out/max(1, max out) + b in/max(1, max in) + c turns/max(1, max turns)), maxima over the group. */
export function shapeGrpo(input: GroupInput, { lengthPenalty: penalty }: GrpoParams): Float64Array | Refusal {
  if (penalty === null) return input.rewards;
  const scale = mean(input.rewards);
  if (scale < 0 && !penalty.allowNegative) {
    return {
      refused: 'negative_reward',
      message: `the mean reward ${scale} is negative, which would turn the length penalty into a bonus: set allowNegative to accept that`,
    };
  }
  const output = input.members.map((m) => m.sampledTokens);
  const other = input.members.map((m) => m.totalTokens - m.sampledTokens);
  const turns = input.members.map((m) => m.turns);
  const [maxOutput, maxOther, maxTurns] = [largest(output), largest(other), largest(turns)];
  return input.rewards.map((reward, i) => {
    const fraction =
      (penalty.output * (output[i] as number)) / maxOutput +
      (penalty.input * (other[i] as number)) / maxOther +
      (penalty.turns * (turns[i] as number)) / maxTurns;
    return reward - scale * fraction;
  });
}

function largest(counts: readonly number[]): number {
  return counts.reduce((most, count) => Math.max(most, count), 1);
}

export function scoreGrpo(input: GroupInput, params: GrpoParams): GroupScore {
  const epsilon = params.scale === 'group' ? (params.epsilon as number) : null;
  const credit = (rewards: Float64Array): Float64Array => groupCredit(rewards, { epsilon, singleton: params.singleton });
  if (!params.perAgent) return { values: credit(input.rewards) };
  return { values: overParts(input.rewards, partsBy(input.members, (m) => m.agent), credit) }; // prettier-ignore
}

/**
 * Scale batch: the group's differences over the deviation of the raw rewards of all frozen members; 0 where those are all equal, also when the group's own mean is another
 * (members that ship nothing count there): nothing divides by epsilon alone.
 */
export function finishGrpo(members: readonly FrozenMember[], params: GrpoParams): BatchScore {
  const rewards = Float64Array.from(members, (m) => m.member.reward);
  const std = deviation(rewards);
  const divisor = std + (params.epsilon as number);
  return {
    values: Float64Array.from(members, (m) => (std === 0 ? 0 : m.value / divisor)),
    statistics: { members: members.length, rewardMean: mean(rewards), rewardStd: std },
  };
}

export function grpoScope(params: GrpoParams): 'group' | 'batch' {
  return params.scale === 'batch' ? 'batch' : 'group';
}

export const grpo: Algorithm<GrpoParams> = {
  name: 'grpo',
  version: 2,
  scope: grpoScope,
  params: z.strictObject(grpoShape).transform(completeGrpo),
  streams: () => RL_STREAMS,
  silentAlone: (params) => params.singleton === 'zero',
  shape: shapeGrpo,
  score: scoreGrpo,
  finish: finishGrpo,
};
