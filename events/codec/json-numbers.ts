/** Numbers of JSON, exactly: integers of any size, doubles correctly rounded, float32 as the rounding of that double. */
import type { ByteWriter } from '../../base/byte-writer.ts';
import { writeBigint, writeFloat64, writeHead } from './cbor-encode.ts';
import { MAJOR, MAX_BIGNUM_BYTES } from './cbor-head.ts';
import { jsonError, unexpected, type JsonCursor } from './json-cursor.ts';

/** The largest mantissa that takes one more digit and stays below 2^53. */
const LAST_EXACT = 900_719_925_474_098;
const MAX_EXACT_POWER = 22;
const POWERS = Array.from({ length: MAX_EXACT_POWER + 1 }, (_, i) => Number(`1e${i}`));
/** Decimal digits of the largest integer that MAX_BIGNUM_BYTES can hold. */
const MAX_DIGITS = Math.ceil(MAX_BIGNUM_BYTES * 8 * Math.log10(2));

/** A number as it stands in the text: `mantissa` (its first 15 or 16 digits), times 10^`exponent`, and what was cut off. */
type Literal = { start: number; end: number; negative: boolean; mantissa: number; exponent: number; exact: boolean; integer: boolean };
/** Re-used: reading a number allocates nothing. */
const lit: Literal = { start: 0, end: 0, negative: false, mantissa: 0, exponent: 0, exact: true, integer: true };

/** Appends the number at the cursor: without fraction and exponent as an integer (but -0), else as float64. */
export function writeJsonNumber(c: JsonCursor, out: ByteWriter): void {
  scan(c);
  if (!lit.integer || (lit.negative && lit.mantissa === 0)) {
    writeFloat64(toDouble(c), out);
  } else if (lit.exact) {
    if (lit.negative) writeHead(MAJOR.negative, lit.mantissa - 1, out);
    else writeHead(MAJOR.uint, lit.mantissa, out);
  } else {
    if (lit.end - lit.start > MAX_DIGITS) throw outOfRange(`an integer of more than ${MAX_DIGITS} digits: send it as text`);
    writeBigint(BigInt(c.bytes.toString('latin1', lit.start, lit.end)), out);
  }
}

/** The number at the cursor as the nearest double. */
export function readDouble(c: JsonCursor): number {
  scan(c);
  return toDouble(c);
}

/** The number at the cursor as the float32 nearest to its double. */
export function readFloat32(c: JsonCursor): number {
  scan(c);
  const value = lit.exact ? Math.fround(toDouble(c)) : roundedPrefix(c);
  if (!Number.isFinite(value))
    throw outOfRange('the number is too large for a float32: send a value below 3.4e38, or {"$float":"Infinity"}');
  return value;
}

/**
 * Float32 of a literal with more digits than a double holds exactly. The digits cut off move the value by less than 2e-15 of itself; when
 * both ends of that interval round to one float32, that is the answer (rounding is monotone), else the literal is read in full.
 */
function roundedPrefix(c: JsonCursor): number {
  const { exponent } = lit;
  if (exponent >= -MAX_EXACT_POWER && exponent <= MAX_EXACT_POWER) {
    const near = exponent < 0 ? lit.mantissa / (POWERS[-exponent] as number) : lit.mantissa * (POWERS[exponent] as number);
    const low = Math.fround(near * (1 - 4e-15));
    if (low === Math.fround(near * (1 + 4e-15))) return lit.negative ? -low : low;
  }
  return Math.fround(toDouble(c));
}

/** Clinger's exact case (a mantissa below 2^53 and a power of ten up to 10^22 are both exact doubles), else the engine's own reader. */
function toDouble(c: JsonCursor): number {
  const { exponent } = lit;
  if (lit.exact && exponent >= -MAX_EXACT_POWER && exponent <= MAX_EXACT_POWER) {
    const value = exponent < 0 ? lit.mantissa / (POWERS[-exponent] as number) : lit.mantissa * (POWERS[exponent] as number);
    return lit.negative ? -value : value;
  }
  const value = Number(c.bytes.toString('latin1', lit.start, lit.end));
  if (!Number.isFinite(value))
    throw outOfRange('the number is too large for a double: send a value below 1.8e308, or {"$float":"Infinity"}');
  return value;
}

/** Reads the literal at the cursor into `lit` and moves past it. */
function scan(c: JsonCursor): void {
  const { bytes, end } = c;
  let p = c.at;
  lit.start = p;
  lit.negative = bytes[p] === 0x2d;
  if (lit.negative) p++;
  lit.mantissa = 0;
  lit.exponent = 0;
  lit.exact = true;
  lit.integer = true;
  const first = p;
  p = scanDigits(bytes, p, end, 0);
  if (p === first) throw unexpected({ bytes, at: p, end }, 'a digit');
  if (bytes[first] === 0x30 && p > first + 1) throw jsonError('invalid_json', 'a number must not begin with 0', first);
  if (p < end && bytes[p] === 0x2e) {
    lit.integer = false;
    const fraction = p + 1;
    p = scanDigits(bytes, fraction, end, 1);
    if (p === fraction) throw unexpected({ bytes, at: p, end }, 'a digit');
  }
  if (p < end && ((bytes[p] as number) | 0x20) === 0x65) p = scanExponent(bytes, p + 1, end);
  lit.end = p;
  c.at = p;
}

/** Digits before (`places` 0) or after (1) the point; each digit taken after the point, and each one cut off before it, moves the exponent. */
function scanDigits(bytes: Buffer, start: number, end: number, places: 0 | 1): number {
  let { mantissa, exponent, exact } = lit;
  let p = start;
  for (; p < end; p++) {
    const digit = (bytes[p] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    if (mantissa <= LAST_EXACT) {
      mantissa = mantissa * 10 + digit;
      exponent -= places;
    } else {
      exact = false;
      exponent += 1 - places;
    }
  }
  lit.mantissa = mantissa;
  lit.exponent = exponent;
  lit.exact = exact;
  return p;
}

function scanExponent(bytes: Buffer, start: number, end: number): number {
  let p = start;
  const sign = bytes[p];
  if (p < end && (sign === 0x2b || sign === 0x2d)) p++;
  const first = p;
  let exponent = 0;
  for (; p < end; p++) {
    const digit = (bytes[p] as number) - 0x30;
    if (digit < 0 || digit > 9) break;
    exponent = Math.min(exponent * 10 + digit, 1_000_000);
  }
  if (p === first) throw unexpected({ bytes, at: p, end }, 'a digit');
  lit.integer = false;
  lit.exponent += sign === 0x2d ? -exponent : exponent;
  return p;
}

function outOfRange(message: string): Error {
  return jsonError('number_out_of_range', message, lit.start);
}
