import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ByteWriter } from '../../base/byte-writer.ts';
import { isTapedeckError, type ErrorCode } from '../../base/errors.ts';
import { PackedArray } from '../packed-array.ts';
import { blobHandles } from './blob-tags.ts';
import { contentHash } from '../content-hash.ts';
import { decodeCbor } from './cbor-decode.ts';
import { encodeCbor, encodeEvent } from './cbor-encode.ts';
import { splitCborItems } from './cbor-items.ts';
import { cborToJson } from './cbor-to-json.ts';
import { sampleNode } from './sample-events.ts';
import { encodeVariously, mapOf } from './values.arbitrary.ts';

const decodeHex = (hex: string): unknown => decodeCbor(Buffer.from(hex, 'hex'));

/** RFC 8949 appendix A, the values that our format has. */
const VECTORS: readonly (readonly [string, unknown])[] = [
  ['00', 0], ['17', 23], ['1818', 24], ['1903e8', 1000], ['1a000f4240', 1_000_000], ['1b000000e8d4a51000', 1_000_000_000_000],
  ['1bffffffffffffffff', 2n ** 64n - 1n], ['c249010000000000000000', 2n ** 64n], ['3bffffffffffffffff', -(2n ** 64n)],
  ['c349010000000000000000', -(2n ** 64n) - 1n], ['20', -1], ['3863', -100], ['3903e7', -1000], ['f90000', 0], ['f98000', -0],
  ['f93c00', 1], ['fb3ff199999999999a', 1.1], ['f93e00', 1.5], ['f97bff', 65504], ['fa47c35000', 100000], ['fa7f7fffff', 3.4028234663852886e38],
  ['fb7e37e43c8800759c', 1e300], ['f90001', 5.960464477539063e-8], ['f90400', 0.00006103515625], ['f9c400', -4], ['fbc010666666666666', -4.1],
  ['f97c00', Infinity], ['f97e00', NaN], ['f9fc00', -Infinity], ['fa7f800000', Infinity], ['fb7ff8000000000000', NaN], ['f4', false],
  ['f5', true], ['f6', null], ['40', new Uint8Array()], ['4401020304', new Uint8Array([1, 2, 3, 4])], ['60', ''], ['6161', 'a'],
  ['62225c', '"\\'], ['62c3bc', 'ü'], ['63e6b0b4', '水'], ['64f0908591', '\u{10151}'], ['80', []], ['83010203', [1, 2, 3]], ['a0', {}],
  ['a26161016162820203', { a: 1, b: [2, 3] }], ['5f42010243030405ff', new Uint8Array([1, 2, 3, 4, 5])], ['7f657374726561646d696e67ff', 'streaming'],
  ['9fff', []], ['9f018202039f0405ffff', [1, [2, 3], [4, 5]]], ['bf61610161629f0203ffff', { a: 1, b: [2, 3] }], ['826161bf61626163ff', ['a', { b: 'c' }]],
  ['1b0020000000000000', 2n ** 53n], ['1b001fffffffffffff', 2 ** 53 - 1], ['c24101', 1], ['c340', -1], ['c240', 0], ['d9011143eda080', '\ud800'],
  ['7fff', ''], ['5fff', new Uint8Array()], ['3b001fffffffffffff', -(2n ** 53n)],
]; // prettier-ignore

for (const [hex, value] of VECTORS) test(`decodes ${hex}`, () => assert.deepStrictEqual(decodeHex(hex), value));

