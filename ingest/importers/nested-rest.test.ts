import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sameJson, type JsonRecord } from './json-value.ts';
import { nestedRest, withNestedRest } from './nested-rest.ts';

const value = fc.letrec<{ value: unknown; record: unknown }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, fc.constantFrom(null, 0, -0, 1, NaN, '', 'a', true), fc.array(tie('value'), { maxLength: 3 }), fc.array(tie('record'), { minLength: 1, maxLength: 2 }), tie('record')),
  record: fc.dictionary(fc.constantFrom('a', 'b', 'c', '__proto__'), tie('value'), { maxKeys: 4, noNullPrototype: true }),
})); // prettier-ignore

test('what was kept leads back to the document, and nothing is kept of equal ones', () => {
  fc.assert(
    fc.property(value.record, value.record, (a, b) => {
      const [original, rebuilt] = [a as JsonRecord, b as JsonRecord];
      const rest = nestedRest(original, rebuilt);
      assert.equal(rest === null, sameJson(original, rebuilt));
      assert.ok(sameJson(withNestedRest(rebuilt, rest ?? undefined), original));
    }),
    { numRuns: 2000 },
  );
});

test('a field that differs deep inside is kept alone', () => {
  const original = { id: 1, calls: [{ name: 'f', arguments: '{"a": 1}' }, { name: 'g' }], usage: { prompt: 1 } };
  const rebuilt = { id: 1, calls: [{ name: 'f', arguments: '{"a":1}' }, { name: 'g' }], usage: { prompt: 1, cached: 0 }, more: null };
  assert.deepEqual(nestedRest(original, rebuilt), { absent: ['more'], inside: { calls: [{ kept: { arguments: '{"a": 1}' } }, null], usage: { absent: ['cached'] } } }); // prettier-ignore
});

test('what is no rest changes nothing', () => {
  for (const rest of [null, 'x', 7, [], { kept: [], absent: {}, inside: 3 }, { inside: { a: [7] } }])
    assert.deepEqual(withNestedRest({ a: [{ b: 1 }] }, rest), { a: [{ b: 1 }] });
});
