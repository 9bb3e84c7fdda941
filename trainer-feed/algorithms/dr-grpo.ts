/** dr_grpo: reward minus the mean of the group, reduced over a constant horizon: neither deviation nor length weighs. Source: verl grpo without std; arXiv 2503.20783. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';

type DrGrpoParams = { readonly horizon: number; readonly singleton: Singleton };

export const drGrpo: Algorithm<DrGrpoParams> = {
  name: 'dr_grpo',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    horizon: z.number().positive().meta({ description: 'tokens by which every sequence is divided, usually the longest completion' }),
    singleton,
  }),
  streams: () => RL_STREAMS,
  silentAlone: (params) => params.singleton === 'zero',
  reduction: (params) => ({ name: 'seq_sum_norm', horizon: params.horizon }),
  score: (input, params) => ({ values: groupCredit(input.rewards, { epsilon: null, singleton: params.singleton }) }),
};