const REFUSED: readonly (readonly [what: string, hex: string, code: ErrorCode])[] = [
  ['nothing', '', 'invalid_cbor'],
  ['bytes after the end', '0000', 'invalid_cbor'],
  ['a reserved head', '1c', 'invalid_cbor'],
  ['an indefinite integer', '1f', 'invalid_cbor'],
  ['an indefinite tag', 'df00', 'invalid_cbor'],
  ['a break alone', 'ff', 'invalid_cbor'],
  ['a break as a map value', 'bf6161ff', 'invalid_cbor'],
  ['undefined', 'f7', 'invalid_cbor'],
  ['another simple value', 'f0', 'invalid_cbor'],
  ['a simple value in the wrong form', 'f814', 'invalid_cbor'],
  ['a 4 GB text', '7affffffff61', 'invalid_cbor'],
  ['a 2^64 byte string', '5bffffffffffffffff61', 'invalid_cbor'],
  ['a 4 GB array', '9affffffff00', 'invalid_cbor'],
  ['a 2^64 entry map', 'bbffffffffffffffff6100', 'invalid_cbor'],
  ['a map with half an entry', 'a16161', 'invalid_cbor'],
  ['an odd indefinite map', 'bf616101ff6162', 'invalid_cbor'],
  ['an integer key', 'a10102', 'invalid_cbor'],
  ['a byte string key', 'a1416102', 'invalid_cbor'],
  ['a key that comes twice', 'a2616101616102', 'duplicate_key'],
  ['the same key in another encoding', 'a261610178016102', 'duplicate_key'],
  ['__proto__ twice', 'a2695f5f70726f746f5f5f01695f5f70726f746f5f5f02', 'duplicate_key'],
  ['bad UTF-8 in text', '62c328', 'invalid_utf8'],
  ['a surrogate in text', '63eda080', 'invalid_utf8'],
  ['a character cut by a chunk', '7f61c361bcff', 'invalid_utf8'],
  ['a byte chunk in text', '7f4161ff', 'invalid_cbor'],
  ['an indefinite chunk', '7f7f6161ffff', 'invalid_cbor'],
  ['bad UTF-8 in a key', 'a161ff01', 'invalid_utf8'],
  ['well-formed text under tag 273', 'd901114161', 'invalid_utf8'],
  ['a surrogate pair in halves', 'd9011146eda080edb080', 'invalid_utf8'],
  ['text under tag 273', 'd901116161', 'invalid_cbor'],
  ['an unknown tag', 'c16161', 'invalid_cbor'],
  ['the self-describing tag', 'd9d9f700', 'invalid_cbor'],
  ['a typed array over text', 'd8466461626364', 'invalid_cbor'],
  ['a typed array of broken elements', 'd84643616263', 'invalid_cbor'],
  ['128-bit floats', 'd85750' + '00'.repeat(16), 'invalid_cbor'],
  ['a bignum over the limit', `c2590401${'ff'.repeat(1025)}`, 'invalid_cbor'],
  ['a bignum over text', 'c26161', 'invalid_cbor'],
  ['a value in the blob store', 'da74617065a0', 'invalid_cbor'],
]; // prettier-ignore

for (const [what, hex, code] of REFUSED) test(`refuses ${what}`, () => assert.throws(() => decodeHex(hex), (error) => isTapedeckError(error, code) && typeof error.details['at'] === 'number')); // prettier-ignore

test('a number of dimensions of depth is the limit, in the decoder and in the encoder', () => {
  const nested = (depth: number): string => `${'81'.repeat(depth)}00`;
  assert.doesNotThrow(() => decodeHex(nested(256)));
  assert.throws(() => decodeHex(nested(257)), (e) => isTapedeckError(e, 'too_deep')); // prettier-ignore
  assert.throws(() => decodeHex(`${'9f'.repeat(100_000)}`), (e) => isTapedeckError(e, 'too_deep')); // prettier-ignore
  const cycle: unknown[] = [];
  cycle.push(cycle);
  assert.throws(() => encodeCbor(cycle, new ByteWriter()), (e) => isTapedeckError(e, 'too_deep')); // prettier-ignore
});

test('one event that is too deep does not take its batch with it', () => {
  const split = splitCborItems(Buffer.from(`82${'81'.repeat(600)}00a0`, 'hex'));
  assert.ok(split.ok && split.value.length === 2);
  const hopeless = splitCborItems(Buffer.from(`82${'81'.repeat(2000)}00a0`, 'hex'));
  assert.ok(!hopeless.ok && hopeless.error.code === 'too_deep');
});

