import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { advantagesOf, CONTEXT, groupOf, plainGroup, scoredBy, specOf } from '../cut/ready-groups.arbitrary.ts';
import { cut } from '../cut/cut.ts';

const f32 = (values: readonly number[]): number[] => values.map((v) => Math.fround(v));
const meanOf = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
const varOf = (x: readonly number[]): number => x.reduce((t, v) => t + (v - meanOf(x)) ** 2, 0) / (x.length - 1);
const near = (actual: unknown, expected: readonly number[]): void => {
  const got = actual as readonly number[];
  assert.equal(got.length, expected.length);
  for (const [i, e] of expected.entries())
    assert.ok(Math.abs((got[i] as number) - e) < 1e-6, `${got.join(' ')} is not ${expected.join(' ')}`);
};

describe('grpo with scale batch', () => {
  const groups = [
    plainGroup([1, 0], [2, 2], { group: 'g0', readyAt: 0 }),
    plainGroup([0.5, 0.25, 0], [2, 2, 2], { group: 'g1', readyAt: 1 }),
  ];

  it('divides by the deviation of all rewards of the batch, which stands in the statistics', () => {
    const s = Math.sqrt(varOf([1, 0, 0.5, 0.25, 0]));
    const [a, b] = advantagesOf(scoredBy('grpo', { scale: 'batch' }), groups);
    near(
      a,
      [0.5, -0.5].map((d) => d / (s + 1e-4)),
    );
    near(
      b,
      [0.25, 0, -0.25].map((d) => d / (s + 1e-4)),
    );
    const { statistics } = cut(scoredBy('grpo', { scale: 'batch' }), groups, CONTEXT);
    assert.equal(statistics.populations[0]?.statistics['members'], 5);
    near([statistics.populations[0]?.statistics['rewardStd']], [s]);
  });

  it('gives 0 to a batch of one member', () => {
    assert.deepEqual(advantagesOf(scoredBy('grpo', { scale: 'batch', singleton: 'reward' }), [plainGroup([3])]), [[0]]);
  });

  it('counts only members that are in the batch, while the baseline of a group keeps those that ship nothing', () => {
    const group = groupOf([{ reward: 1 }, { reward: 0 }, { reward: 8, truncated: true }], { group: 'g0' });
    const spec = specOf({
      others: { score: { algorithm: 'grpo', params: { scale: 'batch' } }, truncated: 'drop' },
      dropZeroAdvantage: false,
    });
    const { rows, statistics } = cut(spec, [group], CONTEXT);
    near(rows.map((r) => r.advantage), [-2, -3].map((d) => d / (Math.SQRT1_2 + 1e-4))); // prettier-ignore
    assert.equal(statistics.populations[0]?.statistics['members'], 2);
  });

  it('gives 0 where all members that are in the batch have one reward, though the baseline of their group is another', () => {
    const group = groupOf([{ reward: 1 }, { reward: 1 }, { reward: 8, truncated: true }], { group: 'g0' });
    for (const algorithm of ['grpo', 'echo']) {
      const spec = specOf({
        others: { score: { algorithm, params: { scale: 'batch' } }, truncated: 'drop' },
        dropZeroAdvantage: false,
      });
      assert.deepEqual(cut(spec, [group], CONTEXT).rows.map((r) => r.advantage), [0, 0]); // prettier-ignore
    }
  });
});

