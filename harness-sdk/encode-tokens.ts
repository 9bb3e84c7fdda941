/** Token streams of a node as typed arrays, exactly: what does not fit is refused by name, with the codes the server uses. */
import { TapedeckError, type ErrorCode } from '../base/errors.ts';
import { PackedArray } from '../events/packed-array.ts';
import type { DataOf } from '../events/registry.ts';
import type { Tokens } from './record-types.ts';

type NodeTokens = NonNullable<DataOf<'node.appended'>['tokens']>;

const MAX_TOKEN_ID = 2 ** 31 - 1;

/** Throws `token_id_range`, `mask_length`, `is_content_length`, `logprobs_length`, `stream_length`, `invalid_value`. */
export function tokensOf(tokens: Tokens, sampled: boolean): NodeTokens {
  const ids = idsOf(tokens.ids);
  const mask = tokens.mask === undefined ? new Uint8Array(ids.length).fill(sampled ? 1 : 0) : flagsOf('mask', tokens.mask);
  if (mask.length !== ids.length) throw lengthError('mask_length', 'mask', mask.length, ids.length, 'ids');
  let ones = 0;
  for (const flag of mask) ones += flag;
  const compact = (name: 'logprobs' | 'referenceLogprobs' | 'advantages'): PackedArray<'f32'> | undefined => {
    const values = tokens[name];
    if (values === undefined) return undefined;
    if (values.length !== ones) throw lengthError(name === 'logprobs' ? 'logprobs_length' : 'stream_length', name, values.length, ones, 'sampled ids (ones in mask)'); // prettier-ignore
    return PackedArray.of(values instanceof Float32Array ? values : floatsOf(name, values));
  };
  const isContent = tokens.isContent === undefined ? undefined : flagsOf('isContent', tokens.isContent);
  if (isContent !== undefined && isContent.length !== ids.length) throw lengthError('is_content_length', 'isContent', isContent.length, ids.length, 'ids'); // prettier-ignore
  const covered = tokens.policyRuns?.reduce((sum, { length }) => sum + length, 0);
  if (covered !== undefined && covered !== ones)
    throw lengthError('stream_length', 'policyRuns', covered, ones, 'sampled ids (ones in mask)');
  return {
    ids: PackedArray.of(ids),
    mask: PackedArray.of(mask),
    isContent: isContent === undefined ? undefined : PackedArray.of(isContent),
    logprobs: compact('logprobs'),
    referenceLogprobs: compact('referenceLogprobs'),
    advantages: compact('advantages'),
    policyRuns: tokens.policyRuns as { length: number; version: number }[] | undefined,
  };
}

function idsOf(ids: Tokens['ids']): Uint32Array {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i] as number;
    if (!(id >= 0 && id <= MAX_TOKEN_ID && Number.isInteger(id)))
      throw new TapedeckError('token_id_range', `tokens.ids[${i}] must be an integer from 0 to 2^31 - 1: trainers hold token ids as int32`);
  }
  if (ids instanceof Uint32Array) return ids;
  if (ids instanceof Int32Array) return new Uint32Array(ids.buffer, ids.byteOffset, ids.length);
  return Uint32Array.from(ids);
}

function flagsOf(name: string, flags: Uint8Array | readonly (number | boolean)[]): Uint8Array {
  const bytes = flags instanceof Uint8Array ? flags : Uint8Array.from(flags, (flag) => (flag === true || flag === 1 ? 1 : flag === false || flag === 0 ? 0 : 2)); // prettier-ignore
  let seen = 0;
  for (const flag of bytes) seen |= flag;
  if (seen > 1) throw new TapedeckError('invalid_value', `tokens.${name} must hold only 0 and 1`);
  return bytes;
}

function floatsOf(name: string, values: readonly number[]): Float32Array {
  const odd = values.findIndex((value) => typeof value !== 'number');
  if (odd >= 0)
    throw new TapedeckError('wrong_type', `tokens.${name}[${odd}] must be a number: leave the whole stream out when one is not known`);
  return Float32Array.from(values);
}

function lengthError(code: ErrorCode, name: string, found: number, want: number, of: string): TapedeckError {
  return new TapedeckError(
    code,
    `tokens.${name} has ${found} values but there are ${want} ${of}: give one each, or leave it out when it is not known`,
  );
}
