import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cut } from './cut.ts';
import { CONTEXT, groupOf, scoredBy, specOf, type NodeSketch, type TraceSketch } from './ready-groups.arbitrary.ts';
import type { MemberTrace, NodeTokens } from '../groups/ready-group.ts';
import { rowIdOf } from './row.ts';

const GRPO = scoredBy('grpo');
const run = (nodes: readonly NodeSketch[], spec = GRPO, trace: TraceSketch = {}) =>
  cut(spec, [groupOf([{ reward: 1, nodes, ...trace }, { reward: 0 }])], CONTEXT);
/** Rows of the first trace. */
const rowsOf = (...given: Parameters<typeof run>) => run(...given).rows.filter((r) => r.trace === 'g-0');
const lost = (...given: Parameters<typeof run>) => run(...given).excluded.filter((e) => e.trace === 'g-0').map((e) => [e.leaf, e.reason]); // prettier-ignore

describe('a row', () => {
  it('is its path of nodes, with log-probabilities spread over the trained tokens', () => {
    const [row] = rowsOf([{ role: 'user', context: 2 }, { context: 1, sampled: 2 }, { role: 'tool', context: 1 }, { sampled: 1 }]);
    assert.deepEqual([...(row?.tokenIds ?? [])], [1, 2, 3, 4, 5, 6, 7]);
    assert.deepEqual([...(row?.lossMask ?? [])], [0, 0, 0, 1, 1, 0, 1]);
    assert.deepEqual([...(row?.logprobs ?? [])], [0, 0, 0, 0.004, 0.005, 0, 0.007].map((v) => Math.fround(v === 0 ? 0 : -v))); // prettier-ignore
    assert.ok(row !== undefined && [...row.logprobs].every((v) => !Object.is(v, -0)));
    assert.deepEqual([row.rowId, row.leaf, row.nodes, row.seqLen, row.status], ['run/g-0-rollout/g-0/3', 3, [0, 1, 2, 3], 7, 'completed']);
    assert.deepEqual([row.advantage, row.rlWeights, row.ceWeights, row.refKlWeights, row.refLogprobs], [0.5, null, null, null, null]);
    assert.deepEqual(
      [row.reward, row.temperature, row.policyVersionMin, row.staleness, row.members],
      [1, 1, 0, 0, { rl: 3, ce: 0, refKl: 0 }],
    );
  });

  it('has a name no other row has', () => {
    const names = [rowIdOf('a/b', 'c', 'd', 1), rowIdOf('a', 'b/c', 'd', 1), rowIdOf('a', 'b', 'c/d', 1), rowIdOf('a%2Fb', 'c', 'd', 1), rowIdOf(null, 'c', 'd', 1)];
    assert.deepEqual(names, ['a%2Fb/c/d/1', 'a/b%2Fc/d/1', 'a/b/c%2Fd/1', 'a%252Fb/c/d/1', '/c/d/1']);
  }); // prettier-ignore

  it('does not exist for a path with a node that has no tokens; a node with none of its own is fine', () => {
    const nodes: NodeSketch[] = [{ role: 'user', context: 1 }, { sampled: 1 }, { role: 'tool', tokens: false }, { parent: 1, role: 'tool', context: 0 }, { sampled: 1 }];
    assert.deepEqual(rowsOf(nodes).map((r) => r.nodes), [[0, 1, 3, 4]]);
    assert.deepEqual(lost(nodes), [[2, 'no_tokens']]);
  }); // prettier-ignore

  it('carries one temperature, or one per token where its calls differ', () => {
    const nodes = (a: number | null, b: number | null): NodeSketch[] => [{ role: 'user', context: 1 }, { sampled: 1, temperature: a }, { sampled: 2, temperature: b }];
    const of = (a: number | null, b: number | null, trace: number | null = null) => rowsOf(nodes(a, b), GRPO, { temperature: trace })[0]?.temperature;
    assert.equal(of(0.5, 0.5), 0.5);
    assert.equal(of(null, 0.75, 0.75), 0.75);
    assert.equal(of(null, 0.5), null);
    assert.deepEqual(of(0.5, 0.75), Float32Array.of(1, 0.5, 0.75, 0.75));
  }); // prettier-ignore

  it('does not train what a model did not sample in this trace, or a stream that broke unless told so', () => {
    const group = groupOf([{ reward: 1, nodes: [{ role: 'user', context: 1 }, { sampled: 2 }, { sampled: 1 }] }, { reward: 0 }]);
    const [first] = group.members;
    const copied = new Map(first?.nodes);
    copied.set(1, { ...(copied.get(1) as NodeTokens), sampled: false }); // a node of the rollout this one was forked from
    const forked = { ...group, members: [{ ...(first as MemberTrace), nodes: copied }, ...group.members.slice(1)] };
    assert.deepEqual([...(cut(GRPO, [forked], CONTEXT).rows[0]?.lossMask ?? [])], [0, 0, 0, 1]);
    const broken: NodeSketch[] = [{ role: 'user', context: 1 }, { sampled: 2, partial: true }, { sampled: 1 }];
    assert.deepEqual([...(rowsOf(broken)[0]?.lossMask ?? [])], [0, 0, 0, 1]);
    assert.deepEqual([...(rowsOf(broken, specOf({ others: { partial: 'train' } }))[0]?.lossMask ?? [])], [0, 1, 1, 1]);
  }); // prettier-ignore
});