describe('reinforce_pp', () => {
  it('whitens over tokens, so that long rows weigh more', () => {
    const tokens = [1, 0, 0, 0];
    const divisor = Math.sqrt(varOf(tokens) + 1e-8);
    assert.deepEqual(advantagesOf(scoredBy('reinforce_pp'), [plainGroup([1, 0], [1, 3])])[0], f32([0.75, -0.25].map((d) => d / divisor)));
  });

  it('needs no group', () => {
    const values = advantagesOf(scoredBy('reinforce_pp'), [
      plainGroup([1], [2], { group: 'a' }),
      plainGroup([0], [2], { group: 'b', readyAt: 1 }),
    ]).flat();
    near(
      values,
      [0.5, -0.5].map((d) => d / Math.sqrt(1 / 3 + 1e-8)),
    );
  });

  it('discounts by sampled tokens only: context neither counts nor resets', () => {
    const group = groupOf([
      {
        reward: 1,
        nodes: [
          { role: 'user', context: 2 },
          { context: 1, sampled: 2 },
          { role: 'tool', context: 5 },
          { context: 1, sampled: 1 },
        ],
      },
      { reward: 0, nodes: [{ role: 'user', context: 2 }, { sampled: 2 }] },
    ]);
    const returns = [0.25, 0.5, 1, 0, 0];
    const divisor = Math.sqrt(varOf(returns) + 1e-8);
    const expected = returns.map((g) => (g - meanOf(returns)) / divisor);
    const [a] = advantagesOf(scoredBy('reinforce_pp', { gamma: 0.5 }), [group]);
    near(a?.[0], expected.slice(0, 3));
    near(a?.[1], expected.slice(3));
    const { statistics } = cut(scoredBy('reinforce_pp', { gamma: 0.5 }), [group], CONTEXT);
    near([statistics.populations[0]?.statistics['mean']], [0.35]);
  });

  it('discounts to the end of the branch, not to where a row is cut', () => {
    const of = (reward: number, sampled: number) => ({ reward, nodes: [{ role: 'user', context: 2 }, { sampled }] });
    const spec = scoredBy('reinforce_pp', { gamma: 0.5 }, { maxRowTokens: 4, overLength: 'truncate' });
    const returns = [0.125, 0.25, 0, 1];
    near(advantagesOf(spec, [groupOf([of(1, 4), of(0, 1), of(1, 1)])])[0]?.[0], returns.map((g) => (g - meanOf(returns)) / Math.sqrt(varOf(returns) + 1e-8)).slice(0, 2)); // prettier-ignore
  });

  it('takes single tokens without credit out of the loss', () => {
    const of = (reward: number, sampled: number) => ({ reward, nodes: [{ role: 'user', context: 1 }, { sampled }] });
    // returns 0.25, 0.5, 1 and 0.25: the mean is 0.5
    const run = (dropZeroAdvantage: boolean) => cut(scoredBy('reinforce_pp', { gamma: 0.5 }, { dropZeroAdvantage }), [groupOf([of(1, 3), of(0.25, 1)])], CONTEXT);
    const [dropped, kept] = [run(true), run(false)];
    assert.deepEqual([...(dropped.rows[0]?.rlWeights ?? [])], [0, 1, 0, 1]);
    assert.deepEqual([dropped.counts.nRl, dropped.rows[1]?.rlWeights], [3, null]);
    assert.deepEqual([kept.counts.nRl, kept.rows[0]?.rlWeights], [4, null]);
  }); // prettier-ignore

  it('gives 0 to fewer than two tokens and to a batch of equal returns', () => {
    assert.deepEqual(advantagesOf(scoredBy('reinforce_pp'), [plainGroup([3], [1])]), [[0]]);
    assert.deepEqual(advantagesOf(scoredBy('reinforce_pp', { gamma: 0.5 }), [plainGroup([3], [1])]), [[[0]]]);
    assert.deepEqual(advantagesOf(scoredBy('reinforce_pp'), [plainGroup([17.3, 17.3, 17.3], [1, 5, 9])]), [[0, 0, 0]]);
  });

  it('counts a token that several rows share once', () => {
    const forked = { reward: 1, nodes: [{ role: 'user', context: 2 }, { sampled: 3 }, { sampled: 1 }, { parent: 1, sampled: 1 }] };
    const { statistics } = cut(scoredBy('reinforce_pp'), [groupOf([forked, { reward: 0 }])], CONTEXT);
    assert.equal(statistics.populations[0]?.statistics['tokens'], 7);
  });
});

describe('reinforce_pp_baseline', () => {
  it('whitens differences to the mean; an all-equal group is not 0 unless the batch mean is', () => {
    const groups = [plainGroup([1, 0], [1, 3], { group: 'a' }), plainGroup([0.5, 0.5], [2, 2], { group: 'b', readyAt: 1 })];
    const tokens = [0.5, -0.5, -0.5, -0.5, 0, 0, 0, 0];
    const divisor = Math.sqrt(varOf(tokens) + 1e-8);
    const expected = [0.5, -0.5, 0, 0].map((d) => (d - meanOf(tokens)) / divisor);
    near(advantagesOf(scoredBy('reinforce_pp_baseline'), groups).flat(), expected);
    assert.notEqual(expected[2], 0);
  });

  it('gives 0 to a batch of all-equal groups', () => {
    assert.deepEqual(advantagesOf(scoredBy('reinforce_pp_baseline'), [plainGroup([17.3, 17.3], [1, 2])]), [[0, 0]]);
  });
});

describe('gpg', () => {
  it('scales by members over non-zero rewards, not over non-zero advantages', () => {
    const groups = [plainGroup([1, 0, 0, 0], [2, 2, 2, 2], { group: 'a' }), plainGroup([1, 1], [2, 2], { group: 'b', readyAt: 1 })];
    assert.deepEqual(advantagesOf(scoredBy('gpg', { f: 4 }), groups), [[0.375, -0.125, -0.125, -0.125], [0, 0]]); // prettier-ignore
  });
  it('divides by at least 1', () => assert.deepEqual(advantagesOf(scoredBy('gpg'), [plainGroup([0, 0])]), [[0, 0]]));
});