test('__proto__ is a key like any other', () => {
  const value = decodeCbor(encodeEvent(mapOf([['__proto__', { polluted: true }]]))) as object;
  assert.deepEqual(Object.keys(value), ['__proto__']);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
  assert.equal(({} as { polluted?: boolean }).polluted, undefined);
});

test('streams are views of the input at any alignment; big-endian ones are turned round', () => {
  for (let pad = 0; pad < 8; pad++) {
    const array = encodeEvent({ s: new Float32Array([1.5, -2, NaN]), b: new Uint8Array([9]) });
    const input = Buffer.concat([Buffer.alloc(pad), array, Buffer.alloc(3)]);
    const { s, b } = decodeCbor(input, pad, pad + array.length) as { s: PackedArray<'f32'>; b: Uint8Array };
    assert.equal(s.bytes.buffer, input.buffer);
    assert.equal(b.buffer, input.buffer);
    assert.deepEqual([...s.typed()], [1.5, -2, NaN]);
  }
  const swapped = decodeHex('d8424800000001ff000002') as PackedArray<'u32'>;
  assert.deepEqual([swapped.dtype, [...swapped.typed()]], ['u32', [1, 0xff000002]]);
  assert.deepStrictEqual(decodeHex('d8415f420102420304ff'), new PackedArray('u16', new Uint8Array([2, 1, 4, 3])));
  assert.deepStrictEqual(decodeHex('d84442aabb'), new PackedArray('u8', new Uint8Array([0xaa, 0xbb])));
});

/** What must never crash, hang, or answer without a code, whatever the bytes are. */
const READERS: Readonly<Record<string, (bytes: Buffer) => void>> = {
  decodeCbor: (b) => void decodeCbor(b),
  cborToJson: (b) => cborToJson(b, 0, b.length, new ByteWriter(64)),
  contentHash: (b) => void contentHash(b),
  blobHandles: (b) => void blobHandles(b),
  splitCborItems: (b) => {
    const split = splitCborItems(b);
    if (split.ok) for (const { start, end } of split.value) assert.ok(start < end && end <= b.length);
    else assert.ok(['invalid_cbor', 'too_deep'].includes(split.error.code));
  },
};

function codedOnly(read: (bytes: Buffer) => void, bytes: Buffer): boolean {
  try {
    read(bytes);
    return true;
  } catch (error) {
    if (!isTapedeckError(error)) throw error;
    return false;
  }
}

for (const [name, read] of Object.entries(READERS)) {
  test(`${name}: an event cut at any byte is refused`, () => {
    const event = encodeVariously({ ...sampleNode(1), more: [1.5, NaN, 2n ** 70n, '\ud800', 'é', new Uint8Array(3), -0] }, 7);
    const step = event.length > 3000 ? 7 : 1;
    for (let cut = 1; cut < event.length; cut += step) {
      const done = codedOnly(read, event.subarray(0, cut));
      assert.ok(!done || name === 'splitCborItems', `cut at ${cut}`);
    }
    const split = splitCborItems(event.subarray(0, event.length - 1));
    assert.ok(!split.ok);
  });

  test(`${name}: arbitrary and damaged bytes give a value or a coded error`, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => void codedOnly(read, Buffer.from(bytes))),
      { numRuns: 3000 },
    );
    const event = encodeVariously({ a: [1, { b: 'text', c: new Float32Array([1]) }], d: '\udc00', e: 2n ** 80n, data: { x: null } }, 3);
    fc.assert(
      fc.property(fc.nat(event.length - 1), fc.nat(255), fc.nat(event.length - 1), fc.nat(255), (i, x, j, y) => {
        const damaged = Buffer.from(event);
        damaged[i] = x;
        damaged[j] = y;
        codedOnly(read, damaged);
      }),
      { numRuns: 3000 },
    );
  });
}

test('what the JSON writer accepts is JSON, whatever the bytes were', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const out = new ByteWriter(64);
      if (codedOnly((b) => cborToJson(b, 0, b.length, out), Buffer.from(bytes))) JSON.parse(out.take().toString());
    }),
    { numRuns: 3000 },
  );
});
