import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { projectDatabase } from './project-database.ts';

test('a plain id is its own name', () => {
  assert.equal(projectDatabase('default'), 'p_default');
  assert.equal(projectDatabase('math_7'), 'p_math_7');
});

test('ids that look alike get names of their own', () => {
  const ids = [
    'a-b',
    'a_b',
    'A_b',
    'a.b',
    'a b',
    'ä',
    '',
    '_',
    '..',
    '`; drop',
    'x'.repeat(256),
    `${'x'.repeat(255)}y`,
    projectDatabase('a-b').slice(2),
  ];
  const names = ids.map(projectDatabase);
  assert.equal(new Set(names).size, ids.length);
  for (const name of names) assert.match(name, /^p_[a-z0-9_]{1,94}$/);
});

test('any id gives a safe name, and different ids different names whatever the case', () => {
  const id = fc.oneof(fc.string({ maxLength: 80, unit: 'binary' }), fc.stringMatching(/^[a-zA-Z0-9_]{1,70}$/));
  fc.assert(
    fc.property(id, id, (a, b) => {
      assert.match(projectDatabase(a), /^p_[a-z0-9_]{1,94}$/);
      if (a.toWellFormed() !== b.toWellFormed()) assert.notEqual(projectDatabase(a).toLowerCase(), projectDatabase(b).toLowerCase());
    }),
  );
});
