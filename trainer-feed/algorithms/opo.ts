/** opo: reward minus the mean weighted by sampled tokens, which minimises the variance of the gradient. Source: verl opo; arXiv 2505.23585. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { allEqual, countedMoments } from './arithmetic.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';

export const opo: Algorithm<{ readonly singleton: Singleton }> = {
  name: 'opo',
  version: 1,
  scope: 'group',
  params: z.strictObject({ singleton }),
  streams: () => RL_STREAMS,
  silentAlone: (params) => params.singleton === 'zero',
  score: ({ rewards, members }, params) => {
    if (rewards.length === 1) return { values: groupCredit(rewards, { epsilon: null, singleton: params.singleton }) };
    if (allEqual(rewards)) return { values: new Float64Array(rewards.length) };
    const lengths = Float64Array.from(members, (m) => m.sampledTokens);
    const { mean: baseline } = countedMoments(rewards, lengths);
    return { values: rewards.map((reward) => reward - baseline) };
  },
};
