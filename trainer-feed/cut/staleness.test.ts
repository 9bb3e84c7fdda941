import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cut } from './cut.ts';
import { CONTEXT, groupOf, scoredBy, specOf, type NodeSketch, type TraceSketch } from './ready-groups.arbitrary.ts';
import { mustWait, stalenessParts } from './staleness.ts';

type Strategy = 'drop' | 'wait' | 'withhold' | 'mask';
const under = (strategy: Strategy, maxOffPolicySteps: number | null = 2) => specOf({ staleness: { strategy, maxOffPolicySteps } });
const turn = (version: number | null, more: Partial<NodeSketch> = {}): NodeSketch => ({ sampled: 2, policyVersion: version, ...more });
const traced = (reward: number, nodes: readonly NodeSketch[], more: TraceSketch = {}): TraceSketch => ({
  reward,
  nodes: [{ role: 'user', context: 1 }, ...nodes],
  ...more,
});
const at = (n: number, strategy: Strategy, ...traces: TraceSketch[]) => cut(under(strategy), [groupOf(traces)], { ...CONTEXT, n });
const shipped = (result: ReturnType<typeof cut>) => result.rows.map((r) => [r.trace, r.advantage, [...r.lossMask].join(''), r.staleness]);
const lost = (result: ReturnType<typeof cut>) => result.excluded.map((e) => [e.trace, e.reason, e.staleness]);

describe('staleness of a row', () => {
  it('is (n - 1) minus the oldest version of its sampled tokens', () => {
    const { rows, statistics } = at(5, 'wait', traced(1, [turn(3), turn(2)]), traced(0, [turn(4)]), traced(0, [turn(null, { policyRuns: [{ length: 1, version: 4 }, { length: 1, version: 1 }] })]));
    assert.deepEqual(rows.map((r) => [r.policyVersionMin, r.policyVersionMax, r.staleness]), [[2, 3, 2], [4, 4, 0], [1, 4, 3]]);
    assert.deepEqual(statistics.staleness, [[0, 1], [2, 1], [3, 1]]);
  });

  it('falls back to the versions of the calls of its trace', () => {
    const { rows } = at(5, 'wait', traced(1, [turn(null)], { policyStart: 1, policyEnd: 3 }), traced(0, [turn(null)], { policyStart: null, policyEnd: null }));
    assert.deepEqual(rows.map((r) => [r.policyVersionMin, r.policyVersionMax, r.staleness]), [[1, 3, 3], [null, null, null]]);
  });

  it('counts only tokens that ship', () => {
    const cutShort = specOf({ maxRowTokens: 3, overLength: 'truncate' });
    const runs: NodeSketch = turn(null, { sampled: 4, policyRuns: [{ length: 2, version: 3 }, { length: 2, version: 0 }] });
    assert.deepEqual(cut(cutShort, [groupOf([traced(1, [turn(3), turn(0)]), traced(0, [runs])])], { ...CONTEXT, n: 4 }).rows.map((r) => r.staleness), [0, 0]);
  });

  it('has two parts', () => {
    assert.deepEqual(stalenessParts(10, 4, 6), { total: 5, inFlight: 2, inQueue: 3 });
    assert.deepEqual(stalenessParts(2, 4, 6), { total: 0, inFlight: 0, inQueue: 0 });
    assert.deepEqual(stalenessParts(6, 4, 9), { total: 1, inFlight: 1, inQueue: 0 });
    assert.deepEqual(stalenessParts(6, 4, 3), { total: 1, inFlight: 0, inQueue: 1 });
  });
}); // prettier-ignore

