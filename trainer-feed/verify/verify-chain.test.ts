import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { chain, changed } from './chain-under-test.ts';
import { verifyChain } from './verify-chain.ts';

const flaws = (manifests: readonly unknown[], options?: { readonly maxTimesTrained?: number }) =>
  verifyChain(manifests, options).map((f) => [f.n, f.flaw]);
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
