import { ByteWriter } from '../../../base/byte-writer.ts';
import { cborToJson } from '../../../events/codec/cbor-to-json.ts';
import { jsonText } from './json-text.ts';
import { locate } from './locate.ts';

const MESSAGE_PATH = ['data', 'message'] as const;
const scratch = new ByteWriter(64 * 1024);

/** The message as exact JSON text, written straight from its CBOR bytes. The result is valid until the next call: copy it. */
export function messageJson(slice: Uint8Array, message: unknown): Uint8Array | string | null {
  if (message === undefined || message === null) return null;
  const range = locate(slice, MESSAGE_PATH);
  if (range === null) return jsonText(message);
  scratch.clear();
  cborToJson(slice, range.start, range.end, scratch);
  return scratch.view();
}
