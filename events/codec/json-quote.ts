import type { ByteWriter } from '../../base/byte-writer.ts';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** 0 for bytes that stand for themselves in a JSON string, the letter of a short escape, or `u` for \u00XX: the choices of JSON.stringify. */
const LETTER = Uint8Array.from({ length: 256 }, (_, b) => (b < 0x20 || b === QUOTE || b === BACKSLASH ? 0x75 : 0));
for (const [byte, letter] of Object.entries({ '"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't' })) {
  LETTER[byte.charCodeAt(0)] = letter.charCodeAt(0);
}
const COPY_BY_LOOP = 16;

/** Appends UTF-8 text as a JSON string: runs of plain bytes are copied. */
export function writeQuoted(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  out.byte(QUOTE);
  let run = start;
  for (;;) {
    let p = run;
    while (p < end && LETTER[bytes[p] as number] === 0) p++;
    copyRun(bytes, run, p, out);
    if (p === end) break;
    writeEscape(bytes[p] as number, out);
    run = p + 1;
  }
  out.byte(QUOTE);
}

function writeEscape(byte: number, out: ByteWriter): void {
  const target = out.reserve(6);
  const at = out.length;
  const letter = LETTER[byte] as number;
  target[at] = BACKSLASH;
  target[at + 1] = letter;
  if (letter !== 0x75) {
    out.length = at + 2;
    return;
  }
  target[at + 2] = target[at + 3] = 0x30;
  target[at + 4] = 0x30 + (byte >> 4);
  target[at + 5] = (byte & 15) + ((byte & 15) < 10 ? 0x30 : 0x57);
  out.length = at + 6;
}

function copyRun(bytes: Buffer, start: number, end: number, out: ByteWriter): void {
  const length = end - start;
  const target = out.reserve(length);
  const at = out.length;
  if (length > COPY_BY_LOOP) bytes.copy(target, at, start, end);
  else for (let i = 0; i < length; i++) target[at + i] = bytes[start + i] as number;
  out.length = at + length;
}
