/**
 * opsd: on-policy self-distillation. As opd; the teacher is the live policy itself, shown an expert demonstration as a leading system message.
 * Source: prime-rl OPSDAlgorithm; arXiv 2601.19897.
 */
import { z } from 'zod';
import type { Algorithm } from './algorithm.ts';
import { REF_KL_STREAMS } from './opd.ts';

const TEMPLATE = 'Here is an example of an expert response:\n<demonstration>\n{demonstration}\n</demonstration>';

export const opsd: Algorithm<{ readonly demoKey: string; readonly template: string }> = {
  name: 'opsd',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    demoKey: z.string().min(1).default('demonstration').meta({ description: 'where the task keeps the demonstration' }),
    template: z
      .string()
      .refine((text) => text.includes('{demonstration}'), { message: 'must contain {demonstration}' })
      .default(TEMPLATE)
      .meta({ description: 'the system message' }),
  }),
  streams: () => REF_KL_STREAMS,
  needsReward: false,
  needsReference: true,
  needsDemonstration: true,
  sources: ['policy'],
  score: () => ({ values: null }),
};
