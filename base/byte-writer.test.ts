import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ByteWriter } from './byte-writer.ts';

const MIB = 1024 * 1024;

function fill(writer: ByteWriter, bytes: number): void {
  writer.clear();
  writer.reserve(bytes);
  writer.length = bytes;
}

const capacity = (writer: ByteWriter): number => writer.reserve(0).length;

test('what was written is there after the buffer has grown and after it was let go', () => {
  const writer = new ByteWriter(4);
  for (let round = 0; round < 40; round++) {
    writer.clear();
    const wanted = Buffer.from(`${round} `.repeat(round === 0 ? 2 * MIB : 10));
    writer.bytes(wanted.subarray(0, 7));
    writer.utf8(wanted.toString('utf8', 7));
    assert.ok(writer.view().equals(wanted));
  }
});

test('a buffer is kept while fillings of its size come now and then', () => {
  const writer = new ByteWriter();
  fill(writer, 16 * MIB);
  const buffer = writer.reserve(0);
  for (let round = 0; round < 100; round++) fill(writer, round % 8 === 0 ? 16 * MIB : 1000);
  assert.equal(writer.reserve(0), buffer);
});

test('a buffer that one large filling left behind is let go', () => {
  const writer = new ByteWriter();
  fill(writer, 16 * MIB);
  for (let round = 0; round < 50; round++) fill(writer, 1000);
  assert.ok(capacity(writer) <= MIB, `${capacity(writer)} bytes are kept`);
  fill(writer, 16 * MIB);
  for (let round = 0; round < 50; round++) fill(writer, 3 * MIB);
  assert.ok(capacity(writer) >= 3 * MIB && capacity(writer) <= 12 * MIB, `${capacity(writer)} bytes are kept`);
});