describe('branches', () => {
  const forked: NodeSketch[] = [
    { role: 'user', context: 1 },
    { sampled: 2 },
    { sampled: 1 },
    { parent: 1, role: 'user', context: 1 },
    { sampled: 3 },
  ];

  it('train a shared sampled node once, in the first branch by leaf', () => {
    const rows = rowsOf(forked);
    assert.deepEqual(rows.map((r) => [r.leaf, [...r.lossMask]]), [[2, [0, 1, 1, 1]], [4, [0, 0, 0, 0, 1, 1, 1]]]); // prettier-ignore
    assert.deepEqual([...(rows[1]?.logprobs.subarray(0, 4) ?? [])], [0, 0, 0, 0]);
    assert.equal(run(forked).counts.nRl, 6 + 2);
  });

  it('leave the shared node to the next row when a filter takes the first', () => {
    const rows = rowsOf(forked, specOf({ others: { rows: { minTokens: 5 } } }));
    assert.deepEqual(rows.map((r) => [r.leaf, [...r.lossMask]]), [[4, [0, 1, 1, 0, 1, 1, 1]]]); // prettier-ignore
  });

  it('are skipped when nothing is left to train in them', () => {
    const tail: NodeSketch[] = [{ role: 'user', context: 1 }, { sampled: 2 }, { sampled: 1 }, { parent: 1, role: 'user', context: 1 }];
    assert.deepEqual(rowsOf(tail).map((r) => r.leaf), [2]); // prettier-ignore
    assert.deepEqual(lost(tail), [[3, 'nothing_to_train']]);
    assert.deepEqual(lost([{ role: 'user', context: 1 }, { sampled: 1 }, { parent: 0, role: 'user', context: 1 }]), [[2, 'nothing_to_train']]); // prettier-ignore
  });

  it('count all leaves or only the last, and no attempt at compaction that led nowhere', () => {
    const final = specOf({ others: { branches: 'final' } });
    assert.deepEqual(rowsOf(forked, final).map((r) => [r.leaf, [...r.lossMask]]), [[4, [0, 1, 1, 0, 1, 1, 1]]]); // prettier-ignore
    assert.deepEqual(lost(forked, final), [[2, 'not_final']]);
    const attempt: TraceSketch = { compactionAttempts: new Set([4]) };
    assert.deepEqual(rowsOf(forked, GRPO, attempt).map((r) => r.leaf), [2]); // prettier-ignore
    assert.deepEqual(lost(forked, GRPO, attempt), [[4, 'compaction_attempt']]);
    assert.deepEqual(rowsOf(forked, final, attempt).map((r) => r.leaf), [2]); // prettier-ignore
  });
});

