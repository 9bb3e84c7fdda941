/** When what a group would bring is worked out again: only when its age may have changed it, in either direction. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PRESET_REGISTRY } from '../algorithms/registry.ts';
import type { GroupRecord } from './decision-state.ts';
import type { GroupYield } from './group-yield.ts';
import { yieldOf } from './next-cut.ts';
import { resolveFeedSpec, type FeedSpecInput } from './spec.ts';

type Staleness = NonNullable<FeedSpecInput['staleness']>;

/** Whether the yield noted for batch `at` is worked out anew for batch `n`. */
function isAnew(at: number, n: number, minVersion: number | null, staleness: Staleness = { maxOffPolicySteps: 1 }): boolean {
  const resolved = resolveFeedSpec({ maxRowTokens: 16, batch: { by: 'groups', size: 1 }, staleness }, PRESET_REGISTRY);
  assert.ok(resolved.ok);
  const noted: GroupYield = { n: at, rows: 1, rollouts: 1, tokens: 5, minVersion, reason: null };
  const ready = { offset: 7, members: [], limits: [], baselines: null };
  const group = { ready, name: { run: 'r', group: 'g', solo: false } } as unknown as GroupRecord;
  const context = { fold: {} as never, resolved: resolved.value, load: {} as never, yields: new Map([[7, noted]]) };
  const found = yieldOf(context, group, n);
  assert.equal(context.yields.get(7), found);
  return found !== noted;
}

test('a yield is worked out again when its group may have become too old since, or, after a rewind, young again', () => {
  // batch n trains versions of at least n - 2
  assert.equal(isAnew(2, 3, 1), false, 'young enough for both');
  assert.equal(isAnew(2, 3, 0), true, 'too old now');
  assert.equal(isAnew(5, 2, 2), true, 'too old then, young again after a rewind');
  assert.equal(isAnew(5, 2, 3), false);
  assert.equal(isAnew(3, 3, 0), false, 'the same batch');
  assert.equal(isAnew(2, 9, null), false, 'without a version it never ages');
  assert.equal(isAnew(2, 9, 0, { maxOffPolicySteps: 1, strategy: 'wait' }), false, 'wait drops nothing');
  assert.equal(isAnew(2, 9, 0, { maxOffPolicySteps: null }), false);
});
