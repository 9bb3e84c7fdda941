import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { extendRegistry, PRESET_REGISTRY } from '../algorithms/registry.ts';
import { cut } from './cut.ts';
import { CONTEXT, groupOf, plainGroup, scoredBy, specOf, type NodeSketch } from './ready-groups.arbitrary.ts';
import type { Row } from './row.ts';

const only = (rows: readonly Row[]): Row => {
  assert.equal(rows.length, 1);
  return rows[0] as Row;
};
const list = (array: Float32Array | null): number[] | null => (array === null ? null : [...array]);
const reasons = (excluded: readonly { readonly trace: string | null; readonly reason: string }[]) =>
  excluded.map((e) => [e.trace, e.reason]);
const taught = (sampled: number): NodeSketch => ({
  context: 1,
  sampled,
  referenceLogprobs: Float32Array.from({ length: sampled }, (_, i) => -(i + 1) / 4),
});

describe('opd and opsd', () => {
  const group = groupOf([{ reward: null, demonstration: 'do it so', nodes: [{ role: 'user', context: 2 }, taught(2)] }]);

  it('train ref_kl on sampled tokens, no rl, no credit, and need no reward', () => {
    for (const spec of [scoredBy('opd', { teacher: 'big' }), scoredBy('opsd')]) {
      const { rows, counts } = cut(spec, [group], CONTEXT);
      const row = only(rows);
      assert.equal(row.advantage, null);
      assert.equal(row.reward, null);
      assert.deepEqual(list(row.rlWeights), [0, 0, 0, 0, 0]);
      assert.deepEqual(list(row.refKlWeights), [0, 0, 0, 1, 1]);
      assert.deepEqual(list(row.refLogprobs), [0, 0, 0, -0.25, -0.5]);
      assert.equal(row.ceWeights, null);
      assert.deepEqual([counts.nRl, counts.nCe, counts.nRefKl], [1, 1, 2]);
    }
  });

  it('leave out rows the teacher has not scored, traces of another tokenizer, and for opsd those without a demonstration', () => {
    const bare = groupOf([{}, { nodes: [{ role: 'user', context: 2 }, taught(1)], tokenizerHash: 'b' }]);
    const opd = cut(scoredBy('opd', { teacher: 'big', tokenizerHash: 'a' }), [bare], CONTEXT);
    assert.deepEqual(reasons(opd.excluded), [
      ['g-0', 'tokenizer_mismatch'],
      ['g-1', 'tokenizer_mismatch'],
    ]);
    assert.deepEqual(reasons(cut(scoredBy('opd', { teacher: 'big' }), [bare], CONTEXT).excluded), [['g-0', 'missing_reference']]);
    assert.deepEqual(reasons(cut(scoredBy('opsd'), [bare], CONTEXT).excluded).map(([, r]) => r), ['missing_demonstration', 'missing_demonstration']); // prettier-ignore
  });

  it('fail the group where log-probabilities of the policy are missing', () => {
    const lacking = groupOf([
      {
        nodes: [
          { role: 'user', context: 2 },
          { ...taught(2), logprobs: null },
        ],
      },
    ]);
    assert.deepEqual(cut(scoredBy('opd', { teacher: 'big' }), [lacking], CONTEXT).groups.map((g) => g.reason), ['missing_logprobs']); // prettier-ignore
  });
});

