import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(import.meta.dirname, '..');

function bench(args: readonly string[], cwd = ROOT) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'bench/main.ts'), ...args], { cwd, encoding: 'utf8' });
  return { status, stdout, stderr };
}

test('without a name it lists every benchmark by a name of its own, with one line about each', () => {
  const names = globSync('{base,events,store,ingest,query,trainer-feed,harness-sdk,cli,bench}/**/*.bench.ts', { cwd: ROOT }).map((f) =>
    basename(f, '.bench.ts'),
  );
  assert.equal(new Set(names).size, names.length, `two benchmarks have one name: ${names.join(', ')}`);
  const { status, stdout } = bench([]);
  assert.equal(status, 0);
  const listed = stdout.split('\n\n')[0]?.split('\n') ?? [];
  assert.deepEqual(listed.map((line) => line.split(' ')[0] ?? '').toSorted(), names.toSorted());
  for (const line of listed) assert.match(line, /^\S+ +\S.{10,}\.$/);
});

test('an unknown name runs nothing', () => {
  const { status, stdout, stderr } = bench(['ingest', 'nothing']);
  assert.deepEqual([status, stdout, stderr], [2, '', 'there is no benchmark nothing\n']);
});

test('runs those named, in order, with the options; one that fails does not stop the rest', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tapedeck-bench-'));
  try {
    writeFileSync(join(folder, 'good.bench.ts'), 'console.log(process.argv.slice(2).join());\n');
    writeFileSync(join(folder, 'bad.bench.ts'), 'process.exit(3);\n');
    const { status, stdout } = bench(['bad', 'good', '--seconds', '1'], folder);
    assert.deepEqual([status, stdout], [1, '\n== bad.bench.ts\n\n== good.bench.ts\n--seconds,1\n']);
    assert.equal(bench(['good'], folder).status, 0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
