/** Strings of JSON to CBOR text: runs of bytes are copied, only escapes are looked at. The text has been checked to be UTF-8 before. */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { writeHead } from './cbor-encode.ts';
import { MAJOR, TAG } from './cbor-head.ts';
import { BACKSLASH, jsonError, QUOTE, type JsonCursor } from './json-cursor.ts';
import { writeCodePoint } from './wtf8.ts';

/** 1 for the bytes that end a run: quote, backslash, control characters. */
const ENDS_RUN = Uint8Array.from({ length: 256 }, (_, b) => (b < 0x20 || b === QUOTE || b === BACKSLASH ? 1 : 0));
/** The byte after a backslash to what it means; 0 for none. */
const SHORT_ESCAPES = new Uint8Array(256);
for (const [letter, meaning] of Object.entries({ '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' })) {
  SHORT_ESCAPES[letter.charCodeAt(0)] = meaning.charCodeAt(0);
}
const HEX = Int8Array.from({ length: 256 }, (_, b) => {
  const digit = Number.parseInt(String.fromCharCode(b), 16);
  return Number.isNaN(digit) ? -1 : digit;
});
const COPY_BY_LOOP = 16;

/** Appends the string at the cursor (on its opening quote) as CBOR text, or under tag 273 when an escape leaves a lone surrogate. */
export function writeJsonString(c: JsonCursor, out: ByteWriter): void {
  const start = c.at + 1;
  const stop = runEnd(c, start);
  if (c.bytes[stop] === QUOTE) {
    writeHead(MAJOR.text, stop - start, out);
    copyRun(c.bytes, start, stop, out);
    c.at = stop + 1;
    return;
  }
  writeEscaped(c, start, stop, out);
}

/** Moves past the string at the cursor without looking at what is in it. */
export function skipJsonString(c: JsonCursor): void {
  const { bytes, end } = c;
  const quote = bytes.indexOf(QUOTE, c.at + 1);
  if (quote > 0 && quote < end && bytes[quote - 1] !== BACKSLASH) {
    c.at = quote + 1;
    return;
  }
  let p = c.at + 1;
  for (; p < end; p++) {
    const b = bytes[p];
    if (b === QUOTE) {
      c.at = p + 1;
      return;
    }
    if (b === BACKSLASH) p++;
  }
  throw unterminated(c);
}

/** The position of the quote or backslash that ends the run of plain bytes. */
function runEnd(c: JsonCursor, start: number): number {
  const { bytes, end } = c;
  let p = start;
  while (p < end && ENDS_RUN[bytes[p] as number] === 0) p++;
  if (p >= end) throw unterminated(c);
  if ((bytes[p] as number) < 0x20) throw jsonError('invalid_json', 'a control character in a string must be escaped', p);
  return p;
}

function unterminated(c: JsonCursor): Error {
  return jsonError('invalid_json', 'the text ends inside a string: it was cut off', c.end);
}

/** One escape, decoded: its code point (a lone surrogate stands for itself) and how many bytes it takes in the text. */
const escape = { codePoint: 0, width: 0 };
/** Room for the longest head; the string is decoded behind it in one pass and moved up to the head that it turned out to need. */
const HEAD_ROOM = 12;

function writeEscaped(c: JsonCursor, start: number, firstEscape: number, out: ByteWriter): void {
  const { bytes } = c;
  const from = out.length;
  out.reserve(HEAD_ROOM + firstEscape - start);
  out.length += HEAD_ROOM;
  copyRun(bytes, start, firstEscape, out);
  let lone = false;
  let p = firstEscape;
  while (bytes[p] !== QUOTE) {
    readEscape(c, p);
    const { codePoint } = escape;
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) lone = true;
    out.length = writeCodePoint(out.reserve(4), out.length, codePoint);
    const run = p + escape.width;
    p = runEnd(c, run);
    copyRun(bytes, run, p, out);
  }
  c.at = p + 1;
  const body = from + HEAD_ROOM;
  const end = out.length;
  out.length = from;
  if (lone) writeHead(MAJOR.tag, TAG.wtf8, out);
  writeHead(lone ? MAJOR.bytes : MAJOR.text, end - body, out);
  out.reserve(0).copyWithin(out.length, body, end);
  out.length += end - body;
}

function readEscape(c: JsonCursor, at: number): void {
  const { bytes, end } = c;
  if (at + 2 > end) throw unterminated(c);
  const kind = bytes[at + 1] as number;
  escape.width = 2;
  if (kind !== 0x75) {
    const byte = SHORT_ESCAPES[kind] as number;
    if (byte === 0) throw jsonError('invalid_json', 'an unknown escape in a string', at);
    escape.codePoint = byte;
    return;
  }
  const unit = readUnit(c, at);
  escape.codePoint = unit;
  escape.width = 6;
  if (unit >= 0xd800 && unit < 0xdc00 && at + 12 <= end && bytes[at + 6] === BACKSLASH && bytes[at + 7] === 0x75) {
    const low = readUnit(c, at + 6);
    if (low < 0xdc00 || low > 0xdfff) return;
    escape.codePoint = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    escape.width = 12;
  }
}

function readUnit(c: JsonCursor, at: number): number {
  const { bytes } = c;
  if (at + 6 > c.end) throw unterminated(c);
  const hex = (i: number): number => HEX[bytes[at + i] as number] as number;
  const a = hex(2);
  const b = hex(3);
  const d = hex(4);
  const e = hex(5);
  if ((a | b | d | e) < 0) throw jsonError('invalid_json', 'a \\u escape needs four hexadecimal digits', at);
  return (a << 12) | (b << 8) | (d << 4) | e;
}

function copyRun(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  const length = end - start;
  const target = out.reserve(length);
  const at = out.length;
  if (length > COPY_BY_LOOP) bytes.copy(target, at, start, end);
  else for (let i = 0; i < length; i++) target[at + i] = bytes[start + i] as number;
  out.length = at + length;
}