describe('sft and rejection_ft', () => {
  it('sft trains ce on sampled tokens of a frozen model, without log-probabilities or rewards', () => {
    const group = groupOf([{ reward: null, policyStart: null, policyEnd: null, nodes: [{ role: 'user', context: 1 }, { sampled: 2, logprobs: null, policyVersion: 7 }] }]);
    const { rows, counts } = cut(scoredBy('sft'), [group], { ...CONTEXT, n: 50 });
    const row = only(rows);
    assert.deepEqual([list(row.rlWeights), list(row.ceWeights), [...row.lossMask], [...row.logprobs]], [[0, 0, 0], [0, 1, 1], [0, 1, 1], [0, 0, 0]]);
    assert.deepEqual([row.policyVersionMin, row.policyVersionMax, row.staleness], [null, null, null]);
    assert.deepEqual([counts.nRl, counts.nCe], [1, 2]);
  }); // prettier-ignore

  it('rejection_ft trains members at the threshold and above, or the best of them, ties by order', () => {
    const group = plainGroup([0.5, 1, 0.25, 1, 1]);
    const all = cut(scoredBy('rejection_ft', { threshold: 0.5 }), [group], CONTEXT);
    assert.deepEqual(all.rows.map((r) => r.trace), ['g-0', 'g-1', 'g-3', 'g-4']); // prettier-ignore
    assert.deepEqual(reasons(all.excluded), [['g-2', 'below_threshold']]);
    assert.equal(all.excluded[0]?.length, 5);
    const best = cut(scoredBy('rejection_ft', { threshold: 0.5, best: 2 }), [group], CONTEXT);
    assert.deepEqual(best.rows.map((r) => r.trace), ['g-1', 'g-3']); // prettier-ignore
    assert.deepEqual(reasons(best.excluded), [['g-0', 'not_among_best'], ['g-2', 'below_threshold'], ['g-4', 'not_among_best']]); // prettier-ignore
    assert.equal(best.rows[0]?.reward, 1);
  });
});

describe('rl_opd', () => {
  it('trains rl and ref_kl on the same tokens; lambda scales and does not count', () => {
    const trace = (reward: number) => ({ reward, nodes: [{ role: 'user', context: 1 }, taught(2)] });
    const { rows, counts } = cut(scoredBy('rl_opd', { teacher: 'big', lambda: 0.25 }), [groupOf([trace(1), trace(0)])], CONTEXT);
    assert.deepEqual(rows.map((r) => [r.advantage, list(r.rlWeights), list(r.refKlWeights)]), [
      [0.5, null, [0, 0, 0.25, 0.25]],
      [-0.5, null, [0, 0, 0.25, 0.25]],
    ]); // prettier-ignore
    assert.deepEqual([counts.nRl, counts.nRefKl], [4, 4]);
  });

  it('keeps the pull where there is no credit', () => {
    const trace = { reward: 1, nodes: [{ role: 'user', context: 1 }, taught(1)] };
    const { rows, counts } = cut(scoredBy('rl_opd', { teacher: 'big' }), [groupOf([trace, trace])], CONTEXT);
    assert.deepEqual(rows.map((r) => [r.advantage, list(r.rlWeights)]), [[0, [0, 0, 0]], [0, [0, 0, 0]]]); // prettier-ignore
    assert.deepEqual([counts.nRl, counts.nRefKl], [1, 2]);
  });
});

