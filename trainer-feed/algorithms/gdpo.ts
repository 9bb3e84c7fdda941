/**
 * gdpo: every reward channel is normalised in its group on its own, so that a loud channel does not drown the others; the weighted sum is whitened over the batch.
 * Source: TRL normalize_then_sum (`whiten: samples`); verl gdpo (`whiten: tokens`); arXiv 2601.05242.
 */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm, type BatchScore, type FrozenMember, type GroupInput } from './algorithm.ts';
import { deviation, mean, sum } from './arithmetic.ts';
import { groupCredit } from './group-credit.ts';
import { whitenMembers } from './whiten.ts';

type GdpoParams = { readonly channels: readonly string[]; readonly epsilon: number; readonly whiten: 'samples' | 'tokens' };

const WHITEN_EPSILON = 1e-4;

export const gdpo: Algorithm<GdpoParams> = {
  name: 'gdpo',
  version: 1,
  scope: 'batch',
  params: z
    .strictObject({
      channels: z
        .array(z.string().min(1))
        .min(1)
        .refine((names) => new Set(names).size === names.length, { message: 'must not repeat a name' })
        .meta({ description: 'names of the rewards, each normalised on its own' }),
      epsilon: z
        .number()
        .positive()
        .optional()
        .meta({ description: 'added to the deviation of a channel; 1e-4 for samples, 1e-6 for tokens' }),
      whiten: z.enum(['samples', 'tokens']).default('samples').meta({ description: 'what counts once in the statistics of the batch' }),
    })
    .transform((params) => ({ ...params, epsilon: params.epsilon ?? (params.whiten === 'samples' ? 1e-4 : 1e-6) })),
  streams: () => RL_STREAMS,
  rewardNames: (params) => params.channels,
  score: (input, params) => {
    const twice = input.members.find((m) =>
      params.channels.some((channel) => m.scores.filter((s) => s.name === channel && s.score !== null).length > 1),
    );
    if (twice !== undefined) {
      return {
        refused: 'ambiguous_channel',
        message: `trace ${twice.trace} has a channel twice, for itself and for its rollout: give the rewards different names`,
      };
    }
    const total = new Float64Array(input.members.length);
    const parts = params.channels.map((channel) => channelCredit(input, channel, params.epsilon));
    for (let i = 0; i < total.length; i++) total[i] = sum(Float64Array.from(parts, (part) => part[i] as number));
    return { values: total };
  },
  finish: (members, params) =>
    params.whiten === 'samples' ? whitenSamples(members) : whitenMembers(members, Float64Array.from(members, (m) => m.value)), // prettier-ignore
};

/** weight x z of one channel for each member; a member without the channel, or alone in having it, gets 0 from it. An errored member counts as 0. */
function channelCredit(input: GroupInput, channel: string, epsilon: number): Float64Array {
  const weights = new Float64Array(input.members.length);
  const at: number[] = [];
  const scores: number[] = [];
  for (const [i, member] of input.members.entries()) {
    const found = member.failed ? { score: 0, weight: 0 } : member.scores.find((s) => s.name === channel && s.score !== null);
    if (found === undefined) continue;
    weights[i] = found.weight;
    at.push(i);
    scores.push(found.score as number);
  }
  const credit = groupCredit(Float64Array.from(scores), { epsilon, singleton: 'zero' });
  const out = new Float64Array(input.members.length);
  for (const [k, i] of at.entries()) out[i] = (weights[i] as number) * (credit[k] as number);
  return out;
}

/** (y - mean)/(std + 1e-4), each member once. */
function whitenSamples(members: readonly FrozenMember[]): BatchScore {
  const values = Float64Array.from(members, (m) => m.value);
  const std = deviation(values);
  return {
    values: groupCredit(values, { epsilon: WHITEN_EPSILON, singleton: 'zero' }),
    statistics: { members: members.length, mean: mean(values), std },
  };
}
