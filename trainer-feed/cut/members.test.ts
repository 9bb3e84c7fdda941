import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cut } from './cut.ts';
import { CONTEXT, groupOf, plainGroup, scoreOf, scoredBy, specOf, type TraceSketch } from './ready-groups.arbitrary.ts';
import { recordBaselines } from './running-baseline.ts';

const GRPO = scoredBy('grpo');
const excludedOf = (traces: readonly TraceSketch[], spec = GRPO) =>
  cut(spec, [groupOf(traces)], CONTEXT).excluded.map((e) => [e.trace, e.leaf, e.reason]);
const creditOf = (traces: readonly TraceSketch[], spec = GRPO) =>
  cut(spec, [groupOf(traces)], CONTEXT).rows.map((r) => [r.trace, r.advantage]);
const PAIR: TraceSketch[] = [{ reward: 1 }, { reward: 0 }];

describe('members of a group', () => {
  it('are no errored, untrainable, unscored, non-finite or token-less traces: each has its reason, none is in the baseline', () => {
    const traces: TraceSketch[] = [
      ...PAIR,
      { reward: 99, ok: false, error: 'crash' },
      { reward: 99, trainable: false },
      { reward: null },
      { scores: [scoreOf(null), scoreOf(null, 'b')] },
      { reward: Number.NaN },
      { scores: [scoreOf(1), scoreOf(Number.POSITIVE_INFINITY, 'b', 0)] },
      { scores: [scoreOf(1, 'a', Number.NaN)] },
      { scores: [scoreOf(1.7e308), scoreOf(1.7e308, 'b')] },
      { reward: 99, nodes: [{ role: 'user', context: 2 }] },
      {
        reward: 99,
        nodes: [
          { role: 'user', tokens: false },
          { tokens: false, sampled: 1 },
        ],
      },
    ];
    assert.deepEqual(creditOf(traces), [['g-0', 0.5], ['g-1', -0.5]]); // prettier-ignore
    assert.deepEqual(
      excludedOf(traces),
      ['error', 'untrainable', 'unscored', 'unscored', 'non_finite_reward', 'non_finite_reward', 'non_finite_reward', 'non_finite_reward', 'no_tokens', 'no_tokens'].map((reason, i) => [`g-${i + 2}`, null, reason]),
    ); // prettier-ignore
  });

  it('read a null score as absent and 0 as 0', () => {
    assert.deepEqual(creditOf([{ scores: [scoreOf(null), scoreOf(2, 'b')] }, { scores: [scoreOf(0)] }]), [['g-0', 1], ['g-1', -1]]); // prettier-ignore
  });

  it('take errored traces in with reward 0 by policy, which still ship no row', () => {
    const spec = specOf({ others: { failed: 'zero' } });
    const traces: TraceSketch[] = [
      { reward: 1 },
      { reward: 1 },
      { ok: false, reward: 7 },
      { ok: false, nodes: [{ role: 'user', tokens: false }] },
    ];
    assert.deepEqual(creditOf(traces, spec), [['g-0', 0.5], ['g-1', 0.5]]); // prettier-ignore
    assert.deepEqual(excludedOf(traces, spec), [['g-2', null, 'failed_in_baseline'], ['g-3', null, 'failed_in_baseline']]); // prettier-ignore
    assert.deepEqual(excludedOf([...traces, { ok: false, trainable: false }], spec).at(-3), ['g-4', null, 'untrainable']);
  });

  it('keep truncated traces, drop their rows, or leave them out, by policy', () => {
    const traces: TraceSketch[] = [...PAIR, { reward: 2, truncated: true }];
    const withPolicy = (truncated: 'train' | 'drop' | 'exclude') => creditOf(traces, specOf({ others: { truncated } }));
    assert.deepEqual(withPolicy('train'), [['g-1', -1], ['g-2', 1]]); // prettier-ignore
    assert.deepEqual(withPolicy('drop'), [['g-1', -1]]);
    assert.deepEqual(withPolicy('exclude'), [['g-0', 0.5], ['g-1', -0.5]]); // prettier-ignore
    assert.equal(cut(GRPO, [groupOf(traces)], CONTEXT).rows.at(-1)?.status, 'truncated');
  });

  it('may be none, or of an env the spec has no part for', () => {
    const none = cut(GRPO, [groupOf([{ reward: null }])], CONTEXT);
    assert.deepEqual(none.groups.map((g) => [g.outcome, g.reason]), [['dropped', 'no_members']]); // prettier-ignore
    assert.deepEqual(none.excluded.map((e) => [e.group, e.trace, e.reason]), [['g', 'g-0', 'unscored'], ['g', null, 'no_members']]); // prettier-ignore
    const spec = specOf({ envs: { math: {} } });
    assert.deepEqual(cut(spec, [plainGroup([1, 0]), plainGroup([1, 0], [2, 2], { group: 'm', env: 'math' })], CONTEXT).groups.map((g) => g.reason), ['env_not_in_spec', null]); // prettier-ignore
  });

  it('of a trace that mixes tokenizers ship nothing and stay in the baseline', () => {
    assert.deepEqual(creditOf([...PAIR, { reward: 2, mixedTokenizers: true }]), [['g-1', -1]]);
    assert.deepEqual(excludedOf([...PAIR, { reward: 2, mixedTokenizers: true }]), [['g-2', null, 'mixed_tokenizers'], ['g-0', 1, 'zero_advantage']]); // prettier-ignore
  });
});

