import { TapedeckError } from '../base/errors.ts';
import { fail, type Result } from '../base/result.ts';
import { checkEvent } from './check.ts';
import { decodeCbor } from './codec/cbor-decode.ts';
import type { TapedeckEvent } from './registry.ts';
import { upcast } from './upcast.ts';

/**
 * One log record as a checked event of the current version: decode, lift, check. For everybody who reads the log; a record with values in
 * the blob store is internalized first. Errors are those of `decodeCbor` and `checkEvent`.
 */
export function readEvent(slice: Uint8Array): Result<TapedeckEvent> {
  let value: unknown;
  try {
    value = decodeCbor(slice);
  } catch (error) {
    if (error instanceof TapedeckError) return fail(error.code, error.message);
    throw error;
  }
  return checkEvent(upcast(value));
}
