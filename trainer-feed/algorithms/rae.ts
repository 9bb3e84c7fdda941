/**
 * rae: reward minus a running baseline of the same agent in the same env, for self-play, where the mean of a group says nothing. A member is scored BEFORE its
 * reward moves the baseline: b <- decay b + (1 - decay) r, b starts at 0. Source: prime-rl RAEAlgorithm; arXiv 2506.24119.
 */
import { z } from 'zod';
import { RL_STREAMS, type Algorithm } from './algorithm.ts';

export const rae: Algorithm<{ readonly decay: number }> = {
  name: 'rae',
  version: 1,
  scope: 'group',
  params: z.strictObject({ decay: z.number().min(0).lt(1).default(0.95).meta({ description: 'how much of the old baseline stays' }) }),
  streams: () => RL_STREAMS,
  baseline: ({ decay }) => ({ initial: 0, next: (before, reward) => decay * before + (1 - decay) * reward }),
  score: ({ rewards, baselines }) => ({ values: rewards.map((reward, i) => reward - (baselines?.[i] ?? 0)) }),
};
