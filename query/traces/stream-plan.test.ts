import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { buildForest, NO_NODE } from './graph.ts';
import { planStreams, tokensOf } from './stream-plan.ts';

function chain(tokens: readonly number[]) {
  return {
    index: Uint32Array.from(tokens, (_, at) => at),
    parent: Uint32Array.from(tokens, (_, at) => (at === 0 ? NO_NODE : at - 1)),
    tokens: Float64Array.from(tokens),
  };
}

test('a dense path is one range, a scattered one goes by names', () => {
  const skeleton = chain(Array.from({ length: 5_000 }, () => 10));
  assert.deepEqual(planStreams(skeleton, [0, 1, 3, 4]), [{ kind: 'range', nodes: [0, 1, 3, 4] }]);
  assert.deepEqual(planStreams(skeleton, [0, 4_999]), [{ kind: 'names', nodes: [0, 4_999] }]);
  assert.equal(tokensOf(buildForest(skeleton), [0, 4_999]), 20);
  assert.deepEqual(planStreams(skeleton, []), []);
});

test('every node is fetched once, in order, and no range is larger than its bound unless one node is', () => {
  const tokens = fc.array(fc.nat(2_400_000), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(tokens, fc.array(fc.nat(39), { maxLength: 40 }), (counts, picks) => {
      const path = [...new Set(picks.filter((at) => at < counts.length))].toSorted((a, b) => a - b);
      const fetches = planStreams(chain(counts), path);
      assert.deepEqual(fetches.flatMap((fetch) => fetch.nodes), path); // prettier-ignore
      for (const { kind, nodes } of fetches) {
        const range = counts.slice(nodes[0], (nodes.at(-1) as number) + 1);
        const sum = range.reduce((total, count) => total + count, 0);
        if (kind === 'range' && nodes.length > 1) assert.ok(sum <= 4 * 1024 * 1024, String(sum));
      }
    }),
  );
});
