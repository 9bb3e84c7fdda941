import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isTapedeckError } from '../base/errors.ts';
import {
  decodeExcludedList,
  decodePlaces,
  decodeRowList,
  encodeExcludedList,
  encodePlaces,
  encodeRowList,
  type ListedRow,
  type RowTokens,
} from './row-list.ts';

/** fast-check makes objects without a prototype unless told. */
const record: typeof fc.record = ((shape: object) => fc.record(shape as never, { noNullPrototype: true })) as never;
const id = fc.string({ minLength: 1, maxLength: 12, unit: 'grapheme' });
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(arbitrary, { nil: null });
const hash = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'.split('')), minLength: 64, maxLength: 64 });
const count = fc.nat(1_000_000);

const row = fc.nat(40).chain((seqLen): fc.Arbitrary<{ row: ListedRow; tokens: RowTokens }> => {
  const floats = fc.array(fc.float(), { minLength: seqLen, maxLength: seqLen }).map((a) => new Float32Array(a));
  return record({
    row: record({
      rowId: id, run: maybe(id), rollout: id, trace: id, leaf: count, group: id, env: id, taskKey: maybe(id), agent: id,
      status: fc.constantFrom('completed', 'truncated'),
      seqLen: fc.constant(seqLen),
      lossMask: fc.array(fc.nat(1), { minLength: seqLen, maxLength: seqLen }).map((a) => new Uint8Array(a)),
      advantage: fc.oneof(fc.constant(null), fc.float({ noNaN: true }), floats),
      rlWeights: maybe(floats), ceWeights: maybe(floats), refKlWeights: maybe(floats),
      temperature: fc.oneof(fc.constant(null), fc.double(), floats), reward: maybe(fc.double()), policyVersionMin: maybe(count), policyVersionMax: maybe(count), staleness: maybe(fc.integer()),
      logOffset: fc.tuple(count, count), nodes: fc.array(count, { maxLength: 5 }), multimodal: fc.boolean(),
      members: record({ rl: count, ce: count, refKl: count }), hasReference: fc.boolean(), contentHash: hash, signalHash: hash,
    }),
    tokens: record({
      tokenIds: fc.array(fc.nat(0x7fff_ffff), { minLength: seqLen, maxLength: seqLen }).map((a) => new Int32Array(a)),
      logprobs: floats,
      refLogprobs: maybe(floats),
    }),
  });
}); // prettier-ignore

test('a row list comes back as it was, with and without tokens', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 8 }), fc.boolean(), async (given, withTokens) => {
      const rows = given.map((each) => each.row);
      const tokens = withTokens ? given.map((each) => each.tokens) : null;
      const back = await decodeRowList(await encodeRowList(rows, tokens));
      assert.deepEqual(back.rows, rows);
      assert.deepEqual(back.tokens, tokens);
    }),
    { numRuns: 60 },
  );
});

test('exclusions come back as they were', async () => {
  const excluded = [
    { run: 'r', group: 'g', rollout: 'x', trace: 't', leaf: 3, reason: 'stale', message: null, staleness: 4, length: 12 },
    { run: null, group: 'g', rollout: null, trace: null, leaf: null, reason: 'no_members', message: 'é', staleness: null, length: null },
  ];
  assert.deepEqual(await decodeExcludedList(await encodeExcludedList(excluded)), excluded);
});

test('places come back as they were', async () => {
  const places = [
    { rowId: 'a', rank: 1, microBatch: 0, position: 2 },
    { rowId: 'b', rank: 0, microBatch: 3, position: 0 },
  ];
  assert.deepEqual(await decodePlaces(await encodePlaces(places)), places);
});

test('other bytes are refused by name', async () => {
  for (const bytes of [new Uint8Array(0), Buffer.from('not zstd')]) {
    await assert.rejects(decodeRowList(bytes), (error) => isTapedeckError(error, 'blob_corrupt'));
    await assert.rejects(decodePlaces(bytes), (error) => isTapedeckError(error, 'blob_corrupt'));
    await assert.rejects(decodeExcludedList(bytes), (error) => isTapedeckError(error, 'blob_corrupt'));
  }
});
