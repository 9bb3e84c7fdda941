import assert from 'node:assert/strict';
import { test } from 'node:test';
import { colours, plain } from './paint.ts';
import { renderTable } from './result-table.ts';
import { renderError } from './server-error.ts';

const result = {
  meta: [
    { name: 'role', type: 'String' },
    { name: 'n', type: 'UInt64' },
    { name: 'mean', type: 'Nullable(Float64)' },
    { name: 'ids', type: 'Array(UInt32)' },
  ],
  data: [
    { role: 'assistant', n: '18446744073709551615', mean: -0.5, ids: [1, 2] },
    { role: 'to\u001b[2Jol\n', n: '3', mean: null, ids: [] },
  ],
};

test('numbers stand to the right, NULL is shown, control characters are harmless', () => {
  assert.deepEqual(renderTable(result, 100, plain), [
    'role                            n  mean  ids',
    '───────────  ────────────────────  ────  ─────',
    'assistant    18446744073709551615  -0.5  [1,2]',
    'to\\e[2Jol\\n                     3  NULL  []',
    '2 rows',
  ]);
});

test('a row fits the terminal: the widest columns give way', () => {
  const wide = { meta: [{ name: 'a', type: 'String' }, { name: 'b', type: 'String' }], data: [{ a: 'x'.repeat(200), b: 'short' }] }; // prettier-ignore
  assert.deepEqual(renderTable(wide, 20, plain), ['a              b', '─────────────  ─────', 'xxxxxxxxxxxx…  short', '1 row']);
});

test('an empty result is its columns', () => {
  assert.deepEqual(renderTable({ meta: [{ name: 'x', type: 'UInt8' }], data: [] }, 80, plain), ['x', '─', '0 rows']);
});

test('colours wrap whole cells and reset', () => {
  const lines = renderTable({ meta: [{ name: 'x', type: 'String' }], data: [{ x: null }] }, 80, colours);
  assert.deepEqual(lines.slice(0, 3), ['\u001b[1mx\u001b[22m', '\u001b[2m────\u001b[22m', '\u001b[2mNULL\u001b[22m']);
});

test('an error shows the line of the query with a caret', () => {
  const position = { offset: 7, line: 2, column: 3, excerpt: '  foo', caret: '  ^' };
  assert.deepEqual(
    renderError(
      { code: 'sql_error', message: 'Unknown `foo`', details: { clickhouseCode: 47, clickhouseType: 'UNKNOWN_IDENTIFIER', position } },
      plain,
    ),
    ['error Unknown `foo` (sql_error, ClickHouse 47 UNKNOWN_IDENTIFIER)', 'line 2, column 3:   foo', '                    ^'],
  );
  assert.deepEqual(renderError({ code: 'not_found', message: 'no\u001b[0m' }, plain), ['error no\\e[0m (not_found)']);
});

test('an error whose position is none of a query is its message', () => {
  for (const position of [null, 7, '1024.998~12', { partition: 0, offset: 7 }, [], { line: '2', column: 3, excerpt: 'x', caret: '^' }]) {
    assert.deepEqual(renderError({ code: 'conflict', message: 'taken', details: { position } }, plain), ['error taken (conflict)']);
  }
});
