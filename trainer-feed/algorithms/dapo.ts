/**
 * dapo: grpo over the deviation of the group on rewards with a soft penalty near the length limit; groups whose unshaped reward is all equal are left out.
 * Clip-higher is the trainer's. Source: verl grpo and its DAPO reward manager; arXiv 2503.14476.
 */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';

type DapoParams = {
  readonly maxLength: number;
  readonly buffer: number;
  readonly factor: number;
  readonly epsilon: number;
  readonly filterOn: string | null;
  readonly overlongFilter: boolean;
  readonly singleton: Singleton;
};

export const dapo: Algorithm<DapoParams> = {
  name: 'dapo',
  version: 1,
  scope: 'group',
  params: z
    .strictObject({
      maxLength: z.int().positive().meta({ description: 'Lmax: sampled tokens a trace may have' }),
      buffer: z.int().positive().meta({ description: 'the last so many of them are penalised' }),
      factor: z.number().positive().meta({ description: 'penalty at maxLength' }),
      epsilon: z.number().positive().default(1e-6).meta({ description: 'added to the deviation of the group' }),
      filterOn: z
        .string()
        .min(1)
        .nullable()
        .default(null)
        .meta({ description: 'reward that must differ within a group; null = the total' }),
      overlongFilter: z.boolean().default(false).meta({ description: 'rl weight 0 for truncated traces, which stay in the baseline' }),
      singleton,
    })
    .refine((p) => p.buffer < p.maxLength, { path: ['buffer'], message: 'must be smaller than maxLength' }),
  streams: () => RL_STREAMS,
  silentAlone: () => true, // a group of one is all equal, and the filter drops it
  reduction: () => ({ name: 'token_mean' }),
  groupFilter: (params) => ({ on: params.filterOn }),
  shape: ({ rewards, members }, { maxLength, buffer, factor }) =>
    rewards.map((reward, i) => {
      const member = members[i] as (typeof members)[number];
      return reward + Math.min((-(member.sampledTokens - (maxLength - buffer)) / buffer) * factor, 0);
    }),
  score: ({ rewards, members }, { epsilon, overlongFilter, singleton: alone }) => ({
    values: groupCredit(rewards, { epsilon, singleton: alone }),
    muted: new Set(overlongFilter ? members.flatMap((m, i) => (m.truncated ? [i] : [])) : []),
  }),
};
