/** The credit of one set of rewards against its own mean: the heart of grpo and of everything built on it. */
import { z } from 'zod';
import { centred, deviation } from './arithmetic.ts';

/** What a set of one gets: nothing, or its reward (as if mean were 0 and deviation 1). */
export const singleton = z
  .enum(['zero', 'reward'])
  .default('zero')
  .meta({ description: 'what a group of one gets: nothing, or its reward' });
export type Singleton = z.output<typeof singleton>;

/** (r - mean), divided by (deviation + epsilon) where `epsilon` is given. Exactly 0 where all are equal. */
export function groupCredit(
  rewards: Float64Array,
  options: { readonly epsilon: number | null; readonly singleton: Singleton },
): Float64Array {
  const { epsilon } = options;
  if (rewards.length === 1) {
    const alone = options.singleton === 'reward' ? (rewards[0] as number) : 0;
    return Float64Array.of(epsilon === null ? alone : alone / (1 + epsilon));
  }
  const differences = centred(rewards);
  if (epsilon === null) return differences;
  const divisor = deviation(rewards) + epsilon;
  return differences.map((value) => value / divisor);
}
