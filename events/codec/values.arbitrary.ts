/** Generators for property tests: every value an event can hold, JSON texts, and CBOR in every legal encoding of a value. */
import fc from 'fast-check';
import { seededRandom, type Random } from '../../base/random.ts';
import { isMap } from '../fields.ts';
import { DTYPES, PackedArray, type Dtype } from '../packed-array.ts';
import { TAG_OF } from './typed-array-tags.ts';
import { encodeWtf8 } from './wtf8.ts';

const SAFE = BigInt(Number.MAX_SAFE_INTEGER);
const narrow = (n: bigint): number | bigint => (n >= -SAFE && n <= SAFE ? Number(n) : n);

export const anyText: fc.Arbitrary<string> = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.array(fc.nat(0xffff), { maxLength: 8 }).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    '\0',
    'a\0b',
    '\ud800',
    'x\udc00',
    '\udc00\ud800',
    'שלום',
    'مرحبا',
    '👩‍👩‍👧',
    '\u2028',
    '\u001f\u007f',
    '"\\/',
    'é'.repeat(300),
  ),
  fc.string({ minLength: 200, maxLength: 400 }),
);

const anyNumber: fc.Arbitrary<number | bigint> = fc.oneof(
  fc.double(),
  fc.float(),
  fc.maxSafeInteger(),
  fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n - 1n }).map(narrow),
  fc.bigInt({ min: -(2n ** 300n), max: 2n ** 300n }).map(narrow),
  fc.constantFrom(
    -0,
    0,
    NaN,
    Infinity,
    -Infinity,
    2 ** 53,
    -(2 ** 53),
    1e300,
    5e-324,
    65504,
    23,
    24,
    255,
    256,
    65535,
    65536,
    4294967295,
    4294967296,
  ),
  fc.constantFrom(narrow(2n ** 53n), narrow(2n ** 64n - 1n), narrow(2n ** 64n), narrow(-(2n ** 64n)), narrow(-(2n ** 64n) - 1n)),
);

/** Twenty to forty small entries: more than one head byte can count, and more keys than a linear search likes. */
const wide: fc.Arbitrary<unknown> = fc.integer({ min: 20, max: 40 }).chain((n) =>
  fc.constantFrom<unknown>(
    Array.from({ length: n }, (_, i) => i),
    mapOf(Array.from({ length: n }, (_, i) => [`key ${i * 7}`, i] as const)),
  ),
);

const anyPacked: fc.Arbitrary<PackedArray> = fc
  .tuple(fc.constantFrom(...(Object.keys(DTYPES) as Dtype[])), fc.uint8Array({ maxLength: 40 }))
  .map(([dtype, bytes]) => new PackedArray(dtype, bytes.slice(0, bytes.length - (bytes.length % DTYPES[dtype]))));

export const anyKey: fc.Arbitrary<string> = fc.oneof(
  anyText,
  fc.constantFrom('__proto__', 'constructor', 'toString', '', '0', '42', '$float', '$$float', '$bytes', '$array', 'data', 'tokens', 'ids'),
);

/** Values as `decodeCbor` gives them. */
export const anyValue: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: 'small', maxDepth: 5, withCrossShrink: true }, tie('leaf'), tie('array'), tie('map'), wide),
  leaf: fc.oneof(fc.constantFrom(null, true, false), anyNumber, anyText, fc.uint8Array({ maxLength: 40 }), anyPacked),
  array: fc.array(tie('value'), { maxLength: 5 }),
  map: fc.uniqueArray(fc.tuple(anyKey, tie('value')), { selector: ([key]) => key, maxLength: 5 }).map(mapOf),
})).value;

export const anyMap: fc.Arbitrary<Record<string, unknown>> = fc
  .uniqueArray(fc.tuple(anyKey, anyValue), { selector: ([key]) => key, maxLength: 4 })
  .map(mapOf);

/** A plain object whose keys are all its own, `__proto__` too. */
export function mapOf(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  const map: Record<string, unknown> = {};
  for (const [key, value] of entries) Object.defineProperty(map, key, { value, writable: true, enumerable: true, configurable: true });
  return map;
}

const ESCAPES = new Set(['$float', '$bytes', '$array']);

/** Compact JSON texts in the spelling that we write, keys in any order. */
export const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string; leaf: string; array: string; map: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', maxDepth: 5 }, tie('leaf'), tie('array'), tie('map')),
  leaf: fc.oneof(
    fc.constantFrom('null', 'true', 'false', '-0.0', '1.0', '1e+22', '18446744073709551616', '{"$float":"NaN"}', '{"$bytes":"AQI="}'),
    fc.bigInt().map(String),
    fc.double({ noDefaultInfinity: true, noNaN: true }).map((x) => (Number.isInteger(x) ? '0.5' : String(x))),
    anyText.map((s) => JSON.stringify(s)),
  ),
  array: fc.array(tie('value'), { maxLength: 5 }).map((items) => `[${items.join(',')}]`),
  map: fc.uniqueArray(fc.tuple(anyKey, tie('value')), { selector: ([key]) => key, maxLength: 5 }).map((entries) => {
    const spell = (key: string): string => JSON.stringify(entries.length === 1 && ESCAPES.has(key) ? `$${key}` : key);
    return `{${entries.map(([key, value]) => `${spell(key)}:${value}`).join(',')}}`;
  }),
})).value;

