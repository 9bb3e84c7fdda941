/** Adam (arXiv 1412.6980) over one vector of weights. */

const BETA_1 = 0.9;
const BETA_2 = 0.99;
const EPSILON = 1e-8;

export type Adam = { readonly mean: Float64Array; readonly square: Float64Array; steps: number };

export function startAdam(size: number): Adam {
  return { mean: new Float64Array(size), square: new Float64Array(size), steps: 0 };
}

/** The weights after one step down `gradient`; `weights` stays as it is, the moments of `adam` move. */
export function adamStep(weights: Float64Array, gradient: Float64Array, adam: Adam, rate: number): Float64Array {
  const { mean, square } = adam;
  adam.steps++;
  const corrected = (rate * Math.sqrt(1 - BETA_2 ** adam.steps)) / (1 - BETA_1 ** adam.steps);
  return weights.map((weight, i) => {
    const g = gradient[i] as number;
    mean[i] = BETA_1 * (mean[i] as number) + (1 - BETA_1) * g;
    square[i] = BETA_2 * (square[i] as number) + (1 - BETA_2) * g * g;
    return weight - (corrected * (mean[i] as number)) / (Math.sqrt(square[i] as number) + EPSILON);
  });
}
