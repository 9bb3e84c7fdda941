import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../base/clock.ts';
import { TapedeckError } from '../../base/errors.ts';
import { plain } from '../render/paint.ts';
import type { ResultSet } from '../render/result-table.ts';
import { completions } from './complete.ts';
import { readHistory, writeHistory } from './history.ts';
import { runShell, type ShellOptions } from './shell.ts';
import { statementEnd } from './statement-end.ts';

const names = {
  views: new Map([
    ['nodes', ['run', 'role', 'text']],
    ['rollouts', ['run', 'reward', 'rollout']],
  ]),
};
const ONE: ResultSet = { meta: [{ name: 'n', type: 'UInt8' }], data: [{ n: 1 }] };

/** Types lines, and gives what was printed and what was asked. */
async function typed(lines: readonly string[], ask: ShellOptions['ask'] = async () => ONE): Promise<{ out: string; asked: string[] }> {
  const input = new PassThrough();
  const output = new PassThrough();
  const asked: string[] = [];
  const printed = text(output);
  const done = runShell({
    input,
    output,
    isTerminal: false,
    columns: () => 80,
    paint: plain,
    clock: systemClock,
    names,
    meaningOf: (view, column) => `${column} of ${view}`,
    history: [],
    ask: async (query, signal) => {
      asked.push(query);
      return ask(query, signal);
    },
  });
  input.end(`${lines.join('\n')}\n`);
  await done;
  output.end();
  return { out: await printed, asked };
}

test('a statement goes on until its semicolon, wherever others stand', async () => {
  const { asked, out } = await typed([
    'SELECT 1',
    "  AS n, ';' AS s -- not; here",
    '/* nor; here */ FROM nodes;',
    'SELECT 2; SELECT',
    '3',
    ';',
    ';;',
    'SELECT 4',
  ]);
  assert.deepEqual(
    asked,
    ["SELECT 1\n  AS n, ';' AS s -- not; here\n/* nor; here */ FROM nodes", 'SELECT 2', 'SELECT\n3'],
    'the last was never ended',
  );
  assert.equal(out.match(/1 row/g)?.length, 3);
  assert.match(out, /\.\.\.> /);
});

test('semicolons in strings, names and comments end nothing', () => {
  assert.equal(statementEnd("SELECT 'a;''b;\\';' ; x"), 20);
  assert.equal(statementEnd('SELECT `a;b`, "c;d";'), 20);
  assert.equal(statementEnd("SELECT 'open; "), null);
  assert.equal(statementEnd('SELECT 1 /* open; '), null);
  fc.assert(
    fc.property(fc.string(), (inside) => {
      const quoted = `'${inside.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
      assert.equal(statementEnd(`SELECT ${quoted};`), `SELECT ${quoted};`.length);
    }),
  );
});

test('\\d, \\d view, \\timing, \\q and what is none of them', async () => {
  const described: ResultSet = { meta: [{ name: 'name', type: 'String' }, { name: 'type', type: 'String' }], data: [{ name: 'run', type: 'String' }] }; // prettier-ignore
  const { asked, out } = await typed(
    ['\\d', '\\d nodes;', '\\d nodes; DROP', '\\timing', 'SELECT 1;', '\\nonsense', '\\q', 'SELECT 2;'],
    async (query) => (query.startsWith('DESCRIBE') ? described : ONE),
  );
  assert.deepEqual(asked, ['SHOW TABLES', 'DESCRIBE nodes', 'SELECT 1']);
  assert.match(out, /run of nodes/);
  assert.match(out, /times are shown/);
  assert.match(out, /\d+ ms/);
  assert.ok(out.split('A statement ends with').length >= 4, 'help at the start and for what is not known');
});

test('on a terminal Ctrl-C drops what was typed, of this line and of those before, and stops a query that runs', async () => {
  const input = new PassThrough();
  const output = new PassThrough().resume();
  const asked: string[] = [];
  let stopped = 0;
  const done = runShell({
    input, output, isTerminal: true, columns: () => 80, paint: plain, clock: systemClock, names, meaningOf: () => '', history: [],
    ask: async (query, signal) => {
      asked.push(query);
      if (query !== 'SELECT slow') return ONE;
      setTimeout(() => input.write('\u0003'), 10);
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
      stopped++;
      throw new TapedeckError('aborted', 'gone');
    },
  }); // prettier-ignore
  for (const keys of ['SELECT half', '\u0003', 'SELECT 1\r', 'of two', '\u0003', 'SELECT 2;\r', 'SELECT slow;\r', 'SEL', '\t', ' 3;\r']) {
    input.write(keys);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  input.end('\u0004');
  await done;
  assert.deepEqual([asked, stopped], [['SELECT 2', 'SELECT slow', 'SELECT 3'], 1]);
});

test('an error is shown with its place, and the shell goes on', async () => {
  const position = { line: 1, column: 8, excerpt: 'SELECT x', caret: '       ^' };
  const { out, asked } = await typed(['SELECT x;', 'SELECT 1;'], async (query) => {
    if (query === 'SELECT x') throw new TapedeckError('sql_error', 'Unknown identifier x', { details: { position } });
    return ONE;
  });
  assert.match(out, /Unknown identifier x/);
  assert.match(out, /column 8/);
  assert.equal(asked.length, 2);
});

test('tab completes views behind FROM, columns of the views in use, words, and commands', () => {
  const of = (line: string, before = ''): string[] => completions(line, before, names)[0];
  assert.deepEqual(of('SELECT * FROM '), ['nodes', 'rollouts']);
  assert.deepEqual(of('SELECT * FROM ro'), ['rollouts']);
  assert.deepEqual(of('\\d n'), ['nodes']);
  assert.deepEqual(of('\\t'), ['\\timing']);
  assert.deepEqual(of('SELECT re'), ['reward']);
  assert.deepEqual(of('WHERE ro', 'SELECT 1 FROM nodes'), ['role', 'rollouts', 'round(']);
  assert.deepEqual(of('sel'), ['SELECT']);
});

test('the history is kept for its owner only, newest last in the file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tapedeck-history-'));
  const file = join(folder, 'history');
  assert.deepEqual(await readHistory(file), []);
  await writeHistory(file, ['SELECT 2;', 'SELECT 1;']);
  assert.deepEqual(await readHistory(file), ['SELECT 2;', 'SELECT 1;']);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  await writeHistory(join(folder, 'no', 'such'), ['x']);
  await rm(folder, { recursive: true });
});
