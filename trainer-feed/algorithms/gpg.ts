/** gpg: alpha (r - mean)/f, alpha = members of the batch over those whose REWARD is not 0. Source: verl gpg. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { groupCredit, singleton, type Singleton } from './group-credit.ts';

export const gpg: Algorithm<{ readonly f: number; readonly singleton: Singleton }> = {
  name: 'gpg',
  version: 1,
  scope: 'batch',
  params: z.strictObject({ f: z.number().positive().default(1).meta({ description: 'divisor of all advantages' }), singleton }),
  streams: () => RL_STREAMS,
  silentAlone: (params) => params.singleton === 'zero',
  score: (input, params) => ({ values: groupCredit(input.rewards, { epsilon: null, singleton: params.singleton }) }),
  finish: (members, { f }) => {
    const nonZero = members.filter((m) => m.reward !== 0).length;
    const alpha = members.length / Math.max(1, nonZero);
    return {
      values: Float64Array.from(members, (m) => (alpha * m.value) / f),
      statistics: { members: members.length, nonZeroRewards: nonZero, alpha },
    };
  },
};
