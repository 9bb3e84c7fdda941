/** Short ASCII strings come again and again (keys, roles, types): one string object each, found by comparing all bytes. */

const SLOTS = 1024;
const slots: string[] = Array.from({ length: SLOTS }, () => '');

/** The string of `bytes[at, at + length)`, or null when it is not ASCII. Meant for `length` up to a few dozen. */
export function internText(bytes: Buffer, at: number, length: number): string | null {
  let hash = length;
  for (let i = 0; i < length; i++) {
    const b = bytes[at + i] as number;
    if (b > 127) return null;
    hash = Math.imul(hash ^ b, 0x0100_0193);
  }
  const slot = (hash ^ (hash >>> 15)) & (SLOTS - 1);
  const known = slots[slot] as string;
  if (isText(known, bytes, at, length)) return known;
  const text = internalized(bytes.toString('latin1', at, at + length));
  slots[slot] = text;
  return text;
}

function isText(text: string, bytes: Buffer, at: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let i = 0; i < length; i++) if (text.charCodeAt(i) !== bytes[at + i]) return false;
  return true;
}

/** The engine's own unique copy: property access by it needs no hashing. */
function internalized(text: string): string {
  return Object.keys({ [text]: 0 })[0] ?? text;
}
