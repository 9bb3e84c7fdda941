/** WTF-8: UTF-8 that can also hold lone surrogates (simonsapin.github.io/wtf-8). CBOR text cannot, so such strings travel under tag 273. */

/** Bytes of any JS string; for well-formed text this is UTF-8. */
export function encodeWtf8(text: string): Buffer {
  const out = Buffer.allocUnsafe(text.length * 3);
  let p = 0;
  for (let i = 0; i < text.length; i++) {
    const cp = text.codePointAt(i) as number;
    if (cp > 0xffff) i++;
    p = writeCodePoint(out, p, cp);
  }
  return out.subarray(0, p);
}

/** Writes one code point (a surrogate too) at `p` and returns the position after it. */
export function writeCodePoint(out: Uint8Array, p: number, cp: number): number {
  if (cp < 0x80) {
    out[p] = cp;
    return p + 1;
  }
  if (cp < 0x800) {
    out[p] = 0xc0 | (cp >> 6);
    out[p + 1] = 0x80 | (cp & 63);
    return p + 2;
  }
  if (cp < 0x1_0000) {
    out[p] = 0xe0 | (cp >> 12);
    out[p + 1] = 0x80 | ((cp >> 6) & 63);
    out[p + 2] = 0x80 | (cp & 63);
    return p + 3;
  }
  out[p] = 0xf0 | (cp >> 18);
  out[p + 1] = 0x80 | ((cp >> 12) & 63);
  out[p + 2] = 0x80 | ((cp >> 6) & 63);
  out[p + 3] = 0x80 | (cp & 63);
  return p + 4;
}

/** The string, or null when the bytes are not strict WTF-8 (overlong, out of range, or a surrogate pair in two halves). */
export function decodeWtf8(bytes: Buffer): string | null {
  const units = new Uint16Array(bytes.length);
  let n = 0;
  for (let i = 0; i < bytes.length;) {
    const b = bytes[i] as number;
    const width = b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    let cp = width === 1 ? b : b & (0x7f >> width);
    for (let k = 1; k < width; k++) cp = (cp << 6) | ((bytes[i + k] ?? 0) & 63);
    i += width;
    if (cp > 0x10_ffff) return null;
    if (cp > 0xffff) {
      units[n++] = 0xd800 + ((cp - 0x1_0000) >> 10);
      units[n++] = 0xdc00 + ((cp - 0x1_0000) & 0x3ff);
    } else {
      units[n++] = cp;
    }
  }
  const text = Buffer.from(units.buffer, 0, n * 2).toString('utf16le');
  // Strictness in one line: only the one canonical encoding gives the same bytes back.
  return encodeWtf8(text).equals(bytes) ? text : null;
}