/** One of the many encodings of `value`: longer heads, indefinite lengths, narrow floats, big-endian arrays, permuted keys. */
export function encodeVariously(value: unknown, seed: number): Buffer {
  return Buffer.concat(various(value, seededRandom(seed)));
}

const BIG_TAG: Partial<Record<Dtype, number>> = { u16: 65, u32: 66, u64: 67, i16: 73, i32: 74, i64: 75, f16: 80, f32: 81, f64: 82 };

function various(value: unknown, random: Random): Buffer[] {
  const chance = (): boolean => random.next() < 0.5;
  if (value === null || typeof value === 'boolean') return [Buffer.from([value === null ? 0xf6 : value ? 0xf5 : 0xf4])];
  if (typeof value === 'number') return [numberForm(value, random)];
  if (typeof value === 'bigint') return bigForm(value, random);
  if (typeof value === 'string') {
    if (value.isWellFormed()) return stringForm(3, Buffer.from(value), random, true);
    return [head(6, 273, random), ...stringForm(2, encodeWtf8(value), random, false)];
  }
  if (value instanceof PackedArray) {
    const { dtype, bytes: view } = value as PackedArray;
    const big = BIG_TAG[dtype];
    const bytes = Buffer.from(view);
    if (big === undefined || chance()) return [head(6, TAG_OF[dtype], random), ...stringForm(2, bytes, random, false)];
    for (let i = 0; i < bytes.length; i += DTYPES[dtype]) bytes.subarray(i, i + DTYPES[dtype]).reverse();
    return [head(6, big, random), ...stringForm(2, bytes, random, false)];
  }
  if (value instanceof Uint8Array) return stringForm(2, Buffer.from(value), random, false);
  const items = Array.isArray(value) ? value.map((v) => various(v, random)) : shuffled(Object.entries(value as object), random).map(([k, v]) => [...various(k, random), ...various(v, random)]); // prettier-ignore
  const major = isMap(value) ? 5 : 4;
  if (chance()) return [Buffer.from([(major << 5) | 31]), ...items.flat(), Buffer.from([0xff])];
  return [head(major, items.length, random), ...items.flat()];
}

function shuffled<T>(items: T[], random: Random): T[] {
  return items
    .map((item) => [random.next(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}

function numberForm(value: number, random: Random): Buffer {
  if (Number.isSafeInteger(value) && !Object.is(value, -0) && random.next() < 0.7) {
    return value < 0 ? head(1, -1 - value, random) : head(0, value, random);
  }
  if (Object.is(Math.fround(value), value) && random.next() < 0.5) {
    const single = Buffer.alloc(5, 0xfa);
    single.writeFloatBE(value, 1);
    return single;
  }
  const double = Buffer.alloc(9, 0xfb);
  double.writeDoubleBE(value, 1);
  return double;
}

function bigForm(value: bigint, random: Random): Buffer[] {
  const magnitude = value < 0n ? -1n - value : value;
  if (magnitude < 2n ** 64n && random.next() < 0.7) {
    const long = Buffer.alloc(9, value < 0n ? 0x3b : 0x1b);
    long.writeBigUInt64BE(magnitude, 1);
    return [long];
  }
  const hex = magnitude.toString(16);
  const zeros = Buffer.alloc(Math.floor(random.next() * 3));
  const bytes = Buffer.concat([zeros, Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')]);
  return [head(6, value < 0n ? 3 : 2, random), ...stringForm(2, bytes, random, false)];
}

function stringForm(major: number, bytes: Buffer, random: Random, text: boolean): Buffer[] {
  if (random.next() < 0.7) return [head(major, bytes.length, random), bytes];
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length;) {
    let end = Math.min(bytes.length, at + 1 + Math.floor(random.next() * 20));
    while (text && end < bytes.length && ((bytes[end] as number) & 0xc0) === 0x80) end++;
    chunks.push(head(major, end - at, random), bytes.subarray(at, end));
    at = end;
  }
  return [Buffer.from([(major << 5) | 31]), ...chunks, Buffer.from([0xff])];
}

function head(major: number, value: number, random: Random): Buffer {
  const least = value < 24 ? 0 : value < 256 ? 1 : value < 65_536 ? 2 : value < 2 ** 32 ? 3 : 4;
  const form = Math.max(least, random.next() < 0.7 ? 0 : Math.floor(random.next() * 5));
  if (form === 0) return Buffer.from([(major << 5) | value]);
  const bytes = Buffer.alloc(1 + (1 << (form - 1)), (major << 5) | (23 + form));
  if (form === 4) bytes.writeBigUInt64BE(BigInt(value), 1);
  else bytes.writeUIntBE(value, 1, 1 << (form - 1));
  return bytes;
}
