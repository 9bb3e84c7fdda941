/**
 * The numbers of long JSON arrays as nearly all are written: digits, a point, digits, a comma. These loops keep everything in local variables and take half the time
 * of reading number by number; they stop, having read nothing, at the first element that is anything else: the caller reads that one, and words what is wrong with it.
 */
import { COMMA, type JsonCursor } from './json-cursor.ts';

const ZERO = 0x30;
const MINUS = 0x2d;
const POINT = 0x2e;
const SPACE = 0x20;
/** The longest element that is read here, with its comma and space; this far from the end no byte needs a look at where the text ends. */
const MAX_BYTES = 32;
/** As many digits always fit into an int32, whose arithmetic takes half as long as that of doubles. */
const INT_DIGITS = 9;
/** With the digit before the point and INT_DIGITS behind it, a mantissa below 2^53. */
const MORE_DIGITS = 5;
/** Powers of ten that are doubles exactly. */
const POWERS = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));

/** Puts the integers from 0 to `max` at the cursor into `numbers` from `n` on, each with the comma behind it; returns how many are there then. */
export function takePlainIntegers(c: JsonCursor, numbers: Uint8Array | Uint32Array | Float32Array, n: number, max: number): number {
  const { bytes } = c;
  const last = c.end - MAX_BYTES;
  let p = c.at;
  let filled = n;
  while (filled < numbers.length && p < last) {
    let value = (bytes[p] as number) - ZERO;
    if (value < 0 || value > 9) break;
    let q = p + 1;
    if (bytes[q] !== COMMA) {
      const stop = p + INT_DIGITS;
      let digit = (bytes[q] as number) - ZERO;
      while (digit >= 0 && digit <= 9 && q < stop) {
        value = (Math.imul(value, 10) + digit) | 0;
        digit = (bytes[++q] as number) - ZERO;
      }
      if (bytes[q] !== COMMA || bytes[p] === ZERO) break;
    }
    if (value > max) break;
    numbers[filled++] = value;
    p = bytes[q + 1] === SPACE ? q + 2 : q + 1;
  }
  c.at = p;
  return filled;
}

/** The same for fractions with one digit before the point and no exponent, as the float32 nearest to the double nearest to them. */
export function takePlainFloats(c: JsonCursor, numbers: Uint8Array | Uint32Array | Float32Array, n: number): number {
  const { bytes } = c;
  const last = c.end - MAX_BYTES;
  let p = c.at;
  let filled = n;
  while (filled < numbers.length && p < last) {
    const first = bytes[p] === MINUS ? p + 1 : p;
    let head = (bytes[first] as number) - ZERO;
    if (head < 0 || head > 9 || bytes[first + 1] !== POINT) break;
    const fraction = first + 2;
    let q = fraction;
    let stop = fraction + INT_DIGITS - 1;
    let digit = (bytes[q] as number) - ZERO;
    while (digit >= 0 && digit <= 9 && q < stop) {
      head = (Math.imul(head, 10) + digit) | 0;
      digit = (bytes[++q] as number) - ZERO;
    }
    let mantissa = head;
    let isExact = true;
    if (digit >= 0 && digit <= 9) {
      const more = q;
      let tail = 0;
      stop = q + MORE_DIGITS;
      while (digit >= 0 && digit <= 9 && q < stop) {
        tail = (Math.imul(tail, 10) + digit) | 0;
        digit = (bytes[++q] as number) - ZERO;
      }
      mantissa = head * (POWERS[q - more] as number) + tail;
    }
    let end = q;
    for (stop = p + MAX_BYTES - 2; digit >= 0 && digit <= 9 && end < stop; isExact = false) digit = (bytes[++end] as number) - ZERO;
    if (q === fraction || bytes[end] !== COMMA) break;
    const power = POWERS[q - fraction] as number;
    const value = Math.fround(mantissa / power);
    // the digits that were cut off add less than one to the mantissa: when both ends of that interval round to one float32, that is the answer (rounding is monotone)
    if (!isExact && Math.fround((mantissa + 1) / power) !== value) break;
    numbers[filled++] = first === p ? value : -value;
    p = bytes[end + 1] === SPACE ? end + 2 : end + 1;
  }
  c.at = p;
  return filled;
}
