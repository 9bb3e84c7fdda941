/** Our lexer against the engine's: a second statement that it sees must never be hidden from us, and what it takes for one statement we must take too. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { connectTo, startTestEngine } from './engine-for-tests.ts';
import { readStatement } from './statement.ts';

const FRAGMENTS = [
  "'",
  "''",
  "\\'",
  '\\',
  '"',
  '`',
  ';',
  ';',
  '--',
  '\n',
  '/*',
  '*/',
  '#',
  '# ',
  '#!',
  '//',
  '$a$',
  '$$',
  '$',
  '‘',
  '’',
  '“',
  '”',
  ' ',
  '\u00a0',
  '\u2003',
  'x',
  '1',
  'é',
  'SELECT 2',
  ',',
  '+',
  '(',
  ')',
];

test('quotes, comments and statement ends are seen as the engine sees them', async (t) => {
  const engine = await startTestEngine();
  t.after(() => engine.close());
  const store = connectTo(engine);
  t.after(() => store.close());
  const verdict = async (text: string): Promise<'one' | 'several' | 'broken'> => {
    try {
      await store.rows('SELECT formatQuerySingleLine({text:String}) AS f', { params: { text } });
      return 'one';
    } catch (error) {
      return error instanceof Error && error.message.includes('Multi-statements') ? 'several' : 'broken';
    }
  };
  let severals = 0;
  let ones = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.constantFrom(...FRAGMENTS), { minLength: 1, maxLength: 8 }),
      fc.constantFrom('', '; SELECT 2', '\n; SELECT 2', "'; SELECT 2", '*/; SELECT 2'),
      async (parts, tail) => {
        const text = `SELECT 1 ${parts.join('')}${tail}`;
        const seen = await verdict(text);
        const ours = readStatement(Buffer.from(text), true);
        if (seen === 'several') {
          severals++;
          assert.equal(ours?.ok, false, text);
        } else if (seen === 'one') {
          ones++;
          assert.equal(ours?.ok, true, text);
        }
      },
    ),
    { numRuns: 300 },
  );
  assert.ok(severals > 5 && ones > 5, `${severals} with several statements, ${ones} with one`);
});
