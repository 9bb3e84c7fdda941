/**
 * opd: on-policy distillation. No credit: the trainer pulls the policy towards a teacher's log-probabilities of the very tokens the policy sampled.
 * Source: prime-rl OPDAlgorithm.
 */
import { z } from 'zod';
import type { Algorithm, Streams } from './algorithm.ts';

export const REF_KL_STREAMS: Streams = { rl: 0, ce: 0, refKl: 1 };
/** Where the teacher answers, and optionally the tokenizer it shares with the policy. */
export const teacherShape = {
  teacher: z.string().min(1).meta({ description: 'name of the upstream that scores' }),
  model: z.string().min(1).nullable().default(null).meta({ description: 'its name there; null = the only one it serves' }),
  tokenizerHash: z.string().min(1).nullable().default(null).meta({ description: "the teacher's; traces of another are left out" }),
};

export type TeacherParams = { readonly teacher: string; readonly model: string | null; readonly tokenizerHash: string | null };

export const opd: Algorithm<TeacherParams> = {
  name: 'opd',
  version: 1,
  scope: 'group',
  params: z.strictObject(teacherShape),
  streams: () => REF_KL_STREAMS,
  needsReward: false,
  needsReference: true,
  tokenizerHash: (params) => params.tokenizerHash,
  score: () => ({ values: null }),
};
