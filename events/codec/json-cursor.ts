/** What the JSON readers share: the cursor, white space, errors (RFC 8259). */
import { TapedeckError, type ErrorCode } from '../../base/errors.ts';

export type JsonCursor = { readonly bytes: Buffer; at: number; readonly end: number };

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OPEN_ARRAY = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_ARRAY = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

export function jsonError(code: ErrorCode, message: string, at: number): TapedeckError {
  return new TapedeckError(code, `${message} (byte ${at})`, { details: { at } });
}

/** Moves to the next byte that is no white space and returns it, or -1 at the end. */
export function nextByte(c: JsonCursor): number {
  const { bytes, end } = c;
  let p = c.at;
  while (p < end) {
    const b = bytes[p] as number;
    if (b > 0x20 || (b !== 0x20 && b !== 0x0a && b !== 0x0d && b !== 0x09)) {
      c.at = p;
      return b;
    }
    p++;
  }
  c.at = p;
  return -1;
}

export function expect(c: JsonCursor, byte: number, what: string): void {
  if (nextByte(c) !== byte) throw unexpected(c, what);
  c.at++;
}

export function unexpected(c: JsonCursor, wanted: string): TapedeckError {
  return c.at >= c.end
    ? jsonError('invalid_json', `the text ends where ${wanted} should be: it was cut off`, c.at)
    : jsonError('invalid_json', `${wanted} should be here`, c.at);
}

/** True after the closing byte; false after a comma. */
export function endsHere(c: JsonCursor, close: number): boolean {
  const next = nextByte(c);
  if (next !== COMMA && next !== close) throw unexpected(c, close === CLOSE_ARRAY ? 'a comma or ]' : 'a comma or }');
  c.at++;
  return next === close;
}
