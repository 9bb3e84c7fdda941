/** What holds for every batch, over arbitrary groups with forks. FC_SEED replays a run. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { ReadyGroup } from '../groups/ready-group.ts';
import { cut, type Cut } from './cut.ts';
import { reductionFactors } from './reduction.ts';
import { arbitraryGroups, CONTEXT, scoredBy, specOf } from './ready-groups.arbitrary.ts';

const PARAMETERS = { numRuns: 120, ...(process.env['FC_SEED'] === undefined ? {} : { seed: Number(process.env['FC_SEED']) }) };
const SPECS = {
  grpo: scoredBy('grpo'),
  'grpo batch': scoredBy('grpo', { scale: 'batch' }, { reduction: { name: 'seq_mean' } }),
  'reinforce_pp gamma': scoredBy('reinforce_pp', { gamma: 0.9 }, { reduction: { name: 'prompt_mean' } }),
  rae: scoredBy('rae'),
  'envs mixed': specOf({ envs: { env: { score: { algorithm: 'reinforce_pp_baseline' } }, other: { score: { algorithm: 'echo' } } } }),
  'mask and truncate': scoredBy(
    'opo',
    {},
    { maxRowTokens: 9, overLength: 'truncate', staleness: { maxOffPolicySteps: 1, strategy: 'mask' } },
  ),
};
const each = (check: (cutOf: (groups: readonly ReadyGroup[]) => Cut, groups: ReadyGroup[]) => void): void => {
  for (const spec of Object.values(SPECS)) {
    fc.assert(fc.property(arbitraryGroups, (groups) => check((given) => cut(spec, given, { ...CONTEXT, n: 5 }), groups)), PARAMETERS); // prettier-ignore
  }
};

describe('every batch', () => {
  it('is the same in whatever order its groups are passed', () => {
    each((cutOf, groups) => {
      const forth = cutOf(groups);
      const back = cutOf(groups.toReversed());
      assert.equal(back.batchId, forth.batchId);
      assert.deepEqual(back, forth);
    });
  });

  it('trains each sampled node of a trace at most once, and only sampled tokens', () => {
    each((cutOf, groups) => {
      const trained = new Map<string, number>();
      for (const row of cutOf(groups).rows) {
        const trace = groups.find((g) => g.group === row.group)?.members.find((m) => m.trace === row.trace);
        let at = 0;
        for (const index of row.nodes) {
          const node = trace?.nodes.get(index);
          for (let i = 0; node !== undefined && i < node.ids.length && at < row.seqLen; i++, at++) {
            assert.equal(row.tokenIds[at], node.ids[i]);
            if (row.lossMask[at] === 0) assert.equal(row.logprobs[at], 0);
            else {
              assert.equal(node.mask[i], 1);
              const key = `${row.trace} ${index} ${i}`;
              trained.set(key, (trained.get(key) ?? 0) + 1);
            }
          }
        }
        assert.equal(at, row.seqLen);
      }
      assert.ok([...trained.values()].every((times) => times === 1));
    });
  });

  it('counts the tokens of each component as its weights say, and ships no row without one', () => {
    each((cutOf, groups) => {
      const { rows, counts } = cutOf(groups);
      const totals = { rl: 0, ce: 0, refKl: 0 };
      for (const row of rows) {
        const own = { rl: 0, ce: 0, refKl: 0 };
        for (let i = 0; i < row.seqLen; i++) {
          const advantage = row.advantage instanceof Float32Array ? row.advantage[i] : row.advantage;
          if (row.lossMask[i] === 1 && (row.rlWeights === null || row.rlWeights[i] !== 0)) {
            own.rl++;
            assert.ok(advantage !== null && advantage !== 0 && Number.isFinite(advantage), 'tokens in the loss have credit');
          }
          if ((row.ceWeights?.[i] ?? 0) !== 0) own.ce++;
          if ((row.refKlWeights?.[i] ?? 0) !== 0) own.refKl++;
          assert.ok(!Object.is(advantage, -0));
        }
        assert.deepEqual(row.members, own);
        assert.ok(own.rl + own.ce + own.refKl > 0);
        for (const key of ['rl', 'ce', 'refKl'] as const) totals[key] += own[key];
      }
      assert.deepEqual([counts.nRl, counts.nCe, counts.nRefKl], [totals.rl, totals.ce, totals.refKl].map((n) => Math.max(1, n))); // prettier-ignore
      assert.deepEqual([counts.rows, counts.tokens], [rows.length, rows.reduce((t, r) => t + r.seqLen, 0)]);
    });
  });

  it('ships or explains every trace and every leaf', () => {
    each((cutOf, groups) => {
      const { rows, excluded } = cutOf(groups);
      for (const group of groups) {
        for (const member of group.members) {
          const whole = excluded.some((e) => e.trace === member.trace && e.leaf === null);
          for (const leaf of member.leaves) {
            const ships = rows.filter((r) => r.trace === member.trace && r.leaf === leaf).length;
            const out = excluded.filter((e) => e.trace === member.trace && e.leaf === leaf).length;
            assert.equal(
              ships + out + (whole && ships + out === 0 ? 1 : 0),
              1,
              `${member.trace}/${leaf}: ${ships} rows, ${out} exclusions`,
            );
          }
        }
      }
    });
  });

  it('gives a permuted group its values permuted', () => {
    fc.assert(
      fc.property(arbitraryGroups, fc.infiniteStream(fc.nat()), (groups, keys) => {
        const shuffled = groups.map((g) => ({
          ...g,
          members: g.members.map((m) => ({ m, key: keys.next().value as number })).toSorted((a, b) => a.key - b.key).map(({ m }) => m), // prettier-ignore
        }));
        const values = (given: readonly ReadyGroup[]) =>
          new Map(cut(SPECS['grpo batch'], given, { ...CONTEXT, n: 5 }).rows.map((r) => [r.rowId, r.advantage as number]));
        const [a, b] = [values(groups), values(shuffled)];
        for (const [row, value] of a) assert.ok(Math.abs(value - (b.get(row) ?? Number.NaN)) <= 1e-7 * Math.max(1, Math.abs(value)));
      }),
      PARAMETERS,
    );
  });
});

describe('reductions', () => {
  type Token = { readonly trace: { readonly id: number }; readonly group: object; readonly values: readonly number[] };
  const rows: fc.Arbitrary<Token[]> = fc
    .tuple(fc.integer({ min: 1, max: 4 }), fc.array(fc.tuple(fc.nat(11), fc.array(fc.double({ min: -3, max: 3, noNaN: true }), { maxLength: 6 })), { minLength: 1, maxLength: 24 }))
    .map(([perGroup, list]) => {
      const traces = Array.from({ length: 12 }, (_, id) => ({ id }));
      const groups = Array.from({ length: 12 }, (_, id) => ({ id }));
      return list.map(([t, values]) => ({ trace: traces[t] as { id: number }, group: groups[Math.floor(t / perGroup)] as object, values }));
    }); // prettier-ignore
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
  const byKey = (given: readonly Token[], key: (row: Token) => object): number[][] => {
    const lists = new Map<object, number[]>();
    for (const row of given) if (row.values.length > 0) lists.set(key(row), [...(lists.get(key(row)) ?? []), ...row.values]);
    return [...lists.values()];
  };
  const direct = {
    token_mean: (given: readonly Token[]) => sum(given.flatMap((r) => r.values)) / Math.max(1, given.flatMap((r) => r.values).length),
    seq_mean: (given: readonly Token[]) => {
      const traces = byKey(given, (r) => r.trace);
      return sum(traces.map((values) => sum(values) / values.length)) / Math.max(1, traces.length);
    },
    seq_sum_norm: (given: readonly Token[]) => {
      const traces = byKey(given, (r) => r.trace);
      return sum(traces.map((values) => sum(values) / 512)) / Math.max(1, traces.length);
    },
    prompt_mean: (given: readonly Token[]) => {
      const groups = byKey(given, (r) => r.group);
      return sum(groups.map((values) => sum(values) / values.length)) / Math.max(1, groups.length);
    },
  };

  for (const name of ['token_mean', 'seq_mean', 'seq_sum_norm', 'prompt_mean'] as const) {
    it(`${name} folded into weights equals its definition, however the rows are packed over ranks`, () => {
      fc.assert(
        fc.property(rows, fc.integer({ min: 1, max: 5 }), (given, world) => {
          const reduction = name === 'seq_sum_norm' ? { name, horizon: 512 } : { name };
          const factors = reductionFactors(reduction, given.map((r) => ({ trace: r.trace, group: r.group, tokens: r.values.length }))); // prettier-ignore
          const n = Math.max(1, sum(given.map((r) => r.values.length)));
          const ranks = Array.from({ length: world }, (_, rank) => sum(given.flatMap((r, i) => (i % world === rank ? r.values.map((v) => v * (factors[i] as number)) : []))) / n); // prettier-ignore
          assert.ok(Math.abs(sum(ranks) - direct[name](given)) <= 1e-12 * Math.max(1, sum(given.flatMap((r) => r.values.map(Math.abs)))));
        }),
        { ...PARAMETERS, numRuns: 300 },
      );
    });
  }

  it('reach the rows as float32 weights, with N after tokens without credit have left', () => {
    const groups = arbitraryGroups;
    fc.assert(
      fc.property(groups, (given) => {
        const { rows: shipped, counts } = cut(scoredBy('grpo', {}, { reduction: { name: 'seq_mean' } }), given, { ...CONTEXT, n: 5 });
        const traces = new Map<string, number>();
        for (const row of shipped) traces.set(row.trace, (traces.get(row.trace) ?? 0) + row.members.rl);
        for (const row of shipped) {
          const weight = Math.fround(counts.nRl / (traces.size * (traces.get(row.trace) as number)));
          for (let i = 0; i < row.seqLen; i++) assert.equal(row.rlWeights === null ? (row.lossMask[i] === 1 ? 1 : 0) : row.rlWeights[i], row.lossMask[i] === 1 ? weight : 0);
        }
      }),
      PARAMETERS,
    );
  }); // prettier-ignore
});
