import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { findFiles } from './find-files.ts';
import { outerKeys, recognise } from './recognise.ts';
import { EPISODES, ROWS } from './sample-records.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-find-'));
  const put = async (name: string, content: string | Buffer): Promise<void> => {
    await mkdir(join(folder, name, '..'), { recursive: true });
    await writeFile(join(folder, name), content);
  };
  await put('run[1]/traces.jsonl', EPISODES[0]?.[1] ?? '');
  await put('run[1]/packed.jsonl.gz', gzipSync(EPISODES[1]?.[1] ?? ''));
  await put('v0/results.jsonl', ROWS['g3 flat times'] as string);
  await put('v0/metadata.json', '{"env_id":"sum"}');
  await put('v0/other.results.jsonl', ROWS['g0 without id'] as string);
  await put('v0/other.metadata.json', '{"env_id":"other"}');
  await put('hosted/rollouts_raw.json', `{"run_id":"h","samples":[${ROWS['hosted training row']}]}`);
  await put('odd/pointer.jsonl', 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n');
  await put('odd/list.jsonl', '[1,2]\n');
  await put('odd/empty.jsonl', '');
  await put('odd/noise.jsonl', Buffer.from([0x1f, 0x8b, 1, 2, 3]));
  await put('odd/notes.txt', 'not looked at');
});
after(() => rm(folder, { recursive: true, force: true }));

const at = (paths: readonly { path: string }[]): string[] => paths.map(({ path }) => relative(folder, path));

test('a folder is searched through; each file is recognised by its content', async () => {
  const { files, skipped } = await findFiles([folder]);
  assert.deepEqual(
    files.map(({ path, format }) => [relative(folder, path), format]),
    [
      ['hosted/rollouts_raw.json', 'verifiers-v0-page'],
      ['run[1]/packed.jsonl.gz', 'verifiers-v1'],
      ['run[1]/traces.jsonl', 'verifiers-v1'],
      ['v0/other.results.jsonl', 'verifiers-v0'],
      ['v0/results.jsonl', 'verifiers-v0'],
    ],
  );
  assert.deepEqual(at(skipped), ['odd/empty.jsonl', 'odd/list.jsonl', 'odd/noise.jsonl', 'odd/pointer.jsonl']);
  assert.match(skipped.find((s) => s.path.endsWith('pointer.jsonl'))?.reason ?? '', /Git LFS/);
  const metadata = Object.fromEntries(
    files.map((f) => [relative(folder, f.path), f.metadata === null ? null : relative(folder, f.metadata)]),
  );
  assert.equal(metadata['v0/results.jsonl'], 'v0/metadata.json');
  assert.equal(metadata['v0/other.results.jsonl'], 'v0/other.metadata.json');
  assert.equal(metadata['run[1]/traces.jsonl'], null);
});

test('files, folders with special characters and patterns; each file once', async () => {
  const named = await findFiles([join(folder, 'v0/results.jsonl'), join(folder, 'v0/*.jsonl'), join(folder, 'run[1]')]);
  assert.deepEqual(at(named.files), ['run[1]/packed.jsonl.gz', 'run[1]/traces.jsonl', 'v0/other.results.jsonl', 'v0/results.jsonl']);
});

test('a name that matches nothing, and a folder without candidates, are errors', async () => {
  for (const name of ['gone.jsonl', 'gone/*.jsonl', 'odd/nothing*'])
    await assert.rejects(findFiles([join(folder, name)]), { code: 'not_found' });
});

test('a given format is taken at its word', async () => {
  const { files } = await findFiles([join(folder, 'odd/list.jsonl')], 'verifiers-v1');
  assert.deepEqual(
    files.map((f) => f.format),
    ['verifiers-v1'],
  );
});

test('keys of the outermost object, as far as the text goes', () => {
  assert.deepEqual(
    [...(outerKeys(Buffer.from(' {"a":{"x":[{"y":1},2]},"b\\"":"{\\"z\\":1}","c":[1,2],"d":tru')) ?? [])],
    ['a', 'b\\"', 'c', 'd'],
  );
  assert.equal(outerKeys(Buffer.from('[{"a":1}]')), null);
});

test('what is no rollout file says why', () => {
  for (const [text, reason] of [
    ['{"nodes":[],"agent":{}}', /traces without their episodes/],
    ['{"a":1}', /no known format/],
    ['   \n', /empty/],
    ['\0\0\0', /JSON object/],
  ] as const) {
    const found = recognise(Buffer.from(text), 'x.jsonl');
    assert.match('reason' in found ? found.reason : '', reason);
  }
});
