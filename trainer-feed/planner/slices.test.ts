import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { tableFromIPC, type Vector } from 'apache-arrow';
import fc from 'fast-check';
import type { Row } from '../cut/row.ts';
import { readExtraColumns } from './batch-columns.ts';
import { planBatch } from './plan.ts';
import { planRequest } from './plan-request.ts';
import { rowOf, rowsArbitrary } from './rows.arbitrary.ts';
import { prepareSlices, type BatchHeader, type Slice } from './slices.ts';

const HEADER: BatchHeader = {
  feed: 'f',
  timeline: 0,
  n: 7,
  batchId: 'b7',
  algorithm: 'grpo',
  policyVersion: 6,
  counts: { nRl: 11, nCe: 1, nRefKl: 1 },
};

function slicesOf(rows: readonly Row[], request: object, extra: readonly string[] = []): Slice[] {
  const plan = planBatch('b7', rows, planRequest.parse({ world: 1, maxTokens: 4096, ...request }));
  const columns = readExtraColumns(extra);
  assert.ok(plan.ok && columns.ok);
  return [...prepareSlices(HEADER, rows, plan.value, columns.value)];
}

const listOf = (column: Vector | null, row: number): unknown => (column?.get(row) as { toArray(): unknown } | null)?.toArray();

test('what is read back of all ranks is the batch, value by value', () => {
  fc.assert(
    fc.property(rowsArbitrary(64), fc.integer({ min: 1, max: 5 }), fc.constantFrom(1, 16), (rows, world, padToMultiple) => {
      const seen = new Map<string, Row>(rows.map((row) => [row.rowId, row]));
      for (const slice of slicesOf(rows, { world, padToMultiple, maxTokens: 64 })) {
        const table = tableFromIPC(slice.bytes);
        assert.equal(table.batches.length, slice.microBatches);
        for (let i = 0; i < table.numRows; i++) {
          const cell = (name: string): unknown => table.getChild(name)?.get(i);
          const list = (name: string): unknown => listOf(table.getChild(name), i);
          if (cell('status') === 'padding') {
            const length = cell('seq_len') as number;
            assert.deepEqual(list('loss_mask'), new Uint8Array(length));
            assert.deepEqual(list('token_ids'), new Int32Array(length));
            assert.equal(cell('advantage'), 0);
            continue;
          }
          const row = seen.get(cell('row_id') as string) as Row;
          seen.delete(row.rowId);
          assert.deepEqual(list('token_ids'), row.tokenIds);
          assert.deepEqual(list('loss_mask'), row.lossMask);
          assert.deepEqual(list('logprobs'), row.logprobs);
          assert.equal(cell('seq_len'), row.seqLen);
          assert.equal(cell('reward'), row.reward);
          assert.equal(cell('advantage'), row.advantage);
          assert.equal(cell('temperature'), row.temperature);
          assert.equal(cell('task_key'), row.taskKey);
          assert.equal(cell('policy_version_min'), row.policyVersionMin === null ? null : BigInt(row.policyVersionMin));
          assert.equal(cell('log_offset'), BigInt(row.logOffset[1]));
          assert.equal(cell('log_partition'), row.logOffset[0]);
        }
      }
      assert.equal(seen.size, 0);
    }),
    { numRuns: 60 },
  );
});

test('the offsets of a list column are the cumulative lengths of its micro-batch', () => {
  const [slice] = slicesOf([rowOf(0, 5), rowOf(1, 9), rowOf(2, 2)], { padToMultiple: 8 });
  const data = tableFromIPC((slice as Slice).bytes).batches[0]?.getChild('token_ids')?.data[0];
  assert.deepEqual(Array.from(data?.valueOffsets ?? []), [0, 9, 14, 16]);
  assert.equal(data?.nullCount, 0);
});

