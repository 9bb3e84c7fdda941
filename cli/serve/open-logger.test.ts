import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

function stderrOf(isTerminal: boolean): string {
  const program = `import { openLogger } from ${JSON.stringify(new URL('open-logger.ts', import.meta.url).href)};
    openLogger('info', ${isTerminal}).warn({ part: 'engine', err: new RangeError('too far') }, 'it waits');`;
  const { stderr, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    env: { NO_COLOR: '1' },
  });
  assert.equal(stdout, '');
  return stderr;
}

test('a machine reads a line of JSON for each entry, a person the same in words', () => {
  const [line = '', rest] = stderrOf(false).split('\n');
  const entry = JSON.parse(line) as { level: number; msg: string; err: { message: string } };
  assert.deepEqual([entry.level, entry.msg, entry.err.message, rest], [40, 'it waits', 'too far', '']);
  const words = stderrOf(true);
  assert.match(words, /^\[\d\d:\d\d:\d\d\] WARN: it waits\n/);
  assert.match(words, /part: "engine"[\s\S]*RangeError: too far/);
});
