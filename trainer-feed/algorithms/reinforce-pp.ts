/**
 * reinforce_pp: the discounted return of every sampled token, whitened over the tokens of the batch; no group is needed. The reward stands at the last sampled
 * token of the branch; tokens that were not sampled are skipped: they neither discount nor reset. Source: verl 0.9.1 reinforce_plus_plus; arXiv 2501.03262.
 */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { whitenMembers, whitenTokens } from './whiten.ts';

export const reinforcePp: Algorithm<{ readonly gamma: number }> = {
  name: 'reinforce_pp',
  version: 1,
  scope: 'batch',
  params: z.strictObject({
    gamma: z
      .number()
      .gt(0)
      .max(1)
      .default(1)
      .meta({ description: 'discount per sampled token; other than 1 the advantage varies along the tokens' }),
  }),
  streams: () => RL_STREAMS,
  score: ({ rewards }) => ({ values: rewards }),
  finish: (members, { gamma }) => {
    if (gamma === 1) return whitenMembers(members, Float64Array.from(members, (m) => m.value)); // prettier-ignore
    return whitenTokens(
      members,
      members.map((m) => m.rows.map((row) => Float64Array.from(row.sampledAfter(), (after) => gamma ** after * m.value))),
    );
  },
};
