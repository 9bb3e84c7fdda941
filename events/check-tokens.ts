/** Checks of the token streams of one event that need no history. Loops run over bytes: nothing is allocated per token. */
import type { ErrorCode } from '../base/errors.ts';
import { fail, type Problem } from '../base/result.ts';
import { PackedArray } from './packed-array.ts';
import type { DataOf } from './registry.ts';

type Failure = { readonly ok: false; readonly error: Problem };
type Tokens = NonNullable<DataOf<'node.appended'>['tokens']>;

/**
 * ids fit an int32; mask and isContent have one 0 or 1 per id; the compact streams (logprobs, referenceLogprobs, advantages) one value per
 * sampled token; lossWeights one per id; policyRuns cover the sampled tokens. Values may be NaN or infinite: a feed decides about those.
 */
export function checkTokens(tokens: Tokens): Failure | null {
  const { ids, mask, isContent } = tokens;
  const count = ids.length;
  if (!idsFit(ids.bytes))
    return fail('token_id_range', 'data.tokens.ids must be below 2^31: trainers hold token ids as int32', 'data.tokens.ids');
  if (mask.length !== count) return lengthProblem('mask_length', 'mask', mask.length, count, 'ids');
  const sampled = countOnes(mask.bytes);
  if (sampled < 0) return flagProblem('mask');
  if (isContent !== undefined && isContent !== null) {
    if (isContent.length !== count) return lengthProblem('is_content_length', 'isContent', isContent.length, count, 'ids');
    if (countOnes(isContent.bytes) < 0) return flagProblem('isContent');
  }
  return checkCompact(tokens, sampled) ?? checkLossWeights(tokens, count) ?? checkPolicyRuns(tokens, sampled);
}

function checkCompact(tokens: Tokens, sampled: number): Failure | null {
  if (badLength(tokens.logprobs, sampled)) return lengthProblem('logprobs_length', 'logprobs', tokens.logprobs.length, sampled, 'sampled tokens (ones in mask)'); // prettier-ignore
  for (const name of ['referenceLogprobs', 'advantages'] as const) {
    const stream = tokens[name];
    if (badLength(stream, sampled)) return lengthProblem('stream_length', name, stream.length, sampled, 'sampled tokens (ones in mask)');
  }
  return null;
}

function badLength(stream: PackedArray | null | undefined, want: number): stream is PackedArray {
  return stream !== null && stream !== undefined && stream.length !== want;
}

function checkLossWeights(tokens: Tokens, count: number): Failure | null {
  for (const [name, weights] of Object.entries(tokens.lossWeights ?? {})) {
    // The schema library skips the key __proto__.
    if (!(weights instanceof PackedArray))
      return fail('wrong_type', 'data.tokens.lossWeights must hold streams of f32', 'data.tokens.lossWeights');
    if (weights.length !== count) return lengthProblem('stream_length', `lossWeights.${name}`, weights.length, count, 'ids');
  }
  return null;
}

function checkPolicyRuns(tokens: Tokens, sampled: number): Failure | null {
  if (tokens.policyRuns === null || tokens.policyRuns === undefined) return null;
  const covered = tokens.policyRuns.reduce((sum, run) => sum + run.length, 0);
  return covered === sampled ? null : lengthProblem('stream_length', 'policyRuns', covered, sampled, 'sampled tokens (ones in mask)');
}

/** The trainer's streams describe one branch: all that are given have one length. */
export function checkTrainerStreams(streams: DataOf<'trainer.annotated'>['streams']): Failure | null {
  const given = [streams.trainerLogprobs, streams.entropies, streams.isMasked].filter((s) => s !== null && s !== undefined);
  const odd = given.find((s) => s.length !== given[0]?.length);
  if (odd !== undefined)
    return fail('stream_length', `data.streams must all have one length: found ${given[0]?.length} and ${odd.length}`, 'data.streams');
  if (streams.isMasked && countOnes(streams.isMasked.bytes) < 0) return fail('invalid_value', 'data.streams.isMasked must hold only 0 and 1', 'data.streams.isMasked'); // prettier-ignore
  return null;
}

/** The number of ones, or -1 when another value than 0 and 1 is there. */
function countOnes(flags: Uint8Array): number {
  let ones = 0;
  let seen = 0;
  for (let i = 0; i < flags.length; i++) {
    const flag = flags[i] as number;
    seen |= flag;
    ones += flag;
  }
  return seen > 1 ? -1 : ones;
}

/** True when the top bit of every little-endian uint32 is clear. */
function idsFit(bytes: Uint8Array): boolean {
  let seen = 0;
  for (let i = 3; i < bytes.length; i += 4) seen |= bytes[i] as number;
  return seen < 0x80;
}

function lengthProblem(code: ErrorCode, name: string, found: number, want: number, of: string): Failure {
  const field = `data.tokens.${name}`;
  return fail(code, `${field} has ${found} values but there are ${want} ${of}: send one each, or null when it is not known`, field);
}

function flagProblem(name: string): Failure {
  const field = `data.tokens.${name}`;
  return fail('invalid_value', `${field} must hold only 0 and 1`, field);
}
