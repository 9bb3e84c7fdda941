/** Foreign JSON to exact values: integers of any size, floats apart from integers, lone surrogates, NUL, and the NaN and Infinity that Python writes. */
import { ByteWriter } from '../../base/byte-writer.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { fail, ok, type Result } from '../../base/result.ts';
import { decodeCbor } from '../../events/codec/cbor-decode.ts';
import { jsonToCbor } from '../../events/codec/json-to-cbor.ts';
import type { Json } from './json-value.ts';

/** One JSON value that fills `text`. Problems: `invalid_json`, `invalid_utf8`, `duplicate_key`, `too_deep`, `number_out_of_range`. */
export type JsonReader = (text: Uint8Array) => Result<Json>;

/** The largest buffer kept for the next text; one huge line must not hold memory for the rest of the import. */
const KEEP_BYTES = 16 * 1024 * 1024;

/** A reader that re-uses its buffer; values do not refer to it. */
export function jsonReader(): JsonReader {
  let out = new ByteWriter(64 * 1024);
  return (text) => {
    try {
      jsonToCbor(text, 0, text.length, out, { foreign: true });
      return ok(decodeCbor(out.view(), 0, out.length, { wholeFloats: true }) as Json);
    } catch (error) {
      if (isTapedeckError(error)) return fail(error.code, error.message);
      throw error;
    } finally {
      if (out.length > KEEP_BYTES) out = new ByteWriter(64 * 1024);
      else out.clear();
    }
  };
}

/** JSON inside a string (hosted rows hold several levels of it); null when it is none. */
export function innerJson(text: string): Json | null {
  if (!text.isWellFormed()) return null;
  const read = jsonReader()(Buffer.from(text));
  return read.ok ? read.value : null;
}
