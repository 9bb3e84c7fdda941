/**
 * Our numbers beside those of the implementations they follow (prime-rl, verl 0.9.1, TRL 1.16.0), over generated batches with fixed seeds. The references compute in float32:
 * the tolerance is 1e-6 of the largest reward (of the largest advantage where they are scaled), and sets whose deviation is next to nothing are left out.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { before, describe, it } from 'node:test';
import { findTorchPython } from '../../../e2e/torch-python.ts';
import type { NodeTokens } from '../../groups/ready-group.ts';
import { cut } from '../../cut/cut.ts';
import { advantagesOf, CONTEXT, scoredBy } from '../../cut/ready-groups.arbitrary.ts';
import { caseBatches, graphGroups, isComparable, readyGroups, type CaseBatch } from './reference-cases.arbitrary.ts';

const PRIME = join(import.meta.dirname, '../../../../shared/peers/src/prime-rl');
const found = await findTorchPython({ unpack: ['verl==0.9.1', 'trl==1.16.0'] });
const skip = 'missing' in found ? found.missing : existsSync(PRIME) ? false : 'the source of prime-rl (../shared/peers/src) is not here';

const BATCHES = caseBatches(20_261_130, 120);
const GRAPHS = graphGroups(7, 60);
const ROLES = { tool: 0.1, user: 0.5 };

type Values = readonly (readonly (number | readonly number[])[])[];
type PrimeRow = {
  readonly trace: string;
  readonly leaf: number;
  readonly token_ids: readonly number[];
  readonly mask: readonly boolean[];
  readonly logprobs: readonly number[];
  readonly [stream: string]: unknown;
};
type Answer = {
  readonly errors: Readonly<Record<string, string>>;
  readonly batches: readonly Readonly<Record<'prime' | 'verl' | 'trl', Readonly<Record<string, Values>>>>[];
  readonly rows: readonly Readonly<Record<string, readonly PrimeRow[]>>[];
};
let answer: Answer;

before(async () => {
  if (skip !== false || 'missing' in found) return;
  const script = join(import.meta.dirname, 'reference_values.py');
  const input = JSON.stringify({ batches: BATCHES, graphs: GRAPHS.map(graphCase) });
  const child = spawn(found.python, [script, '--prime', PRIME, '--verl', found.path, '--trl', found.path], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 240_000,
    killSignal: 'SIGKILL',
  });
  child.stdin.end(input);
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  answer = JSON.parse(output) as Answer;
  assert.deepEqual(answer.errors, {});
});

function numbers(column: ArrayLike<number> | null): number[] | null {
  return column === null ? null : Array.from(column);
}

function graphCase(group: (typeof GRAPHS)[number]): unknown {
  const node = (n: NodeTokens) => ({
    parent: n.parent,
    role: n.role,
    sampled: n.sampled,
    ids: numbers(n.ids),
    mask: numbers(n.mask),
    isContent: numbers(n.isContent),
    logprobs: numbers(n.logprobs),
    reference: numbers(n.referenceLogprobs),
  });
  return {
    roles: ROLES,
    members: group.members.map((m) => ({ trace: m.trace, reward: m.scores[0]?.score, nodes: [...m.nodes.values()].map(node) })),
  };
}

type Comparison = {
  readonly by: 'prime' | 'verl' | 'trl';
  readonly name: string;
  readonly algorithm: string;
  readonly params?: (batch: CaseBatch) => Record<string, unknown>;
  /** The measure of the tolerance: the largest reward, or the largest advantage. */
  readonly scaled?: true;
  /** Returns differ by little along the tokens: what float32 leaves out of them counts over their deviation. */
  readonly fine?: true;
  /** One odd set spoils the numbers of the whole batch. */
  readonly wholeBatch?: true;
  /** A batch with a group of one is left out: the reference has another rule for it, or none. */
  readonly noSingletons?: true;
  readonly channels?: true;
  readonly rewards?: 'not negative' | 'not equal unless shaped';
};

