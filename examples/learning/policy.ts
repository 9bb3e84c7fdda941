/**
 * A log-linear policy over a small vocabulary. The logit of token v at a place is a sum of weights, one for each thing it sees:
 *   a bias of v; for each of the WINDOW places before, one weight per token u that stands there and v; and, where u = v, two weights for saying again what stands there: one per
 *   first token of the row (which environment it is), one per token two places back.
 * Its gradient is exact: with p = softmax(logits), d log p[y] / d logit[v] = (v = y) - p[v], and a logit is a sum of weights. Everything is float64 but the log-probabilities
 * that are recorded. Weights are one vector of WEIGHTS numbers: window, biases, copies by first token, copies by the token two back.
 */
import type { Random } from '../../base/random.ts';
import { VOCABULARY_SIZE as V } from './vocabulary.ts';

/** How many tokens back it sees. */
const WINDOW = 5;
const BIASES = WINDOW * V * V;
const COPIES_BY_FIRST = BIASES + V;
const COPIES_BY_SECOND = COPIES_BY_FIRST + V * WINDOW;
/** 4,830 of them. */
export const WEIGHTS = COPIES_BY_SECOND + V * WINDOW;

/** Version 0: every token is equally likely. */
export function firstWeights(): Float64Array {
  return new Float64Array(WEIGHTS);
}

/** A row of token ids; a place sees those before it. */
export type Place = { readonly ids: ArrayLike<number>; readonly first: number; readonly at: number };

/** Natural logarithms of the probabilities of what may stand at a place, into `out` (V entries), which is returned. */
export function logProbabilities(weights: Float64Array, place: Place, out: Float64Array): Float64Array {
  for (let v = 0; v < V; v++) out[v] = weights[BIASES + v] as number;
  for (let k = 0; k < seen(place); k++) {
    const token = place.ids[place.at - 1 - k] as number;
    const row = (k * V + token) * V;
    for (let v = 0; v < V; v++) out[v] = (out[v] as number) + (weights[row + v] as number);
    for (const copy of copies(place, k)) out[token] = (out[token] as number) + (weights[copy] as number);
  }
  return normalise(out);
}

/** Adds `slope` times the gradient of log p(the token that stands at the place) to `gradient`; `logps` are those of the place. */
export function addGradient(gradient: Float64Array, logps: Float64Array, place: Place, slope: number): void {
  const chosen = place.ids[place.at] as number;
  const ofLogits = logps.map((logp, v) => slope * ((v === chosen ? 1 : 0) - Math.exp(logp)));
  const add = (row: number): void => {
    for (let v = 0; v < V; v++) gradient[row + v] = (gradient[row + v] as number) + (ofLogits[v] as number);
  };
  add(BIASES);
  for (let k = 0; k < seen(place); k++) {
    const token = place.ids[place.at - 1 - k] as number;
    add((k * V + token) * V);
    for (const copy of copies(place, k)) gradient[copy] = (gradient[copy] as number) + (ofLogits[token] as number);
  }
}

function seen({ first, at }: Place): number {
  return Math.min(WINDOW, at - first);
}

/** Indices of the weights for saying again what stands `k` + 1 places back. */
function copies({ ids, first, at }: Place, k: number): [number, number] {
  const second = ids[Math.max(first, at - 2)] as number;
  return [COPIES_BY_FIRST + (ids[first] as number) * WINDOW + k, COPIES_BY_SECOND + second * WINDOW + k];
}

function normalise(logits: Float64Array): Float64Array {
  const largest = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const normaliser = largest + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0));
  for (let v = 0; v < V; v++) logits[v] = (logits[v] as number) - normaliser;
  return logits;
}

export type Sampled = { readonly ids: number[]; readonly logprobs: Float32Array };

/** Goes on after `context` at temperature 1 until `end` or `limit` tokens; the log-probability of each is that under the full distribution. */
export function sample(weights: Float64Array, context: readonly number[], end: number, limit: number, random: Random): Sampled {
  const ids = [...context];
  const logprobs: number[] = [];
  const logps = new Float64Array(V);
  do {
    logProbabilities(weights, { ids, first: 0, at: ids.length }, logps);
    const chosen = draw(logps, random.next());
    ids.push(chosen);
    logprobs.push(logps[chosen] as number);
  } while (ids.at(-1) !== end && logprobs.length < limit);
  return { ids: ids.slice(context.length), logprobs: Float32Array.from(logprobs) };
}

/** The token whose share of [0, 1) holds `point`. */
function draw(logps: Float64Array, point: number): number {
  let sum = 0;
  for (let v = 0; v < V; v++) {
    sum += Math.exp(logps[v] as number);
    if (point < sum) return v;
  }
  return V - 1; // the sum is 1 but for rounding
}

/** How undecided the policy is at one place, nats. */
export function entropyOf(logps: Float64Array): number {
  return logps.reduce((sum, logp) => sum - Math.exp(logp) * logp, 0);
}
