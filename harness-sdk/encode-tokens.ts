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
  const filled = sampled ? 1 : 0;
  const { bytes: mask, ones } = tokens.mask === undefined ? { bytes: new Uint8Array(ids.length).fill(filled), ones: ids.length * filled } : flagsOf('mask', tokens.mask); // prettier-ignore
  if (mask.length !== ids.length) throw lengthError('mask_length', 'mask', mask.length, ids.length, 'ids');
  const compact = (name: 'logprobs' | 'referenceLogprobs' | 'advantages'): PackedArray<'f32'> | undefined => {
    const values = tokens[name];
    if (values === undefined) return undefined;
    if (values.length !== ones) throw lengthError(name === 'logprobs' ? 'logprobs_length' : 'stream_length', name, values.length, ones, 'sampled ids (ones in mask)'); // prettier-ignore
    return packed('f32', values instanceof Float32Array ? values : floatsOf(name, values));
  };
  const isContent = tokens.isContent === undefined ? undefined : flagsOf('isContent', tokens.isContent).bytes;
  if (isContent !== undefined && isContent.length !== ids.length) throw lengthError('is_content_length', 'isContent', isContent.length, ids.length, 'ids'); // prettier-ignore
  const covered = tokens.policyRuns?.reduce((sum, { length }) => sum + length, 0);
  if (covered !== undefined && covered !== ones)
    throw lengthError('stream_length', 'policyRuns', covered, ones, 'sampled ids (ones in mask)');
  return {
    ids: packed('u32', ids),
    mask: packed('u8', mask),
    isContent: isContent === undefined ? undefined : packed('u8', isContent),
    logprobs: compact('logprobs'),
    referenceLogprobs: compact('referenceLogprobs'),
    advantages: compact('advantages'),
    policyRuns: tokens.policyRuns as { length: number; version: number }[] | undefined,
  };
}

function packed<D extends 'u8' | 'u32' | 'f32'>(dtype: D, array: Uint8Array | Uint32Array | Float32Array): PackedArray<D> {
  return new PackedArray(dtype, new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
}

function idsOf(ids: Tokens['ids']): Uint32Array {
  if (ids instanceof Uint32Array) return checkedIds(ids);
  // negative numbers become large ones, and are refused as such
  if (ids instanceof Int32Array) return checkedIds(new Uint32Array(ids.buffer, ids.byteOffset, ids.length));
  const odd = ids.findIndex((id) => !(id >= 0 && id <= MAX_TOKEN_ID && Number.isInteger(id)));
  if (odd >= 0) throw rangeError(odd);
  return Uint32Array.from(ids);
}

function checkedIds(ids: Uint32Array): Uint32Array {
  let seen = 0;
  for (let i = 0; i < ids.length; i++) seen |= ids[i] as number;
  if (seen < 0) throw rangeError(ids.findIndex((id) => id > MAX_TOKEN_ID));
  return ids;
}

function rangeError(at: number): TapedeckError {
  return new TapedeckError('token_id_range', `tokens.ids[${at}] must be an integer from 0 to 2^31 - 1: trainers hold token ids as int32`);
}

function flagsOf(name: string, flags: Uint8Array | readonly (number | boolean)[]): { readonly bytes: Uint8Array; readonly ones: number } {
  const bytes = flags instanceof Uint8Array ? flags : Uint8Array.from(flags, (flag) => (flag === true || flag === 1 ? 1 : flag === false || flag === 0 ? 0 : 2)); // prettier-ignore
  let seen = 0;
  let ones = 0;
  for (let i = 0; i < bytes.length; i++) {
    seen |= bytes[i] as number;
    ones += bytes[i] as number;
  }
  if (seen > 1) throw new TapedeckError('invalid_value', `tokens.${name} must hold only 0 and 1`);
  return { bytes, ones };
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
