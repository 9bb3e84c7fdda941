/** Finds a value inside the CBOR bytes of an event without decoding it. */
import { cursorOver, INDEFINITE, MAJOR, readHead, takeBreak, type Cursor } from '../../../events/codec/cbor-head.ts';
import { skipItem, type Range } from '../../../events/codec/cbor-items.ts';

/** The byte range of the value at `path` (keys of nested maps), or null when it is not there. The slice is a checked event. */
export function locate(slice: Uint8Array, path: readonly string[]): Range | null {
  const cursor = cursorOver(slice, 0, slice.length);
  for (const key of path) if (!enter(cursor, key)) return null;
  const start = cursor.at;
  skipItem(cursor, 1);
  return { start, end: cursor.at };
}

/** Moves the cursor from a map to the value of `key`. */
function enter(cursor: Cursor, key: string): boolean {
  readHead(cursor);
  if (cursor.major !== MAJOR.map) return false;
  for (let left = cursor.value; left !== 0 && !(left === INDEFINITE && takeBreak(cursor)); left -= left > 0 ? 1 : 0) {
    if (takeKey(cursor, key)) return true;
    skipItem(cursor, 1);
  }
  return false;
}

/** Reads one key; true when it is `key`. */
function takeKey(cursor: Cursor, key: string): boolean {
  const at = cursor.at;
  readHead(cursor);
  const { value: length } = cursor;
  if (cursor.major !== MAJOR.text || length === INDEFINITE) {
    cursor.at = at;
    skipItem(cursor, 1);
    return false;
  }
  const start = cursor.at;
  cursor.at += length;
  if (length !== key.length) return false;
  for (let i = 0; i < length; i++) if (cursor.bytes[start + i] !== key.charCodeAt(i)) return false;
  return true;
}
