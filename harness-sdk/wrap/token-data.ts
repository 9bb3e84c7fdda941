/** Token ids and log-probabilities of an answer as typed arrays, or why they cannot be used. */

export type AnswerTokens = { readonly ids: Uint32Array; readonly logprobs: Float32Array | undefined };

const MAX_TOKEN_ID = 2 ** 31 - 1;
/** What engines write for "no value". */
const SENTINEL = -9999;

export function idsOf(values: readonly unknown[] | null): Uint32Array | 'token_id_range' | null {
  if (values === null) return null;
  const fits = values.every((id) => typeof id === 'number' && Number.isInteger(id) && id >= 0 && id <= MAX_TOKEN_ID);
  return fits ? Uint32Array.from(values as readonly number[]) : 'token_id_range';
}

/** `undefined`: the engine gave none. */
export function logprobsOf(
  values: readonly unknown[] | null,
  count: number,
): Float32Array | undefined | 'logprobs_length' | 'logprobs_missing' {
  if (values === null) return undefined;
  if (values.length !== count) return 'logprobs_length';
  const usable = values.every((value) => typeof value === 'number' && Number.isFinite(value) && value > SENTINEL);
  return usable ? Float32Array.from(values as readonly number[]) : 'logprobs_missing';
}
