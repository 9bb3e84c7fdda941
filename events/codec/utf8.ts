import { isUtf8 } from 'node:buffer';

/** The position of the first byte of `bytes[start, end)` that is not part of valid UTF-8, or -1. */
export function firstInvalidUtf8(bytes: Buffer, start: number, end: number): number {
  if (isUtf8(new Uint8Array(bytes.buffer, bytes.byteOffset + start, end - start))) return -1;
  for (let p = start; p < end;) {
    const width = widthAt(bytes, p, end);
    if (width === 0) return p;
    p += width;
  }
  return end;
}

/** Bytes of the valid character at `p`, or 0 (RFC 3629 section 4). */
function widthAt(bytes: Buffer, p: number, end: number): number {
  const b = bytes[p] as number;
  if (b < 0x80) return 1;
  const width = b >= 0xc2 && b < 0xe0 ? 2 : b >= 0xe0 && b < 0xf0 ? 3 : b >= 0xf0 && b < 0xf5 ? 4 : 0;
  if (width === 0 || p + width > end) return 0;
  const second = bytes[p + 1] as number;
  const low = b === 0xe0 ? 0xa0 : b === 0xf0 ? 0x90 : 0x80;
  const high = b === 0xed ? 0x9f : b === 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return 0;
  for (let i = 2; i < width; i++) if (((bytes[p + i] as number) & 0xc0) !== 0x80) return 0;
  return width;
}
