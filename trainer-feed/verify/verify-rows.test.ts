import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { cut } from '../cut/cut.ts';
import { CONTEXT, groupOf, scoredBy } from '../cut/ready-groups.arbitrary.ts';
import { planBatch } from '../planner/plan.ts';
import { planRequest } from '../planner/plan-request.ts';
import { readSlice, type ReadMicroBatch } from '../planner/read-slice.ts';
import { prepareSlices } from '../planner/slices.ts';
import type { Row } from '../cut/row.ts';
import { verifyRows } from './verify-rows.ts';

/** What ranks read of the rows. */
function served(rows: readonly Row[], world: number): ReadMicroBatch[] {
  const plan = planBatch('b', rows, planRequest.parse({ world, maxTokens: 64, padToMultiple: 4 }));
  assert.ok(plan.ok);
  const header = { feed: 'f', timeline: 0, n: 1, batchId: 'b', algorithm: 'a', policyVersion: 0, counts: { nRl: 1, nCe: 1, nRefKl: 1 } };
  return [...prepareSlices(header, rows, plan.value)].flatMap(({ bytes }) => readSlice(bytes));
}

/** The manifest of a batch, by way of JSON. */
function manifestOf({ rows }: { readonly rows: readonly Row[] }): { n: number; rows: Record<string, unknown>[] } {
  const sum = (stream: Float32Array | null): number | null => (stream === null ? null : stream.reduce((a, b) => a + b, 0));
  const plain = (value: Row['advantage']): unknown => (typeof value === 'object' && value !== null ? 'per token' : value);
  const listed = rows.map(({ rowId, seqLen, contentHash, signalHash, members, advantage, temperature, refLogprobs, rlWeights, ceWeights, refKlWeights }) => ({
    rowId, seqLen, contentHash, signalHash, members, advantage: plain(advantage), temperature: plain(temperature), hasReference: refLogprobs !== null,
    weights: { rl: sum(rlWeights), ce: sum(ceWeights), refKl: sum(refKlWeights) },
  })); // prettier-ignore
  return JSON.parse(JSON.stringify({ n: 1, rows: listed })) as { n: number; rows: Record<string, unknown>[] };
}

const traces = (rewards: readonly number[]) =>
  rewards.map((reward, i) => ({
    reward,
    nodes: [
      { role: 'user', context: 2 },
      { sampled: 3 + i, referenceLogprobs: Float32Array.from({ length: 3 + i }, (_, k) => -k / 8) },
    ],
  }));
const SPECS = [
  scoredBy('grpo'), scoredBy('reinforce_pp', { gamma: 0.9 }), scoredBy('dr_grpo', { horizon: 7 }), scoredBy('opd', { teacher: 't' }), scoredBy('rl_opd', { teacher: 't', lambda: 0.5 }),
  scoredBy('rejection_ft', { threshold: 0.5 }),
]; // prettier-ignore

describe('rows as they are served', () => {
  it('have the hashes of the manifest, under every algorithm, world and packing', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 2, maxLength: 6 }), fc.integer({ min: 1, max: 4 }), fc.nat(SPECS.length - 1), (rewards, world, s) => {
        const batch = cut(SPECS[s] as never, [groupOf(traces(rewards.map((r) => r / 4)) as never)], CONTEXT);
        if (batch.rows.length === 0) return;
        assert.deepEqual(verifyRows(manifestOf(batch), served(batch.rows, world)), []);
      }),
      { numRuns: 60 },
    ); // prettier-ignore
  });

  it('show every change of what is trained', () => {
    const batch = cut(scoredBy('rl_opd', { teacher: 't' }), [groupOf(traces([1, 0, 0]) as never)], CONTEXT);
    const [first] = batch.rows as [Row];
    const changed = <T extends Int32Array | Uint8Array | Float32Array>(array: T, at: number, value: number): T => {
      const copy = array.slice() as T;
      copy[at] = value;
      return copy;
    };
    const flaws = (row: Partial<Row>): string[] =>
      [...new Set(verifyRows(manifestOf(batch), served([{ ...first, ...row }, ...batch.rows.slice(1)], 2)).map(({ flaw }) => flaw))].toSorted();
    assert.deepEqual(flaws({}), []);
    assert.deepEqual(flaws({ tokenIds: changed(first.tokenIds, 0, 77) }), ['content_hash']);
    assert.deepEqual(flaws({ logprobs: changed(first.logprobs, 3, -0.125) }), ['content_hash']);
    assert.deepEqual(flaws({ refLogprobs: changed(first.refLogprobs as Float32Array, 3, -9) }), ['content_hash']);
    assert.deepEqual(flaws({ lossMask: changed(first.lossMask, 0, 1) }), ['content_hash', 'members']);
    assert.deepEqual(flaws({ lossMask: changed(first.lossMask, 2, 0) }), ['content_hash', 'members']);
    assert.deepEqual(flaws({ reward: 0.5 }), ['content_hash']);
    assert.deepEqual(flaws({ policyVersionMin: 1 }), ['content_hash']);
    assert.deepEqual(flaws({ status: 'truncated' }), ['content_hash']);
    assert.deepEqual(flaws({ advantage: 0.25 }), ['signal_hash']);
    assert.deepEqual(flaws({ refKlWeights: changed(first.refKlWeights as Float32Array, 2, 0.5) }), ['signal_hash']);
    assert.deepEqual(flaws({ refKlWeights: changed(first.refKlWeights as Float32Array, 2, 0) }), ['members', 'signal_hash']);
    assert.deepEqual(flaws({ rowId: 'x' }), ['row_missing', 'row_unknown']);
    assert.deepEqual(verifyRows(manifestOf(batch), [...served(batch.rows, 1), ...served(batch.rows, 1)]).map(({ flaw }) => flaw)[0], 'row_served_twice');
    assert.deepEqual(verifyRows({ n: 1 }, []).map(({ flaw }) => flaw), ['unreadable']);
  }); // prettier-ignore
});
