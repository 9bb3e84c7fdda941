import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PRESET_REGISTRY, PRESETS } from './registry.ts';
import { resolveSpec, type CutSpecInput } from './spec.ts';

const check = (input: unknown, known?: { readonly groupSize?: number }) => resolveSpec(input, PRESET_REGISTRY, known);
const faults = (input: Partial<CutSpecInput>, known?: { readonly groupSize?: number }): string[] => {
  const result = check({ maxRowTokens: 1000, ...input }, known);
  return result.ok ? [] : result.error.map((p) => p.message);
};
const scored = (algorithm: string, params: Record<string, unknown> = {}) => ({ score: { algorithm, params } });

describe('the specification of a cut', () => {
  it('is grpo of the policy for all envs when nothing else is said', () => {
    const result = check({ maxRowTokens: 1000 });
    assert.ok(result.ok);
    const env = result.value.envOf('anything');
    assert.deepEqual([env?.spec.source, env?.algorithm.name, env?.algorithm.params['scale'], env?.spec.failed, env?.spec.branches], ['policy', 'grpo', 'none', 'exclude', 'all']);
    assert.deepEqual([result.value.reduction, result.value.spec.dropZeroAdvantage, result.value.spec.staleness], [{ name: 'token_mean' }, true, { maxOffPolicySteps: 8, strategy: 'drop' }]);
  }); // prettier-ignore

  it('leaves envs out that it does not name, unless it says how to treat others', () => {
    const named = check({ maxRowTokens: 9, envs: { math: {} } });
    assert.ok(named.ok);
    assert.equal(named.value.envOf('code'), null);
    const both = check({ maxRowTokens: 9, envs: { math: {} }, others: scored('rloo') });
    assert.ok(both.ok);
    assert.equal(both.value.envOf('code')?.algorithm.name, 'rloo');
    assert.deepEqual(faults({ others: null }), ['envs: must name an env when others is null']);
  });

  it('lists every fault at once, with its field', () => {
    assert.deepEqual(
      faults({
        envs: {
          a: scored('grpo', { scale: 'grup' }),
          b: scored('nonsense'),
          c: { ...scored('grpo'), rows: { minTokens: 2000, maxTokens: 1500 }, groups: { difficulty: { min: 1, max: 0 } } },
        },
      }).map((text) => text.split(':')[0]),
      ['envs.a.score.params.scale', 'envs.b.score.algorithm', 'envs.c.rows.minTokens', 'envs.c.rows.minTokens', 'envs.c.groups.difficulty'],
    );
    assert.match(faults({ envs: { b: scored('nonsense') } })[0] ?? '', /no algorithm nonsense: this server knows grpo, dr_grpo, /);
    assert.match(faults({ maxRowTokens: 0 })[0] ?? '', /^maxRowTokens: /);
    assert.match(faults({ surprise: 1 } as Partial<CutSpecInput>)[0] ?? '', /surprise/);
  });

  it('refuses unknown and missing parameters', () => {
    const params = (algorithm: string, given: Record<string, unknown> = {}) =>
      faults({ others: scored(algorithm, given) }).map((text) => text.split(':')[0]);
    assert.deepEqual(params('dr_grpo'), ['others.score.params.horizon']);
    assert.deepEqual(params('gdpo'), ['others.score.params.channels']);
    assert.deepEqual(params('gdpo', { channels: [] }), ['others.score.params.channels']);
    assert.deepEqual(params('gdpo', { channels: ['a', 'a'] }), ['others.score.params.channels']);
    assert.deepEqual(params('hierarchical_grpo'), ['others.score.params.episodeAgents']);
    assert.deepEqual(params('dapo', { maxLength: 4, buffer: 4, factor: 1 }), ['others.score.params.buffer']);
    assert.deepEqual(params('rejection_ft'), ['others.score.params.threshold']);
    assert.deepEqual(params('opd'), ['others.score.params.teacher']);
    assert.deepEqual(params('opsd', { template: 'no place for it' }), ['others.score.params.template']);
    assert.deepEqual(params('echo', { roles: {} }), ['others.score.params.roles']);
    assert.deepEqual(params('echo', { filter: 'gone' }), ['others.score.params.filter']);
    assert.deepEqual(params('rae', { decay: 1 }), ['others.score.params.decay']);
    assert.deepEqual(params('reinforce_pp', { gamma: 0 }), ['others.score.params.gamma']);
    assert.deepEqual(params('grpo', { epsilon: 1e-6 }), ['others.score.params.epsilon']);
    assert.deepEqual(params('grpo', { scale: 'batch', lengthPenalty: {} }), ['others.score.params.lengthPenalty']);
    assert.deepEqual(params('max_rl', { epsilon: 1 }), ['others.score.params']);
  });

  it('fills defaults that depend on other parameters', () => {
    const epsilon = (algorithm: string, params: Record<string, unknown>) => {
      const bound = PRESETS.find((a) => a.name === algorithm)?.bind(params);
      return bound?.ok === true ? bound.value.params['epsilon'] : undefined;
    };
    assert.deepEqual(
      [epsilon('grpo', { scale: 'group' }), epsilon('grpo', { scale: 'batch' }), epsilon('grpo', {})],
      [1e-6, 1e-4, undefined],
    );
    assert.deepEqual([epsilon('gdpo', { channels: ['a'] }), epsilon('gdpo', { channels: ['a'], whiten: 'tokens' })], [1e-4, 1e-6]);
  });

  it('refuses what could never give a row', () => {
    assert.match(faults({ others: scored('sft') })[0] ?? '', /others\.source: sft needs a source that is frozen/);
    assert.match(faults({ others: { ...scored('opsd'), source: { frozen: 'big' } } })[0] ?? '', /needs a source that is policy/);
    assert.match(faults({ others: { ...scored('opd', { teacher: 't' }), groups: { zeroVariance: true } } })[0] ?? '', /needs no rewards/);
    assert.match(faults({}, { groupSize: 1 })[0] ?? '', /group of size 1 no credit.*singleton: "reward"/);
    assert.deepEqual(faults({ others: scored('grpo', { singleton: 'reward' }) }, { groupSize: 1 }), []);
    assert.deepEqual(faults({ dropZeroAdvantage: false }, { groupSize: 1 }), []);
    assert.deepEqual(faults({ others: scored('reinforce_pp') }, { groupSize: 1 }), []);
    assert.match(faults({ others: { groups: { zeroVariance: true } } }, { groupSize: 1 })[0] ?? '', /every group of size 1/);
    assert.match(faults({ staleness: { maxOffPolicySteps: null, strategy: 'mask' } })[0] ?? '', /no meaning without maxOffPolicySteps/);
  });

  it('has one reduction for a batch: the spec’s, or what its algorithms are defined with', () => {
    const reduction = (input: Partial<CutSpecInput>) => {
      const result = check({ maxRowTokens: 9, ...input });
      return result.ok ? result.value.reduction : result.error.map((p) => p.message).join();
    };
    assert.deepEqual(reduction({ others: scored('dr_grpo', { horizon: 64 }) }), { name: 'seq_sum_norm', horizon: 64 });
    assert.deepEqual(reduction({ envs: { a: scored('grpo'), b: scored('dr_grpo', { horizon: 64 }) } }), { name: 'seq_sum_norm', horizon: 64 });
    assert.deepEqual(reduction({ reduction: { horizon: 64, name: 'seq_sum_norm' }, others: scored('dr_grpo', { horizon: 64 }) }), { name: 'seq_sum_norm', horizon: 64 });
    assert.match(JSON.stringify(reduction({ reduction: { name: 'seq_mean' }, others: scored('dr_grpo', { horizon: 64 }) })), /dr_grpo is defined with seq_sum_norm over 64, but the batch is reduced with seq_mean/);
    assert.match(JSON.stringify(reduction({ envs: { a: scored('dr_grpo', { horizon: 64 }), b: scored('dr_grpo', { horizon: 32 }) } })), /one batch has one reduction/);
  }); // prettier-ignore
});