const alone = { singleton: 'reward' };
const COMPARISONS: readonly Comparison[] = [
  { by: 'prime', name: 'grpo', algorithm: 'grpo' },
  { by: 'prime', name: 'grpo length penalty', algorithm: 'grpo', rewards: 'not negative', params: (b) => ({ lengthPenalty: { output: b.length_penalty[0], input: b.length_penalty[1], turns: b.length_penalty[2], allowNegative: true } }) },
  { by: 'prime', name: 'max_rl', algorithm: 'max_rl', scaled: true, rewards: 'not negative' },
  { by: 'prime', name: 'rae', algorithm: 'rae', params: (b) => ({ decay: b.decay }) },
  { by: 'prime', name: 'hierarchical_grpo', algorithm: 'hierarchical_grpo', params: () => ({ episodeAgents: ['solver'] }) },
  { by: 'verl', name: 'dr_grpo', algorithm: 'dr_grpo', params: () => ({ horizon: 64, ...alone }) },
  { by: 'verl', name: 'grpo group', algorithm: 'grpo', scaled: true, params: () => ({ scale: 'group', ...alone }) },
  { by: 'verl', name: 'rloo', algorithm: 'rloo', params: () => alone },
  { by: 'verl', name: 'rloo_vectorized', algorithm: 'rloo' },
  { by: 'verl', name: 'opo', algorithm: 'opo', params: () => alone },
  { by: 'verl', name: 'gpg', algorithm: 'gpg', scaled: true, params: () => alone },
  { by: 'verl', name: 'gpg f', algorithm: 'gpg', scaled: true, params: (b) => ({ f: b.f, ...alone }) },
  { by: 'verl', name: 'grpo_passk group', algorithm: 'grpo_passk', scaled: true },
  { by: 'verl', name: 'grpo_passk none', algorithm: 'grpo_passk', params: () => ({ scale: 'none' }) },
  { by: 'verl', name: 'reinforce_pp', algorithm: 'reinforce_pp', scaled: true, wholeBatch: true },
  { by: 'verl', name: 'reinforce_pp gamma', algorithm: 'reinforce_pp', scaled: true, fine: true, wholeBatch: true, params: (b) => ({ gamma: b.gamma }) },
  { by: 'verl', name: 'reinforce_pp_baseline', algorithm: 'reinforce_pp_baseline', scaled: true, wholeBatch: true, params: () => alone },
  { by: 'verl', name: 'gdpo tokens', algorithm: 'gdpo', scaled: true, wholeBatch: true, noSingletons: true, channels: true, params: () => ({ channels: ['a', 'b'], whiten: 'tokens' }) },
  { by: 'verl', name: 'dapo', algorithm: 'dapo', scaled: true, params: (b) => ({ ...b.dapo, ...alone }) },
  { by: 'trl', name: 'grpo none trl', algorithm: 'grpo' },
  { by: 'trl', name: 'grpo group trl', algorithm: 'grpo', scaled: true, params: () => ({ scale: 'group', epsilon: 1e-4 }) },
  { by: 'trl', name: 'grpo batch trl', algorithm: 'grpo', scaled: true, wholeBatch: true, params: () => ({ scale: 'batch' }) },
  { by: 'trl', name: 'rloo trl', algorithm: 'rloo' },
  { by: 'trl', name: 'gdpo samples', algorithm: 'gdpo', scaled: true, wholeBatch: true, channels: true, params: () => ({ channels: ['a', 'b'] }) },
]; // prettier-ignore

const largest = (values: readonly number[]): number => values.reduce((most, v) => Math.max(most, Math.abs(v)), 0);
const rewardsOf = (batch: CaseBatch, g: number): number[] => batch.groups[g]?.members.map((m) => m.reward) ?? [];

/** Which groups of a batch a comparison may look at. */
function comparable(batch: CaseBatch, c: Comparison, values: Values): number[] {
  const all = batch.groups.map((_, g) => g);
  if (c.rewards === 'not negative' && all.some((g) => rewardsOf(batch, g).some((r) => r < 0))) return [];
  if (c.noSingletons === true && batch.groups.some((g) => g.members.length === 1)) return [];
  const column = (g: number, name: string): number[] => batch.groups[g]?.members.flatMap((m) => m.channels[name] ?? []) ?? [];
  const even = (g: number): boolean =>
    c.channels === true
      ? ['a', 'b'].every((name) => column(g, name).length < 2 || isComparable(column(g, name), batch.dyadic))
      : isComparable(rewardsOf(batch, g), batch.dyadic || batch.groups[g]?.members.length === 1);
  if (c.wholeBatch !== true) return all.filter(even);
  // the whitened set itself: its spread shows in the result unless that is noise
  const spread = largest(values.flat(2));
  const whole = isComparable(all.flatMap((g) => rewardsOf(batch, g)), batch.dyadic); // prettier-ignore
  return all.every(even) && whole && spread > 1e-3 && spread < 1e3 ? all : [];
}

