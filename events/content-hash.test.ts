import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTapedeckError } from '../base/errors.ts';
import { encodeEvent } from './codec/cbor-encode.ts';
import { contentHash } from './content-hash.ts';
import { mapOf } from './codec/values.arbitrary.ts';

const hashOf = (data: unknown): string => contentHash(encodeEvent({ id: 'e', data })).data;
const hashOfHex = (hex: string): string => contentHash(Buffer.from(`a16464617461${hex}`, 'hex')).data;

test('the hash is stored for ever: its value for a known event never changes', () => {
  const { event, data } = contentHash(encodeEvent({ v: 1, id: 'e', type: 'note.added', data: { text: 'hello', n: [1, 1.5, null, true], s: new Float32Array([1]) } })); // prettier-ignore
  assert.deepEqual([event, data], ['2eef46fb99c515f00b34bd15543c7a29', '0131b637fd26dac840559cc5dd8c501f']);
});

test('what decodes to the same value hashes the same', () => {
  for (const [a, b] of [
    ['01', '1801'], ['01', '1b0000000000000001'], ['01', 'f93c00'], ['01', 'fb3ff0000000000000'], ['20', 'f9bc00'], ['f93e00', 'fb3ff8000000000000'],
    ['f97e00', 'fb7ff8000000000001'], ['f97e00', 'fa7fc00000'], ['fbfff8000000000000', 'f97e00'], ['6161', '7f6161ff'], ['6161', '7801' + '61'],
    ['80', '9fff'], ['a0', 'bfff'], ['a2616101616202', 'a2616202616101'], ['d8464401000000', 'd8424400000001'], ['d84041ff', 'd84441ff'],
    ['1b0020000000000000', 'c24720000000000000'], ['c249010000000000000000', 'c24a00010000000000000000'], ['01', 'c24101'],
    ['3bffffffffffffffff', 'c348ffffffffffffffff'],
  ] as const) {
    assert.equal(hashOfHex(a), hashOfHex(b), `${a} ${b}`);
  } // prettier-ignore
});

test('what is different hashes differently', () => {
  const values = [null, false, 0, -0, '', '0', [], {}, new Uint8Array(), new Float32Array(), new Float32Array([0]), new Uint32Array([0]), new Uint8Array([0, 0, 0, 0]), NaN, Infinity, 1, 1.5, '1', 2 ** 53, 2n ** 53n, [1, [2]], [[1], 2], [1, 2], { a: 1 }, { b: 1 }, { a: { b: 1 } }, { a: 1, b: 1 }, 'é', 'e\u0301', '\ud800', mapOf([['__proto__', 1]])]; // prettier-ignore
  assert.equal(new Set(values.map(hashOf)).size, values.length);
});

test('wide and deep maps are sorted too', () => {
  const keys = Array.from({ length: 100 }, (_, i) => `key ${(i * 37) % 100}`);
  assert.equal(hashOf(mapOf(keys.map((k) => [k, { [k]: 1, a: 2 }]))), hashOf(mapOf(keys.toReversed().map((k) => [k, { a: 2, [k]: 1 }]))));
});

test('a map of very many pieces inside unsorted maps hashes by value too', () => {
  const many = (reverse: boolean): unknown => {
    const items = Array.from({ length: 5000 }, (_, i) => (reverse ? { b: i, a: 1 } : { a: 1, b: i }));
    return reverse ? { z: { y: 1, x: items }, c: 0 } : { c: 0, z: { x: items, y: 1 } };
  };
  assert.equal(hashOf(many(true)), hashOf(many(false)));
});

test('an event that is no map, or is cut, is refused', () => {
  for (const hex of ['', '80', '01', 'a1', 'a16161', 'a0a0', 'a16161c16161']) {
    assert.throws(() => contentHash(Buffer.from(hex, 'hex')), (e) => isTapedeckError(e, 'invalid_cbor'), hex); // prettier-ignore
  }
  assert.equal(contentHash(encodeEvent({ id: 'e' })).event.length, 32);
});
