/** Trains on the batches of a feed: lease, read, step, commit, publish. Batch n trains step n; the weights after it are version n. */
import type { Random } from '../../base/random.ts';
import { adamStep, type Adam } from './adam.ts';
import type { Checkpoint, FeedClient } from './feed-client.ts';
import { batchGradient, shuffledAdvantages, type StepMetrics } from './gradient.ts';
import type { RlLoss } from './loss.ts';
import type { Policy } from './play.ts';

export type Stepped = {
  readonly policy: Policy;
  /** Moves on with the next step. */
  readonly adam: Adam;
  readonly checkpoint: Checkpoint;
  readonly metrics: StepMetrics & { readonly lr: number };
};

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
  /** Between the step and its commit: where a checkpoint is written. A commit that is lost after it is made up for when the trainer comes back. */
  readonly save: (stepped: Stepped) => void;
  /** The new weights are published. */
  readonly onStep: (stepped: Stepped) => void;
  readonly signal: AbortSignal;
};

/** Resolves at the end of the feed. Throws the signal's reason when stopped. */
export async function train(options: TrainerOptions): Promise<void> {
  const { feed, loss, rate, adam, shuffle, save, onStep, signal } = options;
  let { weights, version } = options.policy;
  const { next, timeline } = await feed.resume(options.checkpoint);
  // after a restart too: the process may have died between a commit and its publication
  if ((await feed.policyVersion()) !== version) await feed.publish(version);
  for (let step = next; !signal.aborted; step++) {
    const lease = await feed.lease(step);
    if (lease === null) return;
    const microBatches = await feed.read(lease.n);
    const advantages = shuffle === null ? microBatches.map((each) => each.advantages()) : shuffledAdvantages(microBatches, shuffle);
    const { gradient, metrics } = batchGradient(weights, microBatches, advantages, lease.counts.N_rl, loss);
    weights = adamStep(weights, gradient, adam, rate);
    version = step;
    const measured = { ...metrics, lr: rate };
    const checkpoint = { timeline, n: step, batchId: lease.batchId, metrics: measured };
    const stepped = { policy: { version, weights }, adam, checkpoint, metrics: measured };
    save(stepped);
    await feed.commit(lease, stepped.metrics);
    await feed.publish(step);
    onStep(stepped);
  }
}
