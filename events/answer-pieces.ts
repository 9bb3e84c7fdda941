/**
 * The pieces of an answer as a harness got them, with their times, in few bytes: the events of a stream differ from their neighbour by some letters, so each piece
 * is written as what it shares with the one before at both ends, and what is new in between.
 *
 *   piece = gap  shared-start  shared-end  length  bytes
 *
 * `gap` counts microseconds since the piece before (of the first: since the call began); all four numbers are LEB128.
 */
import { ByteWriter } from '../base/byte-writer.ts';
import { TapedeckError } from '../base/errors.ts';

export type AnswerPiece = {
  /** Microseconds since the call began. */
  readonly atMicros: number;
  readonly bytes: Uint8Array;
};

export type PieceWriter = {
  /** `atMicros` since the call began; time that goes backwards counts as none. The bytes must not change afterwards. */
  add(bytes: Uint8Array, atMicros: number): void;
  /** False when more was added than the limit: what is kept is of no use then. */
  readonly isWhole: boolean;
  /** What was added so far, encoded. */
  take(): Uint8Array;
};

const NOTHING = new Uint8Array(0);
/** A gap beyond this (2^49 microseconds are 18 years) is a broken encoding. */
const MAX_NUMBER = 2 ** 49;

/** `maxBytes` bounds the encoded form. */
export function createPieceWriter({ maxBytes }: { readonly maxBytes: number }): PieceWriter {
  const out = new ByteWriter(256);
  let last: Uint8Array = NOTHING;
  let at = 0;
  let isWhole = true;
  return {
    add(bytes, atMicros) {
      if (bytes.length === 0 || !isWhole) return;
      const now = Math.max(at, Math.round(atMicros));
      const start = sharedStart(last, bytes);
      const end = sharedEnd(last, bytes, Math.min(last.length, bytes.length) - start);
      if (out.length + bytes.length - start - end > maxBytes) {
        isWhole = false;
        last = NOTHING;
        return;
      }
      writeNumber(now - at, out);
      writeNumber(start, out);
      writeNumber(end, out);
      writeNumber(bytes.length - start - end, out);
      out.bytes(bytes.subarray(start, bytes.length - end));
      at = now;
      last = bytes;
    },
    get isWhole() {
      return isWhole;
    },
    take: () => Uint8Array.from(out.view()),
  };
}

/** Throws `invalid_value` for bytes that no writer made. */
export function readPieces(encoded: Uint8Array): AnswerPiece[] {
  const pieces: AnswerPiece[] = [];
  const cursor = { at: 0 };
  let last: Uint8Array = NOTHING;
  let atMicros = 0;
  while (cursor.at < encoded.length) {
    atMicros += readNumber(encoded, cursor);
    const [start, end, length] = [readNumber(encoded, cursor), readNumber(encoded, cursor), readNumber(encoded, cursor)];
    if (start + end > last.length || cursor.at + length > encoded.length) throw broken();
    const bytes = new Uint8Array(start + length + end);
    bytes.set(last.subarray(0, start));
    bytes.set(encoded.subarray(cursor.at, cursor.at + length), start);
    bytes.set(last.subarray(last.length - end), start + length);
    cursor.at += length;
    pieces.push({ atMicros, bytes });
    last = bytes;
  }
  return pieces;
}

function sharedStart(a: Uint8Array, b: Uint8Array): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
}

function sharedEnd(a: Uint8Array, b: Uint8Array, most: number): number {
  let n = 0;
  while (n < most && a[a.length - 1 - n] === b[b.length - 1 - n]) n++;
  return n;
}

function writeNumber(value: number, out: ByteWriter): void {
  let rest = value;
  while (rest >= 0x80) {
    out.byte((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  out.byte(rest);
}

function readNumber(bytes: Uint8Array, cursor: { at: number }): number {
  let value = 0;
  let scale = 1;
  for (;;) {
    const byte = bytes[cursor.at++];
    if (byte === undefined) throw broken();
    value += (byte & 0x7f) * scale;
    if (value > MAX_NUMBER) throw broken();
    if (byte < 0x80) return value;
    scale *= 0x80;
    if (scale > MAX_NUMBER) throw broken();
  }
}

function broken(): TapedeckError {
  return new TapedeckError('invalid_value', 'the pieces of an answer cannot be read: they are cut off, or not in this form');
}
