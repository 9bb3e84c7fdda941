/** What every CBOR walker shares: the cursor, item heads, limits and errors (RFC 8949 section 3). */
import { TapedeckError, type ErrorCode } from '../../base/errors.ts';

/** Maps and arrays of one event may nest this deep. */
export const MAX_DEPTH = 256;
/** Structure walkers that only look for boundaries go deeper, so that one event that is too deep is refused alone and not its whole batch. */
export const MAX_WALK_DEPTH = 1024;
/** Longest integer outside 64 bits, in bytes of its magnitude. */
export const MAX_BIGNUM_BYTES = 1024;

export const MAJOR = { uint: 0, negative: 1, bytes: 2, text: 3, array: 4, map: 5, tag: 6, simple: 7 } as const;
export const TAG = {
  positiveBignum: 2,
  negativeBignum: 3,
  /** Text with lone surrogates, as a byte string in WTF-8 (IANA registry of CBOR tags). */
  wtf8: 273,
  /** Ours ("tape" in ASCII): a value that lies in the blob store; made only by the edge, after checking. */
  blob: 0x74617065,
} as const;
/** `value` of a head whose length is indefinite, and of the break that ends such an item. */
export const INDEFINITE = -1;
const BREAK = 0xff;

/** A place in the input and the head read last: `value` is the argument (length, count, tag or integer; above 2^53 only nearly exact). */
export type Cursor = {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;
  major: number;
  info: number;
  value: number;
  wholeFloats: boolean;
};

/** A cursor over `bytes[start, end)`; copies nothing. */
export function cursorOver(bytes: Uint8Array, start: number, end: number): Cursor {
  if (start < 0 || end > bytes.length || start > end) throw new RangeError(`no range ${start}..${end} in ${bytes.length} bytes`);
  return { bytes: asBuffer(bytes), at: start, end, major: 0, info: 0, value: 0, wholeFloats: false };
}

export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function cborError(code: ErrorCode, message: string, at: number): TapedeckError {
  return new TapedeckError(code, `${message} (byte ${at})`, { details: { at } });
}

/** Reads one head and checks that a length or count it announces can fit into what is left. */
export function readHead(c: Cursor): void {
  const { at } = c;
  if (at >= c.end) throw cborError('invalid_cbor', 'the input ends inside an item: it was cut off', at);
  const initial = c.bytes[at] as number;
  const info = initial & 31;
  c.major = initial >> 5;
  c.info = info;
  if (info < 24) {
    c.value = info;
    c.at = at + 1;
  } else {
    readLongHead(c, info);
  }
  if (c.major >= MAJOR.bytes && c.major <= MAJOR.map) checkFits(c, at);
}

function readLongHead(c: Cursor, info: number): void {
  const { at, bytes } = c;
  if (info === 31) {
    if (c.major < MAJOR.bytes || c.major === MAJOR.tag) throw cborError('invalid_cbor', 'reserved head byte', at);
    c.value = INDEFINITE;
    c.at = at + 1;
    return;
  }
  if (info > 27) throw cborError('invalid_cbor', 'reserved head byte', at);
  const width = 1 << (info - 24);
  if (c.end - at - 1 < width) throw cborError('invalid_cbor', 'the input ends inside a head: it was cut off', at);
  const p = at + 1;
  if (width === 1) c.value = bytes[p] as number;
  else if (width === 2) c.value = ((bytes[p] as number) << 8) | (bytes[p + 1] as number);
  else if (width === 4) c.value = uint32(bytes, p);
  else c.value = uint32(bytes, p) * 0x1_0000_0000 + uint32(bytes, p + 4);
  c.at = p + width;
}

function uint32(b: Buffer, p: number): number {
  return (b[p] as number) * 0x100_0000 + (((b[p + 1] as number) << 16) | ((b[p + 2] as number) << 8) | (b[p + 3] as number));
}

function checkFits(c: Cursor, headAt: number): void {
  const left = c.end - c.at;
  const need = c.major === MAJOR.map ? c.value * 2 : c.value;
  if (need > left) throw cborError('invalid_cbor', `an item claims ${c.value} entries or bytes where ${left} bytes are left`, headAt);
}

/** True, and moves past it, when the break that ends an indefinite-length item is next. */
export function takeBreak(c: Cursor): boolean {
  if (c.at >= c.end) throw cborError('invalid_cbor', 'the input ends inside an indefinite-length item: it was cut off', c.at);
  if (c.bytes[c.at] !== BREAK) return false;
  c.at++;
  return true;
}

/** The next chunk of an indefinite-length string of `major` as a head in the cursor; false after the break. */
export function nextChunk(c: Cursor, major: number): boolean {
  if (takeBreak(c)) return false;
  const { at } = c;
  readHead(c);
  if (c.major !== major || c.value === INDEFINITE) {
    throw cborError('invalid_cbor', 'chunks of an indefinite-length string must be definite strings of its kind', at);
  }
  return true;
}

export function tooDeep(c: Cursor, limit: number): TapedeckError {
  return cborError('too_deep', `maps and arrays nest deeper than ${limit}: flatten the value or send it as text`, c.at);
}
