/**
 * opsd: on-policy self-distillation. As opd; the teacher is the live policy itself, shown an expert demonstration as a leading system message.
 * Source: prime-rl OPSDAlgorithm; arXiv 2601.19897.
 */
import { z } from 'zod';
import type { Algorithm } from './algorithm.ts';
import { REF_KL_STREAMS } from './opd.ts';

/** The usual system message with a demonstration. */
export const HINT_TEMPLATE = 'Here is an example of an expert response:\n<demonstration>\n{demonstration}\n</demonstration>';

type OpsdParams = { readonly demoKey: string; readonly template: string; readonly upstream: string | null; readonly model: string | null };

export const opsd: Algorithm<OpsdParams> = {
  name: 'opsd',
  version: 1,
  scope: 'group',
  params: z.strictObject({
    demoKey: z.string().min(1).default('demonstration').meta({ description: 'where the task keeps the demonstration' }),
    template: z
      .string()
      .refine((text) => text.includes('{demonstration}'), { message: 'must contain {demonstration}' })
      .default(HINT_TEMPLATE)
      .meta({ description: 'the system message' }),
    upstream: z
      .string()
      .min(1)
      .nullable()
      .default(null)
      .meta({ description: 'name of the upstream that serves the policy; null = the only one' }),
    model: z.string().min(1).nullable().default(null).meta({ description: 'its name there; null = the only one it serves' }),
  }),
  streams: () => REF_KL_STREAMS,
  needsReward: false,
  needsReference: true,
  needsDemonstration: true,
  sources: ['policy'],
  score: () => ({ values: null }),
};
