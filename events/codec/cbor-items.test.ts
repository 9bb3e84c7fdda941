import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitCborItems } from './cbor-items.ts';

const split = (hex: string, max?: number): unknown => {
  const result = splitCborItems(Buffer.from(hex, 'hex'), max);
  return result.ok ? result.value.map(({ start, end }) => [start, end]) : result.error.code;
};

test('an array of events, definite or indefinite; one event; a sequence of events', () => {
  assert.deepEqual(split('82a0a1616101'), [[1, 2], [2, 6]]); // prettier-ignore
  assert.deepEqual(split('9fa0a1616101ff'), [[1, 2], [2, 6]]); // prettier-ignore
  assert.deepEqual(split('a1616101'), [[0, 4]]);
  assert.deepEqual(split('a1616101a0bfff'), [[0, 4], [4, 5], [5, 7]]); // prettier-ignore
  assert.deepEqual(split('80'), []);
});

test('an item that is no map is found all the same, so that it is refused alone', () => {
  assert.deepEqual(split('83a001f6'), [[1, 2], [2, 3], [3, 4]]); // prettier-ignore
  assert.deepEqual(split('8262c328a0'), [[1, 4], [4, 5]]); // prettier-ignore
});

test('no more ranges than asked for', () => {
  assert.deepEqual(split('83a0a0a0', 2), [[1, 2], [2, 3]]); // prettier-ignore
  assert.deepEqual(split('9fa0a0a0ff', 2), [[1, 2], [2, 3]]); // prettier-ignore
  assert.deepEqual(split('a0a0a0', 2), [[0, 1], [1, 2]]); // prettier-ignore
  assert.deepEqual(split('82a0a0', 2), [[1, 2], [2, 3]]); // prettier-ignore
});

test('a body that cannot be cut is refused', () => {
  for (const hex of ['', '01', '6161', '82a0', '9fa0', '81a000', 'a06161ff', '9affffffffa0', '8161', 'c1a0']) assert.equal(split(hex), 'invalid_cbor', hex); // prettier-ignore
});
