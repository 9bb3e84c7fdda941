import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { cutTo, padEnd, padStart, visible, widthOf } from './terminal-text.ts';

test('controls, overrides and half surrogates are shown, never sent', () => {
  assert.equal(
    visible('a\u001b[31mb\n\r\t\0\u009b\u202e\u2066\u200b\ufeff\u2028'),
    'a\\e[31mb\\n\\r\\t\\0\\u009b\\u202e\\u2066\\u200b\\ufeff\\u2028',
  );
  assert.equal(visible('\ud83d!\udc00'), '\\ud83d!\\udc00');
  assert.equal(visible('é 日本 👩‍🚀 \u{1f600}'), 'é 日本 👩‍🚀 \u{1f600}');
});

test('widths are those of a terminal', () => {
  assert.deepEqual(['', 'abc', '日本', 'e\u0301', '😀', '👩‍🚀', '❤️', 'ｆ'].map(widthOf), [0, 3, 4, 1, 2, 2, 2, 2]);
});

test('cutting never exceeds the width and marks what was cut', () => {
  assert.equal(cutTo('abcdef', 4), 'abc…');
  assert.equal(cutTo('日本語', 4), '日…');
  assert.equal(cutTo('abc', 3), 'abc');
  assert.equal(cutTo('abc', 0), '');
  assert.equal(padEnd('日', 4), '日  ');
  assert.equal(padStart('日', 4), '  日');
});

test('whatever the text, what is shown has no control characters and fits', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), fc.nat(30), (text, columns) => {
      const shown = visible(text);
      assert.doesNotMatch(shown, /\p{Cc}|\p{Cs}|[\u202a-\u202e\u2066-\u2069]/u);
      assert.ok(widthOf(cutTo(shown, columns)) <= columns);
    }),
  );
});
