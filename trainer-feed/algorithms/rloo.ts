/** rloo: reward minus the mean of the OTHER members, n/(n - 1) x (r - mean). Source: verl rloo and rloo_vectorized; TRL rloo; arXiv 2402.14740. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { centred } from './arithmetic.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';

export const rloo: Algorithm<{ readonly singleton: Singleton }> = {
  name: 'rloo',
  version: 1,
  scope: 'group',
  params: z.strictObject({ singleton }),
  streams: () => RL_STREAMS,
  silentAlone: (params) => params.singleton === 'zero',
  score: ({ rewards }, params) => {
    const n = rewards.length;
    if (n === 1) return { values: groupCredit(rewards, { epsilon: null, singleton: params.singleton }) };
    return { values: centred(rewards).map((value) => (n / (n - 1)) * value) };
  },
};