test('the schema and header are the same on every rank, but for the rank', () => {
  const slices = slicesOf(Array.from({ length: 9 }, (_, i) => rowOf(i, 10 + i)), { world: 3 }); // prettier-ignore
  const schemas = slices.map(({ bytes }) => tableFromIPC(bytes).schema);
  for (const [rank, schema] of schemas.entries()) {
    assert.deepEqual(schema.fields.map(String), schemas[0]?.fields.map(String));
    assert.equal(schema.metadata.get('tapedeck.rank'), String(rank));
    assert.equal(schema.metadata.get('tapedeck.n_rl'), '11');
    assert.equal(schema.metadata.get('tapedeck.batch_id'), 'b7');
    assert.deepEqual(schema.fields.filter(({ name }) => name === 'logprobs').map(({ nullable, type }) => [nullable, type.children[0]?.nullable]), [[false, false]]); // prettier-ignore
  }
});

test('a slice is the same bytes every time, and its digest is theirs', () => {
  const rows = Array.from({ length: 9 }, (_, i) => rowOf(i, 10 + i));
  const [a, b] = [slicesOf(rows, { world: 2 }), slicesOf(rows, { world: 2 })];
  assert.deepEqual(a, b);
  for (const { bytes, sha256 } of a) assert.equal(sha256, createHash('sha256').update(bytes).digest('hex'));
});

test('absent is not zero: a stream one row carries is filled in the others as the contract says', () => {
  const weights = Float32Array.of(0, 0, 2, 2);
  const rows = [rowOf(0, 4, { rlWeights: weights, ceWeights: weights, refKlWeights: weights, refLogprobs: weights }), rowOf(1, 3)];
  const table = tableFromIPC((slicesOf(rows, {})[0] as Slice).bytes);
  assert.deepEqual(listOf(table.getChild('rl_weights'), 0), weights);
  assert.deepEqual(listOf(table.getChild('rl_weights'), 1), Float32Array.of(1, 1, 1));
  for (const name of ['ce_weights', 'ref_kl_weights', 'ref_logprobs'])
    assert.deepEqual(listOf(table.getChild(name), 1), new Float32Array(3));
  const plain = tableFromIPC((slicesOf([rowOf(1, 3)], {})[0] as Slice).bytes);
  assert.equal(plain.getChild('rl_weights'), null);
});

test('an advantage that varies along the tokens of one row makes a list of all, on the trained tokens', () => {
  const rows = [rowOf(0, 4, { advantage: Float32Array.of(0, 0, 1, 2) }), rowOf(1, 4, { advantage: 3 }), rowOf(2, 2, { advantage: null })];
  const table = tableFromIPC((slicesOf(rows, {})[0] as Slice).bytes);
  assert.equal(table.getChild('advantage'), null);
  const lists = [0, 1, 2].map((i) => listOf(table.getChild('advantages'), i));
  assert.deepEqual(lists, [Float32Array.of(0, 0, 1, 2), Float32Array.of(0, 0, 3, 3), Float32Array.of(0, 0)]);
});

test('a temperature that varies along the tokens makes a list of all; one nobody recorded is NaN there', () => {
  const rows = [
    rowOf(0, 3, { temperature: Float32Array.of(1, 0.5, 0.25) }),
    rowOf(1, 2, { temperature: 2 }),
    rowOf(2, 1, { temperature: null }),
  ];
  const table = tableFromIPC((slicesOf(rows, {})[0] as Slice).bytes);
  assert.equal(table.getChild('temperature'), null);
  assert.deepEqual([0, 1, 2].map((i) => listOf(table.getChild('temperatures'), i)), [Float32Array.of(1, 0.5, 0.25), Float32Array.of(2, 2), Float32Array.of(NaN)]); // prettier-ignore
});

test('position_ids come only when asked for and start anew in each row; an unknown column is refused by name', () => {
  const rows = [rowOf(0, 3), rowOf(1, 2)];
  assert.equal(tableFromIPC((slicesOf(rows, {})[0] as Slice).bytes).getChild('position_ids'), null);
  const asked = tableFromIPC((slicesOf(rows, {}, ['position_ids'])[0] as Slice).bytes);
  assert.deepEqual(listOf(asked.getChild('position_ids'), 1), Int32Array.of(0, 1));
  const unknown = readExtraColumns(['images']);
  assert.ok(!unknown.ok && unknown.error.code === 'column_unknown' && /"images".*position_ids/.test(unknown.error.message));
});
