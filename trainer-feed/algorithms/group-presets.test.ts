import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { advantagesOf, CONTEXT, groupOf, plainGroup, scoredBy, specOf } from '../cut/ready-groups.arbitrary.ts';
import { cut } from '../cut/cut.ts';

const f32 = (values: readonly number[]): number[] => values.map((v) => Math.fround(v));
const one = (algorithm: string, params: Record<string, unknown>, rewards: readonly number[], lengths?: readonly number[]) =>
  advantagesOf(scoredBy(algorithm, params), [plainGroup(rewards, lengths)])[0];
const failureOf = (algorithm: string, params: Record<string, unknown>, rewards: readonly number[]) => {
  const { groups, rows, excluded } = cut(scoredBy(algorithm, params), [plainGroup(rewards)], CONTEXT);
  assert.equal(rows.length, 0);
  assert.deepEqual(new Set(excluded.map((e) => e.reason)), new Set([groups[0]?.reason]));
  return { outcome: groups[0]?.outcome, reason: groups[0]?.reason, message: groups[0]?.message };
};

describe('grpo', () => {
  it('subtracts the mean of the group', () => assert.deepEqual(one('grpo', {}, [1, 0, 0, 1]), [0.5, -0.5, -0.5, 0.5]));

  it('divides by deviation + epsilon with scale group', () => {
    const s = Math.sqrt(1 / 3);
    assert.deepEqual(one('grpo', { scale: 'group' }, [1, 0, 0, 1]), f32([0.5, -0.5, -0.5, 0.5].map((d) => d / (s + 1e-6))));
    assert.deepEqual(one('grpo', { scale: 'group', epsilon: 1e-4 }, [1, 0]), f32([0.5, -0.5].map((d) => d / (Math.SQRT1_2 + 1e-4))));
  });

  it('gives exactly 0 to equal rewards that have no exact mean in binary', () => {
    for (const params of [{}, { scale: 'group' }, { scale: 'batch' }]) {
      assert.deepEqual(
        one(
          'grpo',
          params,
          Array.from({ length: 8 }, () => 17.3),
        ),
        Array.from({ length: 8 }, () => 0),
      );
    }
  });

  it('never writes -0', () => {
    const values = one('grpo', {}, [-0, 0, -0])?.concat(one('grpo', { scale: 'group' }, [1, 1]) ?? []);
    for (const value of [...(values ?? []), ...(one('grpo', {}, [1e-60, 0]) ?? [])]) assert.ok(Object.is(value, 0));
  });

  it('treats a group of one by the singleton rule', () => {
    assert.deepEqual(one('grpo', {}, [0.75]), [0]);
    assert.deepEqual(one('grpo', { singleton: 'reward' }, [0.75]), [0.75]);
    assert.deepEqual(one('grpo', { singleton: 'reward', scale: 'group' }, [0.75]), f32([0.75 / (1 + 1e-6)]));
  });

  it('compares all members, or with perAgent those of one agent', () => {
    const group = groupOf([{ reward: 1, agent: 'a' }, { reward: 0, agent: 'b' }, { reward: 0, agent: 'a' }, { reward: 0.5, agent: 'b' }, { reward: 4, agent: 'c' }]);
    assert.deepEqual(advantagesOf(scoredBy('grpo'), [group])[0], f32([-0.1, -1.1, -1.1, -0.6, 2.9]));
    assert.deepEqual(advantagesOf(scoredBy('grpo', { perAgent: true }), [group])[0], [0.5, -0.25, -0.5, 0.25, 0]);
  }); // prettier-ignore

  it('fails the group by name when an advantage is not finite in float32', () => {
    assert.equal(failureOf('grpo', {}, [1e300, 0]).reason, 'non_finite_advantage');
    assert.equal(failureOf('grpo', {}, [1.7e308, 1.7e308, 0]).reason, 'non_finite_advantage');
  });

  it('scores the sum of score x weight over trace and rollout rewards, nulls skipped', () => {
    const group = groupOf([
      { scores: [{ name: 'a', score: 1, weight: 0.5 }, { name: 'b', score: null, weight: 9 }, { name: 'c', score: 2, weight: 0.25 }] },
      { scores: [{ name: 'a', score: 0, weight: 0.5 }] },
    ]); // prettier-ignore
    assert.deepEqual(advantagesOf(scoredBy('grpo'), [group])[0], [0.5, -0.5]);
  });
});

