import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { branchesOf, buildForest, NO_NODE, pathTo, rowOf } from './graph.ts';
import type { Skeleton } from './graph.ts';

function skeleton(nodes: readonly (readonly [index: number, parent: number | null, tokens?: number])[]): Skeleton {
  return {
    index: Uint32Array.from(nodes, ([index]) => index),
    parent: Uint32Array.from(nodes, ([, parent]) => parent ?? NO_NODE),
    tokens: Float64Array.from(nodes, ([, , tokens]) => tokens ?? 0),
  };
}

test('a chain is one branch named by its leaf', () => {
  const forest = buildForest(skeleton([[0, null, 3], [1, 0, 4], [2, 1, 5]])); // prettier-ignore
  assert.deepEqual(forest.roots, [0]);
  assert.deepEqual(branchesOf(forest), [{ leaf: 2, nodes: 3, tokens: 12, forkNode: null, firstOwn: 0 }]);
  assert.deepEqual(pathTo(forest, 2), [0, 1, 2]);
});

test('a fork gives two branches that share what is above it', () => {
  const forest = buildForest(skeleton([[0, null, 1], [1, 0, 10], [2, 1, 100], [3, 1, 1000], [4, 3, 10_000]])); // prettier-ignore
  assert.deepEqual(branchesOf(forest), [
    { leaf: 2, nodes: 3, tokens: 111, forkNode: 1, firstOwn: 2 },
    { leaf: 4, nodes: 4, tokens: 11_011, forkNode: 1, firstOwn: 3 },
  ]);
});

test('several roots are several trees, and a node whose parent is missing starts one of its own', () => {
  const forest = buildForest(skeleton([[0, null], [1, null], [2, 1], [5, 4], [6, 5]])); // prettier-ignore
  assert.deepEqual(forest.roots, [0, 1]);
  assert.deepEqual(forest.orphans, [5]);
  assert.deepEqual(forest.leaves, [0, 2, 6]);
  assert.deepEqual(pathTo(forest, 6), [5, 6]);
  assert.equal(pathTo(forest, 4), undefined);
});

test('an empty trace is an empty forest', () => {
  const forest = buildForest(skeleton([]));
  assert.deepEqual([forest.roots, forest.leaves, branchesOf(forest)], [[], [], []]);
});

test('branches equal those found by walking up from every leaf', () => {
  const node = fc.record({ gap: fc.integer({ min: 0, max: 2 }), up: fc.option(fc.nat(8)), tokens: fc.nat(9) });
  fc.assert(
    fc.property(fc.array(node, { maxLength: 60 }), (given) => {
      let next = 0;
      const nodes = given.map(({ gap, up, tokens }) => {
        const index = next + gap;
        next = index + 1;
        return [index, up === null || index - 1 - up < 0 ? null : index - 1 - up, tokens] as const;
      });
      const parents = new Map(nodes.map(([index, parent]) => [index, parent]));
      const forest = buildForest(skeleton(nodes));
      const expected = nodes
        .filter(([index]) => !nodes.some(([, parent]) => parent === index))
        .map(([leaf]) => {
          const path: number[] = [];
          for (let at: number | null | undefined = leaf; at !== null && at !== undefined && parents.has(at); at = parents.get(at))
            path.unshift(at);
          return { leaf, path, tokens: path.reduce((sum, at) => sum + (nodes.find(([index]) => index === at)?.[2] ?? 0), 0) };
        });
      assert.deepEqual(branchesOf(forest).map(({ leaf, nodes: count, tokens }) => ({ leaf, count, tokens })), expected.map(({ leaf, path, tokens }) => ({ leaf, count: path.length, tokens }))); // prettier-ignore
      for (const { leaf, path } of expected) assert.deepEqual(pathTo(forest, leaf), path);
    }),
  );
});

test('rowOf finds sparse and dense indexes', () => {
  const index = Uint32Array.of(0, 1, 5, 9);
  assert.deepEqual([0, 1, 2, 5, 9, 10].map((wanted) => rowOf(index, wanted)), [0, 1, undefined, 2, 3, undefined]); // prettier-ignore
});
