/** sft: hard distillation. The policy learns every token that a frozen model sampled; log-probabilities are not needed. Source: prime-rl SFTDistillAlgorithm. */
import { z } from 'zod';
import type { Algorithm, Streams } from './algorithm.ts';

export const CE_STREAMS: Streams = { rl: 0, ce: 1, refKl: 0 };

export const sft: Algorithm<Record<string, never>> = {
  name: 'sft',
  version: 1,
  scope: 'group',
  params: z.strictObject({}),
  streams: () => CE_STREAMS,
  needsReward: false,
  sources: ['frozen'],
  score: () => ({ values: null }),
};
