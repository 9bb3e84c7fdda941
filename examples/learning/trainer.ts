/** Trains on the batches of a feed: lease, read, step, commit, publish. Batch n trains step n; the weights after it are version n. */
import type { Random } from '../../base/random.ts';
import { adamStep, type Adam } from './adam.ts';
import type { Checkpoint, FeedClient } from './feed-client.ts';
import { batchGradient, shuffledAdvantages, type StepMetrics } from './gradient.ts';
import type { RlLoss } from './loss.ts';
import type { Policy } from './play.ts';

export type Stepped = { readonly policy: Policy; readonly checkpoint: Checkpoint; readonly metrics: StepMetrics & { readonly lr: number } };

export type TrainerOptions = {
  readonly feed: FeedClient;
  readonly policy: Policy;
  readonly adam: Adam;
  /** Where the weights were trained to; null = they are the first. */
  readonly checkpoint: Checkpoint | null;
  readonly loss: RlLoss;
  readonly rate: number;
  /** Gives rows the advantages of others: the control, which must not learn. */
  readonly shuffle: Random | null;
  /** After the commit and before the publication: the new weights are safe once it resolves. */
  readonly onStep: (stepped: Stepped) => Promise<void> | void;
  readonly signal: AbortSignal;
};

/** Resolves at the end of the feed, or after the step under way when stopped. */
export async function train(options: TrainerOptions): Promise<void> {
  const { feed, loss, rate, adam, shuffle, onStep, signal } = options;
  let { weights } = options.policy;
  const { next, timeline } = await feed.resume(options.checkpoint);
  if (options.checkpoint === null) await feed.publish(0);
  for (let step = next; !signal.aborted; step++) {
    const lease = await feed.lease(step);
    if (lease === null) return;
    const microBatches = await feed.read(lease.n);
    const advantages = shuffle === null ? microBatches.map((each) => each.advantages()) : shuffledAdvantages(microBatches, shuffle);
    const { gradient, metrics } = batchGradient(weights, microBatches, advantages, lease.counts.N_rl, loss);
    weights = adamStep(weights, gradient, adam, rate);
    const stepped = {
      policy: { version: step, weights },
      checkpoint: { timeline, n: step, batchId: lease.batchId },
      metrics: { ...metrics, lr: rate },
    };
    await feed.commit(lease, stepped.metrics);
    await onStep(stepped);
    await feed.publish(step);
  }
}
