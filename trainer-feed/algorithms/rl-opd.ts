/** rl_opd: the credit of grpo and the pull of a teacher on the same sampled tokens. `lambda` scales the pull; it does not change how many tokens count. */
import { z } from 'zod';
import type { Algorithm } from './algorithm.ts';
import { completeGrpo, finishGrpo, grpoScope, grpoShape, scoreGrpo, shapeGrpo, type GrpoParams } from './grpo.ts';
import { teacherShape, type TeacherParams } from './opd.ts';

type RlOpdParams = GrpoParams & TeacherParams & { readonly lambda: number };

export const rlOpd: Algorithm<RlOpdParams> = {
  name: 'rl_opd',
  version: 2,
  scope: grpoScope,
  params: z
    .strictObject({
      ...grpoShape,
      ...teacherShape,
      lambda: z.number().positive().default(1).meta({ description: 'weight of the pull' }),
    })
    .transform(completeGrpo),
  streams: (params) => ({ rl: 1, ce: 0, refKl: params.lambda }),
  needsReference: true,
  tokenizerHash: (params) => params.tokenizerHash,
  shape: shapeGrpo,
  score: scoreGrpo,
  finish: finishGrpo,
};
