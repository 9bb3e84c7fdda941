import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TapedeckError } from '../../base/errors.ts';
import { readLines, type Line } from './line-reader.ts';

async function linesOf(chunks: readonly (string | Buffer)[], max?: number): Promise<Line[]> {
  async function* source(): AsyncGenerator<Buffer> {
    for (const chunk of chunks) yield Buffer.from(chunk as string);
  }
  const lines: Line[] = [];
  for await (const some of readLines(source(), max)) lines.push(...some);
  return lines;
}
const shown = (lines: readonly Line[]): [number, string | null, boolean][] =>
  lines.map((l) => [l.number, l.bytes?.toString() ?? null, l.terminated]);

test('lines over chunk borders, blank lines, CRLF, a last line without a line feed', async () => {
  assert.deepEqual(shown(await linesOf(['{"a"', ':1}\r\n\n  \t\r\n{"b"', ':2}'])), [
    [1, '{"a":1}', true],
    [4, '{"b":2}', false],
  ]);
});

test('a byte order mark is dropped at the start only', async () => {
  assert.deepEqual(shown(await linesOf(['\ufeff{}\n\ufeff{}\n'])), [
    [1, '{}', true],
    [2, '\ufeff{}', true],
  ]);
});

test('only a line feed ends a line: U+2028, U+0085, NUL and lone CR are text', async () => {
  assert.deepEqual(shown(await linesOf(['a\u2028b\u0085c\0d\re\n'])), [[1, 'a\u2028b\u0085c\0d\re', true]]);
});

test('a line over the limit is named with its length and the rest goes on', async () => {
  const lines = await linesOf([`${'x'.repeat(6)}`, `${'x'.repeat(6)}\nok\n${'y'.repeat(11)}`], 10);
  assert.deepEqual(shown(lines), [
    [1, null, true],
    [2, 'ok', true],
    [3, null, false],
  ]);
  assert.deepEqual(
    lines.map((l) => l.length),
    [12, 2, 11],
  );
});

test('when the source fails, the beginning of a line is handed out before the error', async () => {
  async function* source(): AsyncGenerator<Buffer> {
    yield Buffer.from('one\ntwo');
    throw new TapedeckError('truncated_body', 'cut');
  }
  const lines: Line[] = [];
  await assert.rejects(
    async () => {
      for await (const some of readLines(source())) lines.push(...some);
    },
    { code: 'truncated_body' },
  );
  assert.deepEqual(shown(lines), [
    [1, 'one', true],
    [2, 'two', false],
  ]);
});

test('any cutting into chunks gives the same lines', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: fc.constantFrom('a', '\n', '\r', 'é', ' ') }), fc.array(fc.nat(8)), async (text, cuts) => {
      const bytes = Buffer.from(text);
      const chunks: Buffer[] = [];
      let at = 0;
      for (const cut of cuts) {
        chunks.push(bytes.subarray(at, at + cut));
        at += cut;
      }
      chunks.push(bytes.subarray(at));
      assert.deepEqual(shown(await linesOf(chunks)), shown(await linesOf([bytes])));
    }),
  );
});
