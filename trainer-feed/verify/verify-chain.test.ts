import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { cut } from '../cut/cut.ts';
import { CONTEXT, plainGroup, scoredBy, groupOf } from '../cut/ready-groups.arbitrary.ts';
import { verifyChain } from './verify-chain.ts';

/** Three batches as manifests, by way of JSON. */
function chain(): Record<string, unknown>[] {
  let previousId: string | null = null;
  return [1, 2, 3].map((n) => {
    const groups = [plainGroup([1, 0, 1], [2, 3, 4], { group: `g${n}` }), groupOf([{ reward: 1 }, { reward: 0, ok: false }, { reward: 0 }], { group: `h${n}`, readyAt: 1 })];
    const context = { ...CONTEXT, n, previousId, sourcePositions: [[0, n * 10], [1, 5]] as const };
    const result = cut(scoredBy('grpo'), groups, context);
    const { counts, rows, excluded, batchId } = result;
    const manifest = {
      feed: context.feed, n, batchId, previousId, specHash: context.specHash, policyVersion: context.policyVersion, sourcePositions: context.sourcePositions,
      counts: { rows: counts.rows, tokens: counts.tokens, N_rl: counts.nRl, N_ce: counts.nCe, N_ref_kl: counts.nRefKl },
      groups: [...new Set(rows.map((r) => r.group))],
      rows: rows.map(({ rowId, group, seqLen, contentHash, signalHash, members }) => ({ rowId, group, seqLen, contentHash, signalHash, members, extra: 'kept by others' })),
      excluded,
    };
    previousId = batchId;
    return JSON.parse(JSON.stringify(manifest)) as Record<string, unknown>;
  });
} // prettier-ignore
const flaws = (manifests: readonly unknown[], options?: { readonly maxTimesTrained?: number }) =>
  verifyChain(manifests, options).map((f) => [f.n, f.flaw]);
/** The chain with one field of batch `n` changed, found by its path. */
function changed(n: number, path: string, value: unknown): unknown[] {
  const manifests = chain();
  const keys = path.split('.');
  let at: Record<string, unknown> = manifests[n - 1] as Record<string, unknown>;
  for (const key of keys.slice(0, -1)) at = at[key] as Record<string, unknown>;
  at[keys.at(-1) as string] = value;
  return manifests;
}

describe('a chain of manifests', () => {
  it('holds as it was cut, from any batch on', () => {
    assert.deepEqual(flaws(chain()), []);
    assert.deepEqual(flaws(chain().slice(1)), []);
    assert.deepEqual(flaws([]), []);
  });

  it('shows every change of a batch', () => {
    const other = 'ab'.repeat(32);
    for (const [path, value] of [['rows.0.contentHash', other], ['rows.0.signalHash', other], ['rows.0.rowId', 'x'], ['excluded.0.reason', 'stale'], ['excluded', []], ['sourcePositions', [[0, 1]]], ['policyVersion', 9], ['specHash', other]] as const) {
      assert.deepEqual(flaws(changed(2, path, value)), [[2, 'batch_id']], path);
    }
    assert.deepEqual(flaws(changed(2, 'excluded.0.message', 'for people')), []);
    assert.deepEqual(flaws(changed(2, 'counts.N_rl', 99)), [[2, 'batch_id'], [2, 'denominators']]);
    assert.deepEqual(flaws(changed(2, 'rows.0.members.rl', 99)), [[2, 'denominators']]);
    assert.deepEqual(flaws(changed(2, 'rows.0.seqLen', 99)), [[2, 'denominators']]);
    assert.deepEqual(flaws(changed(2, 'groups', ['h2', 'g2'])), [[2, 'batch_id'], [2, 'groups']]);
    assert.deepEqual(flaws(changed(2, 'batchId', other)), [[2, 'batch_id'], [3, 'previous']]);
    assert.deepEqual(flaws(changed(2, 'previousId', other)), [[2, 'batch_id'], [2, 'previous']]);
    assert.deepEqual(flaws(changed(1, 'previousId', other)), [[1, 'batch_id'], [1, 'previous']]);
  });

  it('shows a batch that is missing, of another feed, or unreadable', () => {
    const [first, , third] = chain();
    assert.deepEqual(flaws([first, third]), [[3, 'gap']]);
    assert.deepEqual(flaws(changed(2, 'feed', 'other')).filter(([, flaw]) => flaw === 'gap'), [[2, 'gap'], [3, 'gap']]);
    assert.deepEqual(flaws([{ n: 1 }]), [[null, 'unreadable']]);
    assert.match(verifyChain([{}])[0]?.message ?? '', /manifest 0: feed: /);
  });

  it('shows a row that was trained again', () => {
    const [first, second, third] = chain();
    const again = { ...second, rows: first?.['rows'], groups: first?.['groups'] };
    assert.ok(flaws([first, again, third]).some(([n, flaw]) => n === 2 && flaw === 'trained_again'));
    assert.ok(!flaws([first, again, third], { maxTimesTrained: 2 }).some(([, flaw]) => flaw === 'trained_again'));
    const listed = first?.['rows'] as unknown[];
    const twice = { ...first, rows: [...listed, listed[0]] };
    assert.ok(flaws([twice]).some(([, flaw]) => flaw === 'row_twice'));
  });
}); // prettier-ignore
