/**
 * echo: the credit of grpo on sampled tokens, and cross-entropy on what the environment answered (tool output, user feedback) after the first sampled node, by role.
 * Needs messages whose tokens are attributed. Source: prime-rl EchoAlgorithm.
 */
import { z } from 'zod';
import type { Algorithm } from './algorithm.ts';
import { completeGrpo, finishGrpo, grpoScope, grpoShape, scoreGrpo, shapeGrpo, type GrpoParams } from './grpo.ts';

type EchoParams = GrpoParams & { readonly roles: Readonly<Record<string, number>>; readonly filter: string | null };

export const echo: Algorithm<EchoParams> = {
  name: 'echo',
  version: 2,
  scope: grpoScope,
  params: z
    .strictObject({
      ...grpoShape,
      roles: z
        .record(z.string().min(1), z.number().positive())
        .refine((roles) => Object.keys(roles).length > 0, { message: 'must name at least one role' })
        .default({ tool: 0.1 })
        .meta({ description: 'ce weight by role of the message' }),
      filter: z.string().min(1).nullable().default(null).meta({ description: 'name of a token filter from a module of the server' }),
    })
    .transform(completeGrpo),
  streams: (params) => ({ rl: 1, ce: 0, refKl: 0, observations: { roles: params.roles, filter: params.filter } }),
  shape: shapeGrpo,
  score: scoreGrpo,
  finish: finishGrpo,
};