describe('echo', () => {
  const turns = (tool: Partial<NodeSketch> = {}): NodeSketch[] => [{ role: 'tool', context: 2 }, { sampled: 1 }, { role: 'tool', context: 3, ...tool }, { role: 'user', context: 1 }, { sampled: 1 }];

  it('learns answers of the environment after the first sampled node, by role', () => {
    const { rows, counts } = cut(scoredBy('echo'), [groupOf([{ reward: 1, nodes: turns() }, { reward: 0 }])], CONTEXT);
    assert.deepEqual(list(rows[0]?.ceWeights ?? null), [0, 0, 0, ...[0.1, 0.1, 0.1].map((v) => Math.fround(v)), 0, 0]);
    assert.deepEqual([...(rows[0]?.lossMask ?? [])], [0, 0, 1, 0, 0, 0, 0, 1]);
    assert.equal(rows[1]?.ceWeights, null);
    assert.deepEqual([counts.nRl, counts.nCe], [4, 3]);
  });

  it('learns message bodies only where they are known', () => {
    const { rows, counts } = cut(scoredBy('echo', { roles: { tool: 1, user: 2 } }), [groupOf([{ reward: 1, nodes: turns({ isContent: Uint8Array.of(0, 1, 0) }) }, { reward: 0 }])], CONTEXT);
    assert.deepEqual(list(rows[0]?.ceWeights ?? null), [0, 0, 0, 0, 1, 0, 2, 0]);
    assert.equal(counts.nCe, 2);
  });

  it('ships ce of a group without variance', () => {
    const { rows, counts } = cut(scoredBy('echo', { roles: { tool: 1 } }), [groupOf([{ reward: 1, nodes: turns() }, { reward: 1, nodes: turns() }, { reward: 1 }])], CONTEXT);
    assert.deepEqual(rows.map((r) => [r.trace, r.advantage, r.members]), [['g-0', 0, { rl: 0, ce: 3, refKl: 0 }], ['g-1', 0, { rl: 0, ce: 3, refKl: 0 }]]);
    assert.deepEqual(list(rows[0]?.rlWeights ?? null), [0, 0, 0, 0, 0, 0, 0, 0]);
    assert.deepEqual([counts.nRl, counts.nCe], [1, 6]);
  });

  it('trains an observation that several branches share once', () => {
    const forked: NodeSketch[] = [{ role: 'user', context: 1 }, { sampled: 1 }, { role: 'tool', context: 2 }, { sampled: 1 }, { parent: 2, sampled: 1 }];
    const { rows, counts } = cut(scoredBy('echo', { roles: { tool: 1 } }), [groupOf([{ reward: 1, nodes: forked }, { reward: 0 }])], CONTEXT);
    assert.deepEqual(rows.slice(0, 2).map((r) => [[...r.lossMask], list(r.ceWeights)]), [[[0, 1, 0, 0, 1], [0, 0, 1, 1, 0]], [[0, 0, 0, 0, 1], null]]);
    assert.equal(counts.nCe, 2);
  });

  it('is refused by name where messages own no span, never silently empty', () => {
    const cases: Partial<NodeSketch>[] = [{ attribution: 'none', context: 0 }, { attribution: null, context: 0 }, { attribution: 'ladder', context: 0 }, { role: 'input' }];
    for (const tool of cases) {
      const { rows, excluded } = cut(scoredBy('echo'), [groupOf([{ reward: 1, nodes: turns(tool) }, { reward: 0 }])], CONTEXT);
      assert.deepEqual(rows.map((r) => [r.trace, r.advantage]), [['g-1', -0.5]]);
      assert.deepEqual(reasons(excluded), [['g-0', 'echo_needs_attribution']]);
    }
    const [system, ...rest] = turns();
    const prompted = cut(scoredBy('echo'), [groupOf([{ reward: 1, nodes: [{ ...system, attribution: 'none' }, ...rest] }, { reward: 0 }])], CONTEXT);
    assert.equal(prompted.rows[0]?.members.ce, 3); // what comes before the first sampled node is not learned anyway
    const empty = cut(scoredBy('echo'), [groupOf([{ reward: 1, nodes: turns({ attribution: 'renderer', context: 0 }) }, { reward: 0 }])], CONTEXT);
    assert.equal(empty.rows.length, 2);
  });

  it('lets a token filter of a module narrow what is learned, and fails the group when it throws', () => {
    const keep = (node: { readonly ids: Uint32Array }) => Uint8Array.from(node.ids, (_, i) => (i === 0 ? 1 : 0));
    const boom = () => { throw new Error('no'); };
    const registry = extendRegistry(PRESET_REGISTRY, { filters: [{ name: 'first', keep }, { name: 'boom', keep: boom }, { name: 'short', keep: () => new Uint8Array(1) }] });
    assert.ok(registry.ok);
    const run = (filter: string, tool: Partial<NodeSketch> = {}) =>
      cut(specOf({ others: { score: { algorithm: 'echo', params: { roles: { tool: 1 }, filter } } } }, registry.value), [groupOf([{ reward: 1, nodes: turns(tool) }, { reward: 0 }])], CONTEXT);
    assert.deepEqual(list(run('first').rows[0]?.ceWeights ?? null), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert.deepEqual(list(run('first', { isContent: Uint8Array.of(1, 1, 0) }).rows[0]?.ceWeights ?? null), [0, 0, 0, 1, 0, 0, 0, 0]);
    assert.equal(run('first', { isContent: Uint8Array.of(0, 1, 1) }).rows[0]?.ceWeights, null);
    assert.deepEqual(run('boom').groups.map((g) => [g.outcome, g.reason]), [['failed', 'algorithm_threw']]);
    assert.deepEqual(run('short').groups.map((g) => g.reason), ['algorithm_output']);
  });
}); // prettier-ignore
