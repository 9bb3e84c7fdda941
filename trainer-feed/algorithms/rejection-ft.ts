/** rejection_ft: the policy learns the tokens of members whose reward reaches a threshold, or of the best few of them; the others ship nothing. */
import { z } from 'zod';
import type { Algorithm } from './algorithm.ts';
import { CE_STREAMS } from './sft.ts';

export const rejectionFt: Algorithm<{ readonly threshold: number; readonly best: number }> = {
  name: 'rejection_ft',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    threshold: z.number().meta({ description: 'smallest reward that is learned' }),
    best: z.int().nonnegative().default(0).meta({ description: 'only so many of the best, ties by member order; 0 = all' }),
  }),
  streams: () => CE_STREAMS,
  score: ({ rewards }, { threshold, best }) => {
    const silent = new Map<number, string>();
    const passed: number[] = [];
    for (const [i, reward] of rewards.entries()) {
      if (reward >= threshold) passed.push(i);
      else silent.set(i, 'below_threshold');
    }
    passed.sort((a, b) => (rewards[b] as number) - (rewards[a] as number) || a - b);
    if (best > 0) for (const i of passed.slice(best)) silent.set(i, 'not_among_best');
    return { values: null, silent };
  },
};