describe('grpo with a length penalty', () => {
  const sized = groupOf([
    { reward: 1, nodes: [{ role: 'user', context: 6 }, { sampled: 4 }] },
    { reward: 1, nodes: [{ role: 'user', context: 6 }, { sampled: 1 }, { role: 'tool', context: 6 }, { sampled: 1 }] },
  ]);

  it('is not 0 for equal rewards', () => {
    // mean 1; out 4 and 2, in 6 and 12, turns 1 and 2
    const shaped = [1 - (0.25 + 0.05 + 0.05), 1 - (0.125 + 0.1 + 0.1)];
    const centre = ((shaped[0] as number) + (shaped[1] as number)) / 2;
    assert.deepEqual(advantagesOf(scoredBy('grpo', { lengthPenalty: {} }), [sized])[0], f32(shaped.map((r) => r - centre)));
  });

  it('takes nothing for what no member has: maxima count as 1', () => {
    const group = groupOf([
      { reward: 1, nodes: [{ sampled: 2 }] },
      { reward: 0, nodes: [{ sampled: 4 }] },
    ]);
    // no token that was not sampled: 0 of 1, not 0 of 0
    const shaped = [1 - 0.5 * (0.5 * (2 / 4) + 0.25), 0 - 0.5 * (0.5 + 0.25)];
    const centre = ((shaped[0] as number) + (shaped[1] as number)) / 2;
    const penalty = { output: 0.5, input: 1, turns: 0.25 };
    assert.deepEqual(advantagesOf(scoredBy('grpo', { lengthPenalty: penalty }), [group])[0], shaped.map((r) => r - centre)); // prettier-ignore
  });

  it('counts sampled nodes as turns, those without tokens too', () => {
    const failed = { tokens: false as const, sampled: 1, parent: 0 };
    const group = groupOf([{ reward: 1 }, { reward: 1, nodes: [{ role: 'user', context: 3 }, { sampled: 2 }, failed] }]);
    const spec = scoredBy('grpo', { lengthPenalty: { output: 0, input: 0, turns: 1 } });
    assert.deepEqual(advantagesOf(spec, [group])[0], [0.25, -0.25]);
  });

  it('refuses a negative mean unless told otherwise', () => {
    assert.equal(failureOf('grpo', { lengthPenalty: {} }, [-1, -2]).reason, 'negative_reward');
    const values = one('grpo', { lengthPenalty: { allowNegative: true, output: 1, input: 0, turns: 0 } }, [-1, -1], [1, 2]);
    assert.deepEqual(values, [-0.25, 0.25]);
  });

  it('reads filters on unshaped rewards', () => {
    const spec = scoredBy('grpo', { lengthPenalty: {} });
    const filtered = { ...spec, envOf: () => ({ ...spec.envOf('env')!, spec: { ...spec.envOf('env')!.spec, groups: { zeroVariance: true, difficulty: null, on: null } } }) };
    assert.deepEqual(cut(filtered, [sized], CONTEXT).groups.map((g) => g.reason), ['zero_variance']);
  }); // prettier-ignore
});

describe('dr_grpo, rloo, opo', () => {
  it('dr_grpo is reward minus mean, reduced over the horizon', () => {
    assert.deepEqual(one('dr_grpo', { horizon: 100 }, [1, 0]), [0.5, -0.5]);
    assert.deepEqual(scoredBy('dr_grpo', { horizon: 100 }).reduction, { name: 'seq_sum_norm', horizon: 100 });
  });

  it('rloo subtracts the mean of the others', () => {
    assert.deepEqual(one('rloo', {}, [1, 0, 0.5]), [0.75, -0.75, 0]);
    assert.deepEqual(one('rloo', {}, [2, 2]), [0, 0]);
    assert.deepEqual(one('rloo', {}, [2]), [0]);
    assert.deepEqual(one('rloo', { singleton: 'reward' }, [2]), [2]);
  });

  it('opo is exactly 0 for equal rewards, also beside an errored trace without tokens, which weighs nothing', () => {
    const failed = specOf({ others: { score: { algorithm: 'opo' }, failed: 'zero' }, dropZeroAdvantage: false });
    const group = groupOf([
      ...[3, 5, 7].map((sampled) => ({ reward: 17.3, nodes: [{ role: 'user', context: 1 }, { sampled }] })),
      { ok: false, nodes: [{ role: 'user', context: 1 }] },
    ]);
    assert.deepEqual(cut(failed, [group], CONTEXT).rows.map((r) => r.advantage), [0, 0, 0]); // prettier-ignore
  });

  it('opo weights the mean by sampled tokens', () => {
    assert.deepEqual(one('opo', {}, [1, 0], [1, 3]), [0.75, -0.25]);
    assert.deepEqual(one('opo', {}, [17.3, 17.3, 17.3], [1, 3, 7]), [0, 0, 0]);
    assert.deepEqual(one('opo', {}, [2], [3]), [0]);
    assert.deepEqual(one('opo', { singleton: 'reward' }, [2], [3]), [2]);
  });
});

