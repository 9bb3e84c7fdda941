import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../base/byte-writer.ts';
import { isTapedeckError } from '../../base/errors.ts';
import type { PackedArray } from '../packed-array.ts';
import { decodeCbor } from './cbor-decode.ts';
import { jsonToCbor } from './json-to-cbor.ts';

type Stream = 'ids' | 'mask' | 'logprobs';

/** The elements of one stream of an event, as they are read from `texts`. */
function read(stream: Stream, texts: readonly string[], separator: string): number[] {
  const json = Buffer.from(`{"data":{"tokens":{"${stream}":[${texts.join(separator)}]}}}`);
  const out = new ByteWriter(64);
  jsonToCbor(json, 0, json.length, out);
  const { data } = decodeCbor(out.take()) as { data: { tokens: Record<Stream, PackedArray<'f64'>> } };
  return [...data.tokens[stream].typed()];
}

const separator = fc.constantFrom(',', ', ', ' ,', ',\n ');
/** Long enough behind the element that is looked at that it is not among the last bytes of the text. */
const MORE = Array.from({ length: 20 }, () => '0');
const digits = (min: number, max: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...'0123456789'.split('')), minLength: min, maxLength: max });

test('integers of a stream are those of JSON.parse, wherever they stand', () => {
  const plain = fc.oneof(fc.nat({ max: 9 }), fc.nat({ max: 300_000 }), fc.nat({ max: 0xffff_ffff })).map(String);
  const odd = fc.constantFrom('7.0', '1e2', '-0', '0', '10', '999999999', '1000000000', '4294967295', '12.000e1');
  fc.assert(
    fc.property(fc.array(fc.oneof({ weight: 9, arbitrary: plain }, odd), { maxLength: 60 }), separator, (texts, between) => {
      assert.deepEqual(read('ids', texts, between), texts.map((text) => Math.abs(Number(text)))); // prettier-ignore
    }),
    { numRuns: 2000 },
  );
  assert.deepEqual(read('mask', ['0', '1', '255', 'true', 'false', ...MORE], ','), [0, 1, 255, 1, 0, ...MORE.map(Number)]);
});

test('fractions of a stream are the float32 nearest to the double, for any number of digits', () => {
  const fraction = fc
    .tuple(fc.constantFrom('', '-'), fc.constantFrom('0', '1', '9', '12', '350'), digits(1, 34))
    .map(([sign, whole, rest]) => `${sign}${whole}.${rest}`);
  // neighbours of what lies in the middle between two floats: where cutting digits off would show
  const middle = fc.tuple(fc.float({ min: Math.fround(0.01), max: 9, noNaN: true }), fc.constantFrom(-1, 0, 1)).map(([x, step]) => {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setFloat32(0, x);
    bits.setUint32(0, bits.getUint32(0) + 1);
    bits.setFloat64(0, (x + bits.getFloat32(0)) / 2);
    bits.setBigInt64(0, bits.getBigInt64(0) + BigInt(step));
    return bits.getFloat64(0).toFixed(20);
  });
  const short = fc.float({ min: -9, max: 0, noNaN: true }).map((x) => (Number.isInteger(x) ? x.toFixed(1) : String(Math.fround(x))));
  const text = fc.oneof(fraction, middle, short, fc.constantFrom('-0.0', '0.0', '-0', '5', '1e-7', '-1.5E-3'));
  fc.assert(
    fc.property(fc.array(text, { maxLength: 40 }), separator, (texts, between) => {
      const want = [...texts, ...MORE].map((each) => Math.fround(Number(each)));
      assert.deepEqual(read('logprobs', [...texts, ...MORE], between), want);
    }),
    { numRuns: 2000 },
  );
});

test('what is wrong in the middle of a long stream is refused as it is at its end', () => {
  const codeOf = (stream: Stream, texts: readonly string[]): string | null => {
    try {
      read(stream, texts, ',');
      return null;
    } catch (error) {
      if (!isTapedeckError(error)) throw error;
      return error.code;
    }
  };
  const bad = ['01', '00', '-1', '256', '4294967296', '99999999999', '1.', '.5', '-', '--1', '+1', '1e', '1 2', '', '"1"', 'null', '[1]', '1}', '-01.5', '0x1', '1.5.5', '1e99']; // prettier-ignore
  for (const stream of ['ids', 'mask', 'logprobs'] as const) {
    for (const text of bad) assert.equal(codeOf(stream, ['1', text, ...MORE]), codeOf(stream, ['1', text, '0']), `${stream} ${text}`);
  }
  assert.equal(codeOf('ids', ['1', '-1', ...MORE]), 'number_out_of_range');
  assert.equal(codeOf('logprobs', ['1.5', '01.5', ...MORE]), 'invalid_json');
});