describe('group filters', () => {
  const filtered = (groups: object, rewards: readonly number[]) => cut(specOf({ others: { groups } }), [plainGroup(rewards)], CONTEXT).groups.map((g) => g.reason)[0];
  it('drop groups without variance', () => {
    assert.equal(filtered({ zeroVariance: true }, [17.3, 17.3, 17.3]), 'zero_variance');
    assert.equal(filtered({ zeroVariance: true }, [17.3, 17.3, 17.4]), null);
    assert.equal(filtered({}, [1, 1]), null);
  });
  it('drop groups whose mean is outside the band, ends included', () => {
    const band = { difficulty: { min: 0.25, max: 0.75 } };
    assert.deepEqual([[0, 0.5], [0, 0.25], [1, 0.5], [1, 1]].map((rewards) => filtered(band, rewards)), [null, 'difficulty', null, 'difficulty']);
    assert.equal(filtered({ difficulty: { min: 0.25 } }, [9, 9]), null);
  });
  it('read a named reward', () => {
    const group = groupOf([{ scores: [scoreOf(1, 'acc'), scoreOf(0, 'style')] }, { scores: [scoreOf(1, 'acc'), scoreOf(1, 'style')] }]);
    const reason = (on: string) => cut(specOf({ others: { groups: { zeroVariance: true, on } } }), [group], CONTEXT).groups[0]?.reason;
    assert.deepEqual(['acc', 'style', 'gone'].map(reason), ['zero_variance', null, 'missing_reward']);
  });
  it('read an errored trace of the baseline as 0, whatever it was scored and also where it was not', () => {
    const spec = specOf({ others: { failed: 'zero', groups: { zeroVariance: true, on: 'x' } } });
    const x = (score: number | null) => ({ scores: score === null ? [scoreOf(1)] : [scoreOf(1), scoreOf(score, 'x')] });
    const outcome = (...scores: (number | null)[]) => cut(spec, [groupOf([x(0), x(0), ...scores.map((s) => ({ ...x(s), ok: false }))])], CONTEXT).groups[0]?.reason;
    assert.deepEqual([outcome(5), outcome(null), outcome()], ['zero_variance', 'zero_variance', 'zero_variance']);
    const differs = cut(spec, [groupOf([x(1), x(1), { ...x(1), ok: false }])], CONTEXT);
    assert.deepEqual(differs.groups.map((g) => g.reason), [null]);
  });

  it('list every trace of a dropped group with its length', () => {
    const { excluded } = cut(specOf({ others: { groups: { zeroVariance: true } } }), [plainGroup([1, 1], [2, 7])], CONTEXT);
    assert.deepEqual(excluded.map((e) => [e.trace, e.reason, e.length]), [['g-0', 'zero_variance', 5], ['g-1', 'zero_variance', 10]]);
  });
}); // prettier-ignore

