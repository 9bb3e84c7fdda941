import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DigestSet } from './digest-set.ts';

const names = Array.from({ length: 5000 }, (_, i) => `rollout-${i}`);

function setOf(list: readonly string[]): DigestSet {
  const set = new DigestSet();
  for (const name of list) assert.equal(set.add(name), true);
  return set;
}

test('a set holds what was added, once, and nothing else', () => {
  const set = setOf(names);
  assert.equal(set.size, names.length);
  for (const name of names) assert.equal(set.add(name), false);
  assert.ok(names.every((name) => set.has(name)));
  assert.equal(set.has('another'), false);
});

test('equal sets give equal bytes, in whichever order they grew', () => {
  assert.deepEqual(setOf(names).toBytes(), setOf(names.toReversed()).toBytes());
  const bytes = Buffer.from(setOf(names).toBytes());
  for (let at = 8; at < bytes.length; at += 8) assert.ok(numberAt(bytes, at - 8) < numberAt(bytes, at));
});

/** High word first, each little-endian. */
function numberAt(bytes: Buffer, at: number): bigint {
  return (BigInt(bytes.readUInt32LE(at)) << 32n) | BigInt(bytes.readUInt32LE(at + 4));
}

test('a set comes back from its digests, sorted or not', () => {
  const set = setOf(names);
  for (const bytes of [set.digests(), set.toBytes()]) {
    const again = new DigestSet(bytes);
    assert.equal(again.size, names.length);
    assert.deepEqual(again.toBytes(), set.toBytes());
  }
  assert.equal(new DigestSet(new DigestSet().digests()).size, 0);
  assert.throws(() => new DigestSet(new Uint8Array(9)), RangeError);
});
