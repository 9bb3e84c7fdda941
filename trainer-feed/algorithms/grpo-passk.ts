/** grpo_passk: only the best member is credited, with its lead over the second; a tie at the top, or a group of one, gives nothing. Source: verl grpo_passk; arXiv 2503.19595. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { deviation } from './arithmetic.ts';

export const grpoPassk: Algorithm<{ readonly scale: 'none' | 'group'; readonly epsilon: number }> = {
  name: 'grpo_passk',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    scale: z.enum(['none', 'group']).default('group').meta({ description: 'whose deviation divides' }),
    epsilon: z.number().positive().default(1e-6).meta({ description: 'added to the deviation of the group' }),
  }),
  streams: () => RL_STREAMS,
  silentAlone: () => true,
  score: ({ rewards }, { scale, epsilon }) => {
    const values = new Float64Array(rewards.length);
    if (rewards.length < 2) return { values, silent: new Map([[0, 'singleton']]) };
    const [best, second] = rewards.toSorted((a, b) => b - a) as unknown as [number, number];
    const lead = best - second;
    if (lead > 0) values[rewards.indexOf(best)] = scale === 'group' ? lead / (deviation(rewards) + epsilon) : lead;
    return { values };
  },
};
