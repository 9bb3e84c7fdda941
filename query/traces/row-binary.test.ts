import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinStreams } from './branch-tokens.ts';
import { RowBinary } from './row-binary.ts';

test('reads numbers and lists, and refuses an answer that ends inside a value', () => {
  const ids = Buffer.alloc(300 * 4, 7);
  const bytes = Buffer.concat([Buffer.from([5, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0xac, 0x02]), ids, Buffer.from([0])]);
  const rows = new RowBinary(bytes);
  assert.deepEqual([rows.uint8(), rows.uint32(), rows.uint64()], [5, 1, 2]);
  assert.deepEqual(Buffer.from(rows.list(4)), ids);
  assert.equal(rows.list(4).length, 0);
  assert.ok(rows.isAtEnd);
  assert.throws(() => new RowBinary(bytes.subarray(13, 100)).list(4), RangeError);
});

const f32 = (...values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const u32 = (...values: number[]): Uint8Array => new Uint8Array(Uint32Array.from(values).buffer);

test('streams of a path are concatenated byte by byte; segments say what each node gave', () => {
  const nodes = [
    { node: 0, ids: u32(1, 2), mask: Uint8Array.of(0, 0), logprobs: f32() },
    { node: 4, ids: u32(3, 4_294_967_295), mask: Uint8Array.of(1, 1), logprobs: f32(-0.5, NaN) },
    { node: 7, ids: u32(), mask: Uint8Array.of(), logprobs: f32() },
  ];
  const arrays = joinStreams(nodes, 'arrays');
  assert.deepEqual(arrays.ids, [1, 2, 3, 4_294_967_295]);
  assert.deepEqual(arrays.mask, [0, 0, 1, 1]);
  assert.deepEqual(arrays.logprobs, [-0.5, { $float: 'NaN' }]);
  assert.deepEqual([arrays.tokens, arrays.sampledTokens], [4, 2]);
  assert.deepEqual(arrays.segments[1], { node: 4, tokens: 2, sampledTokens: 2, logprobs: 2 });
  const base64 = joinStreams(nodes, 'base64');
  assert.deepEqual(Buffer.from(base64.ids as string, 'base64'), Buffer.from(u32(1, 2, 3, 4_294_967_295)));
  assert.deepEqual(Buffer.from(base64.logprobs as string, 'base64'), Buffer.from(f32(-0.5, NaN)));
});
