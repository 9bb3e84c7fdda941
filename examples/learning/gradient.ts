/** The loss of one batch and its exact gradient: sum over its tokens of weight x loss / N_rl, as the feed's per-token streams say (docs/algorithms.md). */
import type { Random } from '../../base/random.ts';
import type { ReadMicroBatch } from '../../trainer-feed/planner/read-slice.ts';
import type { RlLoss } from './loss.ts';
import { addGradient, entropyOf, logProbabilities, type Place } from './policy.ts';
import { VOCABULARY_SIZE } from './vocabulary.ts';

export type StepMetrics = {
  readonly loss: number;
  /** Mean over trained tokens, nats. */
  readonly entropy: number;
  /** Mean over trained tokens of ratio - log ratio - 1: how far the weights are from those that sampled. */
  readonly mismatch_kl: number;
  /** Share of trained tokens whose policy gradient the trust region took away. */
  readonly masked: number;
  readonly grad_norm: number;
  readonly tokens: number;
};

/** `advantages`: one array per micro-batch, one number per token. `count`: N_rl of the whole batch. */
export function batchGradient(
  weights: Float64Array,
  microBatches: readonly ReadMicroBatch[],
  advantages: readonly Float32Array[],
  count: number,
  rl: RlLoss,
): { readonly gradient: Float64Array; readonly metrics: StepMetrics } {
  const gradient = new Float64Array(weights.length);
  const logps = new Float64Array(VOCABULARY_SIZE);
  const sums = { loss: 0, entropy: 0, mismatch: 0, masked: 0, tokens: 0 };
  for (const [m, microBatch] of microBatches.entries()) {
    const { weightOf, samplers } = trainedTokens(microBatch);
    for (const place of placesOf(microBatch)) {
      const weight = weightOf(place.at);
      if (weight === 0) continue;
      logProbabilities(weights, place, logps);
      const trainer = logps[place.ids[place.at] as number] as number;
      const sampler = samplers[place.at] as number;
      const { value, slope, masked } = rl(trainer, sampler, (advantages[m] as Float32Array)[place.at] as number);
      addGradient(gradient, logps, place, (weight * slope) / count);
      sums.loss += (weight * value) / count;
      sums.entropy += entropyOf(logps);
      sums.mismatch += Math.exp(trainer - sampler) - (trainer - sampler) - 1;
      sums.masked += masked ? 1 : 0;
      sums.tokens++;
    }
  }
  const mean = (sum: number): number => sum / Math.max(1, sums.tokens);
  return {
    gradient,
    metrics: {
      loss: sums.loss,
      entropy: mean(sums.entropy),
      mismatch_kl: mean(sums.mismatch),
      masked: mean(sums.masked),
      grad_norm: Math.sqrt(gradient.reduce((sum, g) => sum + g * g, 0)),
      tokens: sums.tokens,
    },
  };
}

/** The weight of a token in the rl component, 0 where it takes no part. */
function trainedTokens(microBatch: ReadMicroBatch): { weightOf: (at: number) => number; samplers: Float32Array } {
  const mask = microBatch.stream('loss_mask') as Uint8Array;
  const weights = microBatch.stream('rl_weights') as Float32Array | null;
  return {
    weightOf: (at) => (mask[at] === 1 ? (weights?.[at] ?? 1) : 0),
    samplers: microBatch.stream('logprobs') as Float32Array,
  };
}

function* placesOf({ offsets, stream }: ReadMicroBatch): Generator<Place> {
  const ids = stream('token_ids') as Int32Array;
  for (let row = 0; row + 1 < offsets.length; row++) {
    const first = offsets[row] as number;
    for (let at = first; at < (offsets[row + 1] as number); at++) yield { ids, first, at };
  }
}

/** The control: every row gets the advantage of a row drawn from the batch, each once. What the policy is told is then not what it did. */
export function shuffledAdvantages(microBatches: readonly ReadMicroBatch[], random: Random): Float32Array[] {
  const spread = microBatches.map((microBatch) => microBatch.advantages());
  const rows = microBatches.flatMap(({ offsets, stream }, m) => {
    const mask = stream('loss_mask') as Uint8Array;
    return Array.from({ length: offsets.length - 1 }, (_, row) => ({ m, from: offsets[row] as number, to: offsets[row + 1] as number }))
      .map((row) => ({ ...row, trained: mask.subarray(row.from, row.to).indexOf(1) }))
      .filter(({ trained }) => trained >= 0);
  });
  const drawn = rows.map(({ m, from, trained }) => (spread[m] as Float32Array)[from + trained] as number);
  for (let i = drawn.length - 1; i > 0; i--) {
    const j = Math.floor(random.next() * (i + 1));
    [drawn[i], drawn[j]] = [drawn[j] as number, drawn[i] as number];
  }
  for (const [i, { m, from, to }] of rows.entries()) (spread[m] as Float32Array).fill(drawn[i] as number, from, to);
  return spread;
}