describe('max_rl', () => {
  it('divides by the mean', () => assert.deepEqual(one('max_rl', {}, [1, 0, 0, 0]), [3, -1, -1, -1]));
  it('is 0 where the mean is not positive, and for a group of one', () => {
    assert.deepEqual(one('max_rl', {}, [0, 0]), [0, 0]);
    assert.deepEqual(one('max_rl', {}, [5]), [0]);
  });
  it('refuses a negative reward by name, with the trace and a remedy', () => {
    const { outcome, reason, message } = failureOf('max_rl', {}, [3, -0.5]);
    assert.deepEqual([outcome, reason], ['failed', 'negative_reward']);
    assert.match(message ?? '', /trace g-1 has -0\.5: shift the reward or use grpo/);
  });
});

describe('grpo_passk', () => {
  it('credits the lead of the best', () => {
    assert.deepEqual(one('grpo_passk', { scale: 'none' }, [0.25, 1, 0.5]), [0, 0.5, 0]);
    const s = Math.sqrt([0.25, 1, 0.5].reduce((t, r) => t + (r - 1.75 / 3) ** 2, 0) / 2);
    assert.deepEqual(one('grpo_passk', {}, [0.25, 1, 0.5]), f32([0, 0.5 / (s + 1e-6), 0]));
  });
  it('gives nothing on a tie at the top', () => assert.deepEqual(one('grpo_passk', {}, [1, 0, 1]), [0, 0, 0]));
  it('ships nothing of a group of one, by reason', () => {
    const { rows, excluded } = cut(scoredBy('grpo_passk'), [plainGroup([1])], CONTEXT);
    assert.equal(rows.length, 0);
    assert.deepEqual(excluded.map((e) => e.reason), ['singleton']); // prettier-ignore
  });
});

describe('hierarchical_grpo', () => {
  it('compares episode agents within their rollout and others across the group', () => {
    const group = groupOf([
      { rollout: 'r1', agent: 'proposer', reward: 1 },
      { rollout: 'r1', agent: 'solver', reward: 1 },
      { rollout: 'r1', agent: 'solver', reward: 0 },
      { rollout: 'r2', agent: 'proposer', reward: 0 },
      { rollout: 'r2', agent: 'solver', reward: 8 },
    ]);
    assert.deepEqual(advantagesOf(scoredBy('hierarchical_grpo', { episodeAgents: ['solver'] }), [group])[0], [0.5, 0.5, -0.5, -0.5, 0]);
  });
});

describe('hierarchical_grpo with several episode agents', () => {
  it('never compares agents with each other', () => {
    const group = groupOf([{ rollout: 'r', agent: 'a', reward: 1 }, { rollout: 'r', agent: 'b', reward: 5 }, { rollout: 'r', agent: 'a', reward: 0 }]); // prettier-ignore
    assert.deepEqual(advantagesOf(scoredBy('hierarchical_grpo', { episodeAgents: ['a', 'b'] }), [group])[0], [0.5, 0, -0.5]);
  });
});

