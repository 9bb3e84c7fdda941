/** reinforce_pp_baseline: reward minus the mean of the group, whitened over the tokens of the batch. Source: verl reinforce_plus_plus_baseline; arXiv 2501.03262. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';
import { whitenMembers } from './whiten.ts';

export const reinforcePpBaseline: Algorithm<{ readonly singleton: Singleton }> = {
  name: 'reinforce_pp_baseline',
  version: 1,
  scope: 'batch',
  params: z.strictObject({ singleton }),
  streams: () => RL_STREAMS,
  score: (input, params) => ({ values: groupCredit(input.rewards, { epsilon: null, singleton: params.singleton }) }),
  finish: (members) => whitenMembers(members, Float64Array.from(members, (m) => m.value)), // prettier-ignore
};