describe('gdpo', () => {
  const scores = (a: number | null, b: number | null, weight = 1) => ({
    scores: [
      { name: 'a', score: a, weight: 1 },
      { name: 'b', score: b, weight },
    ],
  });
  const channels = ['a', 'b'];

  it('normalises each channel in its group, then the weighted sum over the batch', () => {
    const group = groupOf([scores(1, 100, 0.5), scores(0, 300, 0.5), scores(0, 200, 0.5)]);
    const z = (x: readonly number[]) => x.map((v) => (v - meanOf(x)) / (Math.sqrt(varOf(x)) + 1e-4));
    const y = z([1, 0, 0]).map((v, i) => v + 0.5 * (z([100, 300, 200])[i] as number));
    near(
      advantagesOf(scoredBy('gdpo', { channels }), [group])[0],
      y.map((v) => (v - meanOf(y)) / (Math.sqrt(varOf(y)) + 1e-4)),
    );
  });

  it('skips a null channel; a member without any is unscored', () => {
    const group = groupOf([scores(1, null), scores(0, 2), { scores: [{ name: 'c', score: 1, weight: 1 }] }]);
    const { rows, excluded } = cut(scoredBy('gdpo', { channels }), [group], CONTEXT);
    assert.equal(rows.length, 2);
    assert.deepEqual(excluded.map((e) => [e.trace, e.reason]), [['g-2', 'unscored']]); // prettier-ignore
    // channel b has one score in the group: it says nothing
    const d = 0.5 / (Math.SQRT1_2 + 1e-4);
    near(rows.map((r) => r.advantage), [d, -d].map((v) => v / (Math.sqrt(varOf([d, -d])) + 1e-4))); // prettier-ignore
  });

  it('counts an errored trace that is in the baseline as 0 in every channel, whatever it was scored', () => {
    const scores = (a: number) => [{ name: 'a', score: a, weight: 1 }];
    const spec = (failed: 'zero' | 'exclude') =>
      specOf({ others: { score: { algorithm: 'gdpo', params: { channels: ['a'] } }, failed }, dropZeroAdvantage: false });
    const group = (bad: number) => groupOf([{ scores: scores(1) }, { scores: scores(3) }, { scores: scores(bad), ok: false }]);
    const values = (failed: 'zero' | 'exclude', bad: number) => cut(spec(failed), [group(bad)], CONTEXT).rows.map((r) => r.advantage);
    assert.deepEqual(values('zero', 100), values('zero', -7));
    const [low, high] = [1, 3].map((a) => (a - 4 / 3) / (Math.sqrt(varOf([1, 3, 0])) + 1e-4)) as [number, number];
    near(
      values('zero', 100),
      [low, high].map((y) => (y - (low + high) / 2) / (Math.sqrt(varOf([low, high])) + 1e-4)),
    );
    assert.deepEqual(values('exclude', 100), values('exclude', -7));
  });

  it('refuses a channel that a member has twice', () => {
    const group = groupOf([scores(1, 0), { scores: [...scores(0, 1).scores, { name: 'a', score: 1, weight: 1 }] }]);
    assert.deepEqual(cut(scoredBy('gdpo', { channels }), [group], CONTEXT).groups.map((g) => g.reason), ['ambiguous_channel']); // prettier-ignore
  });

  it('whitens over tokens on demand, with the epsilon that goes with it', () => {
    const group = groupOf([{ ...scores(1, 0), nodes: [{ role: 'user', context: 1 }, { sampled: 1 }] }, { ...scores(0, 0), nodes: [{ role: 'user', context: 1 }, { sampled: 3 }] }]);
    const d = 0.5 / (Math.SQRT1_2 + 1e-6);
    const tokens = [d, -d, -d, -d];
    near(advantagesOf(scoredBy('gdpo', { channels, whiten: 'tokens' }), [group])[0], [d, -d].map((v) => (v - meanOf(tokens)) / Math.sqrt(varOf(tokens) + 1e-8)));
  }); // prettier-ignore

  it('gives 0 to equal channels and to a batch of one', () => {
    assert.deepEqual(advantagesOf(scoredBy('gdpo', { channels }), [groupOf([scores(17.3, 1.1), scores(17.3, 1.1), scores(17.3, 1.1)])]), [
      [0, 0, 0],
    ]);
    assert.deepEqual(advantagesOf(scoredBy('gdpo', { channels }), [groupOf([scores(1, 2)])]), [[0]]);
  });
});

describe('populations', () => {
  it('are all envs with the same algorithm and parameters, whatever the order of their keys', () => {
    const groups = [plainGroup([1, 0], [1, 1], { group: 'a', env: 'x' }), plainGroup([4, 0], [1, 1], { group: 'b', env: 'y', readyAt: 1 }), plainGroup([9, 0], [1, 1], { group: 'c', env: 'z', readyAt: 2 })];
    const batch = (params: Record<string, unknown>) => ({ score: { algorithm: 'grpo', params } });
    const spec = specOf({ envs: { x: batch({ scale: 'batch', perAgent: false }), y: batch({ perAgent: false, scale: 'batch' }), z: batch({ scale: 'batch', epsilon: 0.5 }) } });
    const { statistics } = cut(spec, groups, CONTEXT);
    assert.deepEqual(statistics.populations.map((p) => p.statistics['members']), [4, 2]);
  }); // prettier-ignore
});
