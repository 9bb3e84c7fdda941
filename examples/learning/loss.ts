/**
 * The rl component of the loss per token, and its slope, the derivative by the trainer's log-probability. The same formulas as the reference losses of the Python client
 * (trainer-feed/python/src/tapedeck_feed/losses.py), which follow prime-rl's `loss.py` and PPO (arXiv 1707.06347).
 */

export type TokenLoss = {
  readonly value: number;
  /** d value / d trainer log-probability. */
  readonly slope: number;
  /** The trust region took the policy gradient of this token away. */
  readonly masked: boolean;
};

/** Log-probability under the weights that are trained, under those that sampled, and the token's advantage. */
export type RlLoss = (trainer: number, sampler: number, advantage: number) => TokenLoss;

const MASK = 0.2;
const KL_TAU = 1e-3;

/** DPPO with a squared log-ratio: the importance ratio times the advantage, dropped where the probability moved by more than 0.2 in the direction of the advantage. */
export const dppoKl: RlLoss = (trainer, sampler, advantage) => {
  const logRatio = trainer - sampler;
  const moved = Math.exp(trainer) - Math.exp(sampler);
  const masked = advantage > 0 ? moved > MASK : moved < -MASK;
  const gain = masked ? 0 : advantage * Math.exp(logRatio);
  return { value: -gain + KL_TAU * logRatio ** 2, slope: -gain + 2 * KL_TAU * logRatio, masked };
};

const CLIP = 0.2;

/** PPO's clipped surrogate: -min(ratio A, clip(ratio, 0.8, 1.2) A). */
export const ppoClip: RlLoss = (trainer, sampler, advantage) => {
  const ratio = Math.exp(trainer - sampler);
  const free = ratio * advantage;
  const bounded = Math.min(Math.max(ratio, 1 - CLIP), 1 + CLIP) * advantage;
  return { value: -Math.min(free, bounded), slope: bounded < free ? 0 : -free, masked: bounded < free };
};