describe('strategies, at most 2 steps behind in batch 5', () => {
  const stale = traced(1, [turn(1)]);
  const fresh = traced(0, [turn(2)]);

  it('drop leaves the whole group out, each trace with its age and length', () => {
    const result = at(5, 'drop', stale, fresh, traced(0, [turn(2)], { truncated: true }));
    assert.deepEqual(shipped(result), []);
    assert.deepEqual(lost(result), [['g-0', 'stale', 3], ['g-1', 'stale_group', 2], ['g-2', 'stale_group', 2]]);
    assert.deepEqual(result.excluded.map((e) => e.length), [3, 3, 3]);
    assert.deepEqual(result.groups.map((g) => [g.outcome, g.reason]), [['dropped', 'stale']]);
    assert.equal(at(4, 'drop', stale, fresh).rows.length, 2);
  });

  it('wait trains what arrives too old all the same; a rollout that would be too old for the next batch is waited for', () => {
    assert.deepEqual(shipped(at(5, 'wait', stale, fresh)), [['g-0', 0.5, '011', 3], ['g-1', -0.5, '011', 2]]);
    assert.deepEqual([2, 3, 4, 5].map((n) => mustWait(n, 1, 2)), [false, false, true, true]);
  });

  it('withhold ships nothing of a stale row and keeps it in the baseline', () => {
    const result = at(5, 'withhold', stale, fresh);
    assert.deepEqual(shipped(result), [['g-1', -0.5, '011', 2]]);
    assert.deepEqual(lost(result), [['g-0', 'stale', 3]]);
  });

  it('mask trains fresh tokens only, by node or by run', () => {
    const runs = turn(null, { sampled: 3, policyRuns: [{ length: 1, version: 1 }, { length: 2, version: 2 }] });
    const result = at(5, 'mask', traced(1, [turn(1), turn(3)]), traced(0, [runs]), traced(0.5, [turn(0)]));
    assert.deepEqual(shipped(result), [['g-0', 0.5, '00011', 3], ['g-1', -0.5, '0011', 3]]);
    assert.deepEqual([...(result.rows[1]?.logprobs ?? [])], [0, 0, -0.003, -0.004].map(Math.fround));
    assert.deepEqual(lost(result), [['g-2', 'stale', 4]]);
    assert.equal(result.counts.nRl, 4);
  });

  it('mask leaves what an old token is discounted by: it was sampled all the same', () => {
    const spec = specOf({
      others: { score: { algorithm: 'reinforce_pp', params: { gamma: 0.5 } } },
      staleness: { strategy: 'mask', maxOffPolicySteps: 2 },
      dropZeroAdvantage: false,
    });
    const runs = turn(null, { sampled: 4, policyRuns: [{ length: 1, version: 3 }, { length: 2, version: 1 }, { length: 1, version: 3 }] });
    const { rows } = cut(spec, [groupOf([traced(1, [runs])])], { ...CONTEXT, n: 5 });
    assert.deepEqual([...(rows[0]?.lossMask ?? [])], [0, 1, 0, 0, 1]);
    // returns 0.5 ** 3 and 1 of the two fresh tokens
    const [low, high] = [0.125, 1];
    const [mean, variance] = [(low + high) / 2, (high - low) ** 2 / 2];
    const expected = [low, high].map((g) => Math.fround((g - mean) / Math.sqrt(variance + 1e-8)));
    assert.deepEqual([...((rows[0]?.advantage ?? []) as Float32Array)].filter((a) => a !== 0), expected);
    const uneven = cut(spec, [groupOf([traced(1, [runs]), traced(0.25, [turn(4, { sampled: 1 })])])], { ...CONTEXT, n: 5 });
    const returns = [0.125, 1, 0.25];
    const centre = returns.reduce((a, b) => a + b) / 3;
    const spread = returns.reduce((t, g) => t + (g - centre) ** 2, 0) / 2;
    const [first] = [...((uneven.rows[0]?.advantage ?? []) as Float32Array)].filter((a) => a !== 0);
    assert.ok(Math.abs((first as number) - (0.125 - centre) / Math.sqrt(spread + 1e-8)) < 1e-6);
  });

  it('mask refuses a stale row whose tokens have no versions of their own, unless one version holds for all', () => {
    const result = at(5, 'mask', traced(1, [turn(null)], { policyStart: 1, policyEnd: 3 }), traced(0, [turn(null)], { policyStart: 1, policyEnd: 1 }), traced(0, [turn(null)], { policyStart: 2, policyEnd: 4 }));
    assert.deepEqual(lost(result), [['g-0', 'versions_unknown', 3], ['g-1', 'stale', 3]]);
    assert.deepEqual(result.rows.map((r) => r.trace), ['g-2']);
  });

  it('never apply to a frozen source, or without a limit', () => {
    const frozen = specOf({ others: { source: { frozen: 'big' } }, staleness: { maxOffPolicySteps: 0, strategy: 'drop' } });
    assert.equal(cut(frozen, [groupOf([stale, fresh])], { ...CONTEXT, n: 99 }).rows.length, 2);
    assert.equal(cut(under('drop', null), [groupOf([stale, fresh])], { ...CONTEXT, n: 99 }).rows.length, 2);
  });

  it('keep the value of the whole baseline, whatever the strategy', () => {
    const traces = [traced(1, [turn(1)]), traced(0, [turn(4)]), traced(0.25, [turn(4)])];
    for (const strategy of ['withhold', 'mask', 'wait'] as const) {
      const result = at(5, strategy, ...traces);
      assert.equal(result.rows.find((r) => r.trace === 'g-2')?.advantage, Math.fround(0.25 - 1.25 / 3));
    }
  });
}); // prettier-ignore

describe('conventions of a batch', () => {
  it('say which rows have which log-probabilities and how old they are', () => {
    const result = cut(scoredBy('grpo'), [groupOf([{ reward: 1, logprobsMode: 'raw' }, { reward: 0, logprobsMode: 'unknown', policyStart: 0, policyEnd: 1, nodes: [{ role: 'user', context: 1 }, turn(0)] }])], { ...CONTEXT, n: 4 });
    assert.deepEqual(result.statistics.logprobsModes, { raw: 1, processed: 0, unknown: 1 });
    assert.deepEqual([result.statistics.meanInFlight, result.statistics.meanInQueue, result.statistics.versionless], [0.5, 2.5, 0]);
  });
}); // prettier-ignore
