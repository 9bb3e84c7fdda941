/** max_rl: (r - mean)/mean, 0 for all where the mean is not positive; rewards must not be negative. Source: prime-rl MaxRLAlgorithm; arXiv 2602.02710. */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';
import { centred, mean } from './arithmetic.ts';

export const maxRl: Algorithm<Record<string, never>> = {
  name: 'max_rl',
  version: 1,
  scope: 'group',
  params: z.strictObject({}),
  streams: () => RL_STREAMS,
  silentAlone: () => true,
  score: ({ rewards, members }) => {
    const negative = rewards.findIndex((reward) => reward < 0);
    if (negative >= 0) {
      return {
        refused: 'negative_reward',
        message: `max_rl needs rewards of at least 0, trace ${members[negative]?.trace} has ${rewards[negative]}: shift the reward or use grpo`,
      };
    }
    const centre = mean(rewards);
    return { values: centre > 0 ? centred(rewards).map((value) => value / centre) : new Float64Array(rewards.length) };
  },
};