describe('advantages equal the reference', { skip }, () => {
  for (const c of COMPARISONS) {
    it(`${c.algorithm}: ${c.by} ${c.name}`, (t) => {
      let compared = 0;
      let worst = 0;
      for (const [b, batch] of BATCHES.entries()) {
        const theirs = answer.batches[b]?.[c.by][c.name];
        if (theirs === undefined) continue;
        const groups = comparable(batch, c, theirs);
        if (groups.length === 0) continue;
        const spec = scoredBy(c.algorithm, c.params?.(batch) ?? {});
        const ours = advantagesOf(spec, readyGroups(batch, c.channels));
        const std = c.fine === true ? cut(spec, readyGroups(batch), CONTEXT).statistics.populations[0]?.statistics['std'] : undefined;
        for (const g of groups) {
          const expected = (theirs[g] ?? []).map((v) => (typeof v === 'number' ? [v] : [...v]));
          const rewards = largest(rewardsOf(batch, g));
          const measure = Math.max(1, c.scaled === true ? largest(expected.flat()) : rewards, std === undefined ? 0 : rewards / std);
          for (const [i, values] of expected.entries()) {
            const mine = ours[g]?.[i];
            if (mine === null || mine === undefined) {
              // groups dapo drops, and a lone member of grpo_passk
              assert.ok(
                largest(values) === 0 || c.algorithm === 'dapo',
                `batch ${b}, group ${g}, member ${i}: no row, theirs ${values[0]}`,
              );
              continue;
            }
            for (const [k, value] of values.entries()) {
              const error = Math.abs((typeof mine === 'number' ? mine : (mine[k] as number)) - value) / measure;
              assert.ok(error <= 1e-6, `batch ${b}, group ${g}, member ${i}: ours ${String(mine)}, theirs ${value}, off by ${error}`);
              worst = Math.max(worst, error);
              compared++;
            }
          }
        }
      }
      t.diagnostic(`${compared} values, worst ${worst.toExponential(1)}`);
      assert.ok(compared >= 100, `only ${compared} values were compared`);
    });
  }
});

describe('rows of forked graphs equal those of prime-rl', { skip }, () => {
  const algorithms = [
    ['grpo', 'grpo', {}],
    ['echo', 'echo', { roles: ROLES }],
    ['opd', 'opd', { teacher: 'big' }],
    ['sft', 'sft', {}],
  ] as const;
  for (const [name, algorithm, params] of algorithms) {
    it(name, (t) => {
      let compared = 0;
      for (const [g, group] of GRAPHS.entries()) {
        const theirs = answer.rows[g]?.[name] ?? [];
        const { rows } = cut(scoredBy(algorithm, params), [group], CONTEXT);
        assert.deepEqual(rows.map((r) => [r.trace, r.leaf]), theirs.map((r) => [r.trace, r.leaf])); // prettier-ignore
        for (const [i, row] of rows.entries()) {
          const their = theirs[i] as PrimeRow;
          const mask = their.mask.map(Number);
          assert.deepEqual([...row.tokenIds], their.token_ids);
          assert.deepEqual([...row.lossMask], mask);
          // theirs keeps numbers at tokens that another row trains; ours holds 0 wherever the mask does
          const masked = (values: unknown): number[] => (values as number[]).map((v, k) => (mask[k] === 1 ? v : 0));
          assert.deepEqual([...row.logprobs], masked(their.logprobs));
          const stream = (name_: string, fill: number): number[] =>
            ((their[name_] ?? their.mask.map(() => fill)) as number[]).map(Math.fround);
          const own = (values: Float32Array | null, fill: number): number[] => (values === null ? mask.map(() => fill) : [...values]);
          assert.deepEqual(own(row.rlWeights, 1).map((v, k) => v * (mask[k] as number)), masked(stream('rl_weights', 1))); // prettier-ignore
          assert.deepEqual(own(row.ceWeights, 0), stream('ce_weights', 0));
          assert.deepEqual(own(row.refKlWeights, 0), stream('ref_kl_weights', 0));
          if (algorithm === 'opd') assert.deepEqual(own(row.refLogprobs, 0), masked(their['ref_logprobs']));
          const advantages = their['advantages'] as number[] | null;
          for (const [k, value] of (advantages ?? []).entries())
            if (mask[k] === 1) assert.ok(Math.abs(value - (row.advantage as number)) <= 2e-6);
          if (advantages === null) assert.equal(row.advantage, null);
          compared++;
        }
      }
      t.diagnostic(`${compared} rows`);
      assert.ok(compared >= 60);
    });
  }
});