describe('rae', () => {
  const spec = scoredBy('rae', { decay: 0.5 });
  const first = groupOf(
    [
      { reward: 1, agent: 'a' },
      { reward: 2, agent: 'b' },
      { reward: 1, agent: 'a' },
    ],
    { group: 'g0', readyAt: 0 },
  );
  const second = groupOf([{ reward: 0, agent: 'a' }], { group: 'g1', readyAt: 1 });

  it('scores before it updates, per env and agent, in the order of readiness whatever the order of the call', () => {
    assert.deepEqual(advantagesOf(spec, [first, second]), [[1, 2, 0.5], [-0.75]]);
    assert.deepEqual(advantagesOf(spec, [second, first]), [[-0.75], [1, 2, 0.5]]);
    const other = groupOf([{ reward: 1, agent: 'a' }], { group: 'g2', readyAt: 2, env: 'elsewhere' });
    assert.deepEqual(advantagesOf(spec, [first, other])[1], [1]);
  });

  it('moves for members that ship nothing too, and starts where the state says', () => {
    const dropped = groupOf([
      { reward: 4, agent: 'a', truncated: true },
      { reward: 0, agent: 'a' },
    ]);
    const keeps = scoredBy('rae', { decay: 0.5 });
    const env = keeps.envOf('env')!;
    const dropping = { ...keeps, envOf: () => ({ ...env, spec: { ...env.spec, truncated: 'drop' as const } }) };
    const { rows, raeUpdates } = cut(dropping, [dropped], { ...CONTEXT, raeState: new Map([['["env","a"]', 8]]) });
    assert.deepEqual(rows.map((r) => r.advantage), [-6]); // prettier-ignore
    assert.deepEqual(raeUpdates.map((u) => [u.agent, u.before, u.after]), [['a', 8, 6], ['a', 6, 3]]); // prettier-ignore
  });

  it('reads what a ready decision recorded, and then no state', () => {
    const partly = groupOf([
      { reward: null, agent: 'a' },
      { reward: 1, agent: 'a' },
    ]);
    assert.deepEqual(advantagesOf(spec, [{ ...partly, baselines: [9, 0.25] }]), [[null, 0.75]]);
    const recorded = { ...first, baselines: [0.25, 0, 0.5] };
    assert.deepEqual(advantagesOf(spec, [recorded, second], { raeState: new Map([['["env","a"]', 100]]) }), [[0.75, 2, 0.5], [-100]]);
  });

  it('reads what was recorded for a trace, not for its place among the members', () => {
    const group = groupOf([{ reward: 1, agent: 'a', trainable: false }, { reward: 1, agent: 'a' }, { reward: null, agent: 'a' }, { reward: 4, agent: 'b' }]); // prettier-ignore
    assert.deepEqual(advantagesOf(spec, [{ ...group, baselines: [100, 0.25, 200, 2] }]), [[null, 0.75, null, 2]]);
  });
});

describe('dapo', () => {
  const params = { maxLength: 10, buffer: 4, factor: 1 };
  it('penalises the last stretch before the limit', () => {
    const shaped = [1, 1 - 0.5, 0 - 1.5];
    const centre = (1 + 0.5 - 1.5) / 3;
    const s = Math.sqrt(shaped.reduce((t, r) => t + (r - centre) ** 2, 0) / 2);
    assert.deepEqual(one('dapo', params, [1, 1, 0], [6, 8, 12]), f32(shaped.map((r) => (r - centre) / (s + 1e-6))));
  });

  it('leaves a group out whose unshaped reward is all equal, though lengths differ', () => {
    const { groups, rows } = cut(scoredBy('dapo', params), [plainGroup([1, 1], [6, 9])], CONTEXT);
    assert.deepEqual([rows.length, groups[0]?.outcome, groups[0]?.reason], [0, 'dropped', 'zero_variance']);
  });

  it('filters on a named reward, and fails the group of a trace without it', () => {
    const spec = scoredBy('dapo', { ...params, filterOn: 'acc' });
    const score = (acc: number | null, style: number) => ({ scores: [{ name: 'acc', score: acc, weight: 1 }, { name: 'style', score: style, weight: 1 }] });
    const reasons = (a: number | null, b: number | null) => cut(spec, [groupOf([score(a, 0), score(b, 1)])], CONTEXT).groups.map((g) => [g.outcome, g.reason]);
    assert.deepEqual(reasons(1, 1), [['dropped', 'zero_variance']]);
    assert.deepEqual(reasons(1, 0), [['cut', null]]);
    assert.deepEqual(reasons(1, null), [['failed', 'missing_reward']]);
  }); // prettier-ignore

  it('mutes truncated traces with the overlong filter, which stay in the baseline', () => {
    const group = groupOf([{ reward: 1, truncated: true }, { reward: 0 }]);
    const { rows, excluded, counts } = cut(scoredBy('dapo', { ...params, overlongFilter: true }), [group], CONTEXT);
    assert.deepEqual(rows.map((r) => [r.trace, r.advantage]), [['g-1', Math.fround(-0.5 / (Math.SQRT1_2 + 1e-6))]]); // prettier-ignore
    assert.deepEqual(excluded.map((e) => [e.trace, e.reason]), [['g-0', 'overlong_filtered']]); // prettier-ignore
    assert.equal(counts.nRl, 2);
  });

  it('is reduced by token_mean', () => assert.deepEqual(scoredBy('dapo', params).reduction, { name: 'token_mean' }));
});
