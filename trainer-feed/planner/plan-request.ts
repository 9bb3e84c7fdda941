/** What a trainer says about its machine: how many data-parallel ranks, and how many tokens fit one forward pass. Decides the packing, never the membership. */
import { createHash } from 'node:crypto';
import { z } from 'zod';

/** Part of `plan_id`: another number where the same request over the same rows would be packed otherwise. */
export const PLANNER_VERSION = 1;

export const planRequest = z.strictObject({
  world: z.int().min(1).max(4096).meta({ description: 'data-parallel ranks' }),
  maxTokens: z
    .int()
    .min(1)
    .max(0x7fff_ffff)
    .meta({ description: 'tokens of one micro-batch, padding included; must hold the longest row' }),
  padToMultiple: z
    .int()
    .min(1)
    .max(65_536)
    .default(1)
    .meta({ description: 'each micro-batch has a multiple of this many tokens (context parallelism, kernels)' }),
  cost: z
    .strictObject({
      linear: z.number().positive().default(1).meta({ description: 'cost of one token in the layers that do not look back' }),
      quadratic: z.number().nonnegative().default(1e-4).meta({ description: 'cost of one pair of tokens in attention' }),
    })
    .prefault({})
    .meta({ description: 'a row of n tokens costs linear * n + quadratic * n * n; only ratios count' }),
});

export type PlanRequest = z.infer<typeof planRequest>;

/** sha256, hexadecimal, of the batch and of everything that decides its packing. Numbers as JSON, which names every double. */
export function planIdOf(batchId: string, { world, maxTokens, padToMultiple, cost }: PlanRequest): string {
  const text = JSON.stringify([batchId, world, maxTokens, padToMultiple, cost.linear, cost.quadratic, PLANNER_VERSION]);
  return createHash('sha256').update(text).digest('hex');
}