describe('row limits', () => {
  const long: NodeSketch[] = [{ role: 'user', context: 2 }, { sampled: 3 }, { role: 'tool', context: 2 }, { sampled: 2 }];
  const limited = (maxRowTokens: number, overLength: 'drop' | 'truncate' | 'error', placeholderIds: number[] = []) => specOf({ maxRowTokens, overLength, placeholderIds });

  it('drop a row that is too long, its trace stays in the baseline', () => {
    const { rows, excluded } = run(long, limited(8, 'drop'));
    assert.deepEqual(rows.map((r) => [r.trace, r.advantage]), [['g-1', -0.5]]);
    assert.deepEqual(excluded.map((e) => [e.trace, e.leaf, e.reason, e.length]), [['g-0', 3, 'over_length', 9]]);
  });

  it('cut all streams at one place, before anything is counted', () => {
    for (const [limit, mask, nodes] of [[8, [0, 0, 1, 1, 1, 0, 0, 1], 4], [7, [0, 0, 1, 1, 1, 0, 0], 3], [4, [0, 0, 1, 1], 2]] as const) {
      const { rows, counts } = run(long, limited(limit, 'truncate'));
      const [row] = rows;
      assert.deepEqual([row?.seqLen, [...(row?.lossMask ?? [])], row?.nodes.length], [limit, mask, nodes]);
      assert.equal(row?.logprobs.length, limit);
      assert.equal(counts.nRl, mask.filter((m) => m === 1).length + (limit < 5 ? 1 : 2));
    }
  });

  it('keep placeholder runs of images whole', () => {
    const image: NodeSketch[] = [{ role: 'user', ids: Uint32Array.of(1, 9, 9, 9, 2), mask: new Uint8Array(5) }, { sampled: 1 }, { role: 'tool', ids: Uint32Array.of(9, 9, 9), mask: new Uint8Array(3) }, { sampled: 1 }];
    const lengths = [10, 9, 8, 7, 6].map((limit) => rowsOf(image, limited(limit, 'truncate', [9]))[0]?.seqLen);
    assert.deepEqual(lengths, [10, 9, 6, 6, 6]);
    assert.deepEqual(lost(image, limited(4, 'truncate', [9])), [[3, 'nothing_to_train']]);
    assert.deepEqual(rowsOf(image, limited(6, 'truncate', [9])).map((r) => r.multimodal), [true]);
    assert.deepEqual(run(image, limited(10, 'truncate', [9])).rows.map((r) => r.multimodal), [true, false]);
  });

  it('fail the group by name where the spec says error', () => {
    const { groups, rows } = run(long, limited(8, 'error'));
    assert.deepEqual([rows.length, groups[0]?.outcome, groups[0]?.reason], [0, 'failed', 'row_exceeds_max_tokens']);
    assert.match(groups[0]?.message ?? '', /9 tokens, over maxRowTokens 8: raise it/);
  });

  it('filter rows by length', () => {
    assert.deepEqual(lost(long, specOf({ others: { rows: { maxTokens: 8 } } })), [[3, 'too_long']]);
    assert.deepEqual(lost(long, specOf({ others: { rows: { minSampledTokens: 6 } } })), [[3, 'too_short']]);
  });
}); // prettier-ignore

describe('tokens that cannot be shipped', () => {
  const reasonOf = (node: NodeSketch, spec = GRPO) => run([{ role: 'user', context: 2 }, node], spec).groups[0]?.reason;
  it('fail the group by name', () => {
    assert.equal(reasonOf({ sampled: 2, logprobs: null }), 'missing_logprobs');
    assert.equal(reasonOf({ sampled: 2, logprobs: Float32Array.of(-1) }), 'token_lengths');
    assert.equal(reasonOf({ sampled: 2, mask: Uint8Array.of(1) }), 'token_lengths');
    assert.equal(reasonOf({ sampled: 2, isContent: Uint8Array.of(1) }), 'token_lengths');
    assert.equal(reasonOf({ sampled: 2, policyRuns: [{ length: 1, version: 0 }] }), 'token_lengths');
    for (const bad of [Number.NaN, Number.NEGATIVE_INFINITY, -9999]) assert.equal(reasonOf({ sampled: 2, logprobs: Float32Array.of(-1, bad) }), 'non_finite_logprobs');
    assert.equal(reasonOf({ sampled: 1, ids: Uint32Array.of(0x8000_0000) }), 'token_id_range');
    assert.equal(reasonOf({ sampled: 1, ids: Uint32Array.of(0x7fff_ffff) }), null);
  });
  it('need log-probabilities only where they are trained with', () => {
    const unused = groupOf([{ reward: 0.5, nodes: [{ role: 'user', context: 1 }, { sampled: 1, logprobs: null }] }, { reward: 1 }, { reward: 0 }]);
    assert.deepEqual(cut(GRPO, [unused], CONTEXT).rows.map((r) => r.trace), ['g-1', 'g-2']);
    assert.equal(cut(specOf({ dropZeroAdvantage: false }), [unused], CONTEXT).groups[0]?.reason, 'missing_logprobs');
    // of a reward of 0 whitening makes an advantage that is not
    const whitened = groupOf([{ reward: 0, nodes: [{ role: 'user', context: 1 }, { sampled: 1, logprobs: null }] }, { reward: 1 }]);
    assert.equal(cut(scoredBy('reinforce_pp'), [whitened], CONTEXT).groups[0]?.reason, 'missing_logprobs');
  });
}); // prettier-ignore
