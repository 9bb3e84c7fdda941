/** The collected values of the reference implementations, without Python: ../shared/peers/samples/advantages_{in,out}.json. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { advantagesOf, groupOf, scoredBy } from '../../cut/ready-groups.arbitrary.ts';

const SAMPLES = join(import.meta.dirname, '../../../../shared/peers/samples');
const skip = existsSync(SAMPLES) ? false : 'the collected values (../shared/peers/samples) are not here';
type Input = {
  readonly groups: readonly {
    readonly rewards: readonly number[];
    readonly lengths: readonly number[];
    readonly agents?: readonly string[];
  }[];
};
type Output = Readonly<Record<'prime' | 'verl' | 'trl', Readonly<Record<string, readonly (readonly number[])[]>>>>;
const read = <T>(name: string): T => JSON.parse(readFileSync(join(SAMPLES, name), 'utf8')) as T;

const PAIRS: readonly (readonly ['prime' | 'verl' | 'trl', string, string, Record<string, unknown>?])[] = [
  ['prime', 'grpo', 'grpo'],
  ['prime', 'max_rl', 'max_rl'],
  ['prime', 'rae', 'rae'],
  ['prime', 'grpo_length_penalty', 'grpo', { lengthPenalty: { output: 0.2, input: 0, turns: 0 } }],
  ['verl', 'grpo', 'grpo', { scale: 'group' }],
  ['verl', 'dr_grpo', 'dr_grpo', { horizon: 9 }],
  ['verl', 'grpo_passk', 'grpo_passk'],
  ['verl', 'rloo', 'rloo'],
  ['verl', 'rloo_vectorized', 'rloo'],
  ['verl', 'reinforce_plus_plus', 'reinforce_pp'],
  ['verl', 'reinforce_plus_plus_baseline', 'reinforce_pp_baseline'],
  ['verl', 'opo', 'opo'],
  ['verl', 'gpg', 'gpg'],
  ['trl', 'grpo_scale_none', 'grpo'],
  ['trl', 'grpo_scale_group', 'grpo', { scale: 'group', epsilon: 1e-4 }],
  ['trl', 'grpo_scale_batch', 'grpo', { scale: 'batch' }],
  ['trl', 'rloo', 'rloo'],
  ['trl', 'gdpo_normalize_then_sum', 'gdpo', { channels: ['reward'] }],
];

describe('collected values', { skip }, () => {
  for (const [by, name, algorithm, params] of PAIRS) {
    it(`${by} ${name}`, () => {
      const groups = read<Input>('advantages_in.json').groups.map(({ rewards, lengths, agents }, g) =>
        groupOf(
          rewards.map((reward, i) => ({
            reward,
            agent: agents?.[i] ?? 'agent',
            nodes: [{ role: 'user', context: 1 }, { sampled: lengths[i] ?? 1 }],
          })),
          { group: `g${g}`, readyAt: g },
        ),
      );
      const expected = read<Output>('advantages_out.json')[by][name] ?? [];
      const ours = advantagesOf(scoredBy(algorithm, params), groups);
      const largest = Math.max(1, ...expected.flat().map(Math.abs));
      assert.equal(expected.length, groups.length);
      for (const [g, values] of expected.entries()) {
        for (const [i, value] of values.entries()) {
          assert.ok(
            Math.abs((ours[g]?.[i] as number) - value) <= 1e-6 * largest,
            `group ${g}: ${String(ours[g])} is not ${values.join(',')}`,
          );
        }
      }
    });
  }
});