describe('an algorithm that goes wrong', () => {
  it('fails its group by name, the others go on', async () => {
    const { bindable } = await import('../algorithms/bind.ts');
    const { extendRegistry, PRESET_REGISTRY } = await import('../algorithms/registry.ts');
    const { z } = await import('zod');
    const { RL_STREAMS } = await import('../algorithms/algorithm.ts');
    const made = (name: string, score: () => never) => bindable({ name, version: 1, scope: 'group', params: z.strictObject({}), streams: () => RL_STREAMS, score });
    const of = (values: unknown) => (() => ({ values })) as unknown as () => never;
    const registry = extendRegistry(PRESET_REGISTRY, {
      algorithms: [
        made('throws', () => { throw new Error('division by cucumber'); }),
        made('short', of(new Float64Array(1))),
        made('list', of([1, 2])),
        made('none', of(null)),
        made('nan', of(Float64Array.of(1, Number.NaN))),
      ],
    });
    assert.ok(registry.ok);
    const names = ['throws', 'short', 'list', 'none', 'nan', 'grpo'];
    const spec = specOf({ envs: Object.fromEntries(names.map((algorithm) => [algorithm, { score: { algorithm } }])) }, registry.value);
    const { groups, rows } = cut(spec, names.map((env, i) => plainGroup([1, 0], [1, 1], { group: env, env, readyAt: i })), CONTEXT);
    assert.deepEqual(groups.map((g) => g.reason), ['algorithm_threw', 'algorithm_output', 'algorithm_output', 'missing_advantage', 'non_finite_advantage', null]);
    assert.match(groups[0]?.message ?? '', /throws threw: Error: division by cucumber/);
    assert.deepEqual(rows.map((r) => r.group), ['grpo', 'grpo']);
  }); // prettier-ignore

  it('fails its group where its running baseline goes wrong, which then has not moved for the next group', async () => {
    const { bindable } = await import('../algorithms/bind.ts');
    const { extendRegistry, PRESET_REGISTRY } = await import('../algorithms/registry.ts');
    const { z } = await import('zod');
    const { RL_STREAMS } = await import('../algorithms/algorithm.ts');
    const next = (before: number, reward: number): number => {
      if (reward === 7) throw new Error('no sevens');
      return reward === 9 ? Number.NaN : before + reward;
    };
    const running = bindable({
      name: 'running', version: 1, scope: 'group', params: z.strictObject({}), streams: () => RL_STREAMS,
      baseline: () => ({ initial: 0, next }),
      score: ({ rewards, baselines }) => ({ values: rewards.map((r, i) => r - (baselines?.[i] ?? 0)) }),
    }); // prettier-ignore
    const registry = extendRegistry(PRESET_REGISTRY, { algorithms: [running] });
    assert.ok(registry.ok);
    const spec = specOf({ others: { score: { algorithm: 'running' } }, dropZeroAdvantage: false }, registry.value);
    const lists = [[1, 7], [2, 9], [5]];
    const groups = lists.map((rewards, i) => plainGroup(rewards, [1, 1], { group: `g${i}`, readyAt: i }));
    const { groups: outcomes, rows, excluded } = cut(spec, groups, CONTEXT);
    assert.deepEqual(outcomes.map((g) => [g.outcome, g.reason]), [['failed', 'algorithm_threw'], ['failed', 'algorithm_output'], ['cut', null]]); // prettier-ignore
    assert.deepEqual(rows.map((r) => r.advantage), [5]); // prettier-ignore
    assert.deepEqual(excluded.map((e) => e.trace), ['g0-0', 'g0-1', 'g1-0', 'g1-1']); // prettier-ignore
    const state = new Map<string, number>();
    assert.deepEqual(groups.map((group) => recordBaselines(spec, group, state)?.baselines), [[0, 0], [0, 0], [0]]); // prettier-ignore
    assert.deepEqual([...state], [['["env","agent"]', 5]]);
  });
});
