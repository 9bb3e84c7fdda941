/**
 * A message as cells: its exact JSON text with the two long values cut out, which have columns of their own. Text is thus stored and copied once;
 * readers put it back (`messageSql` in views/message-sql.ts). Everything is written straight from the CBOR bytes.
 */
import { ByteWriter } from '../../../base/byte-writer.ts';
import { cursorOver, INDEFINITE, MAJOR, readHead, type Cursor } from '../../../events/codec/cbor-head.ts';
import { skipItem } from '../../../events/codec/cbor-items.ts';
import { cborToJson } from '../../../events/codec/cbor-to-json.ts';
import { jsonText } from './json-text.ts';
import { locate } from './locate.ts';

export type MessageCells = {
  /** JSON without the cut values; valid until the next call. null when there is no message. */
  readonly json: Uint8Array | string | null;
  /** Byte offset in `json` where the JSON string of the text, or of the reasoning, belongs; null when it was not cut. */
  readonly textAt: number | null;
  readonly reasoningAt: number | null;
  /** The cut values as they lie in the event. */
  readonly text: Uint8Array | null;
  readonly reasoning: Uint8Array | null;
};

const NONE: MessageCells = { json: null, textAt: null, reasoningAt: null, text: null, reasoning: null };
const MESSAGE_PATH = ['data', 'message'] as const;
const WITHOUT_STREAMS = { streams: false } as const;
const scratch = new ByteWriter(64 * 1024);

/** `reasoningKey` names the field that holds the reasoning, as messageParts chose it. */
export function messageCells(slice: Uint8Array, message: unknown, reasoningKey: string): MessageCells {
  if (message === undefined || message === null) return NONE;
  const range = locate(slice, MESSAGE_PATH);
  if (range === null) return { ...NONE, json: jsonText(message) };
  scratch.clear();
  const cursor = cursorOver(slice, range.start, range.end);
  readHead(cursor);
  if (cursor.major !== MAJOR.map || cursor.value === INDEFINITE || cursor.value < 2) {
    cborToJson(slice, range.start, range.end, scratch, WITHOUT_STREAMS);
    return { ...NONE, json: scratch.view() };
  }
  return cutMap(cursor, cursor.value, reasoningKey);
}

function cutMap(cursor: Cursor, entries: number, reasoningKey: string): MessageCells {
  const { bytes } = cursor;
  const cells = {
    textAt: null as number | null,
    reasoningAt: null as number | null,
    text: null as Uint8Array | null,
    reasoning: null as Uint8Array | null,
  };
  scratch.byte(0x7b);
  for (let entry = 0; entry < entries; entry++) {
    if (entry > 0) scratch.byte(0x2c);
    const keyAt = cursor.at;
    skipItem(cursor, 1);
    const valueAt = cursor.at;
    if (!writePlainKey(bytes, keyAt, valueAt)) cborToJson(bytes, keyAt, valueAt, scratch, WITHOUT_STREAMS);
    scratch.byte(0x3a);
    readHead(cursor);
    if (cursor.major === MAJOR.text && cursor.value !== INDEFINITE) {
      const value = bytes.subarray(cursor.at, cursor.at + cursor.value);
      if (isKey(bytes, keyAt, valueAt, 'content')) {
        cursor.at += cursor.value;
        cells.text = value;
        cells.textAt = scratch.length;
        continue;
      }
      if (isKey(bytes, keyAt, valueAt, reasoningKey)) {
        cursor.at += cursor.value;
        cells.reasoning = value;
        cells.reasoningAt = scratch.length;
        continue;
      }
    }
    cursor.at = valueAt;
    skipItem(cursor, 1);
    cborToJson(bytes, valueAt, cursor.at, scratch, WITHOUT_STREAMS);
  }
  scratch.byte(0x7d);
  return { json: scratch.view(), ...cells };
}

/** Keys of less than 24 bytes have a head of one byte; a key in another form is simply not cut. */
function isKey(bytes: Uint8Array, start: number, end: number, key: string): boolean {
  if (end - start !== key.length + 1) return false;
  for (let i = 0; i < key.length; i++) if (bytes[start + 1 + i] !== key.charCodeAt(i)) return false;
  return true;
}

/** Writes a short key of letters, digits and underscores as it is; anything else is left to the JSON writer. */
function writePlainKey(bytes: Uint8Array, start: number, end: number): boolean {
  const length = end - start - 1;
  if ((bytes[start] as number) !== 0x60 + length || length > MAX_SHORT_KEY) return false;
  const out = scratch.reserve(length + 2);
  const at = scratch.length;
  for (let i = 0; i < length; i++) {
    const byte = bytes[start + 1 + i] as number;
    if (IS_PLAIN[byte] === 0) return false;
    out[at + 1 + i] = byte;
  }
  out[at] = out[at + length + 1] = 0x22;
  scratch.length = at + length + 2;
  return true;
}

const MAX_SHORT_KEY = 23;
const IS_PLAIN = Uint8Array.from({ length: 256 }, (_, byte) => (/\w/.test(String.fromCharCode(byte)) && byte < 128 ? 1 : 0));
