import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, open as openFile, readdir, readlink, rm, stat, utimes, writeFile, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mock, test } from 'node:test';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { blobName } from './blob-name.ts';
import { fails, testBlobStore, type BlobPlace } from './contract.ts';
import { openDirectoryBlobs } from './directory-blobs.ts';

const open = (directory: string) => openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom });
const pathIn = (directory: string, sha256: string): string => join(directory, sha256.slice(0, 2), sha256.slice(2, 4), sha256);

async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((e) => e.isFile()).map((e) => join(e.parentPath, e.name));
}

async function directoryPlace(): Promise<BlobPlace> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-blobs-'));
  return {
    open: () => open(directory),
    names: async () => (await filesBelow(directory)).map((f) => f.slice(f.lastIndexOf('/') + 1)),
    damage: (sha256, content) => writeFile(pathIn(directory, sha256), content),
    writtenAt: async (sha256) => {
      const { ino, mtimeMs } = await stat(pathIn(directory, sha256));
      return { ino, mtimeMs };
    },
    remove: () => rm(directory, { recursive: true }),
  };
}

testBlobStore('directory', directoryPlace, 60);

async function inTemp(work: (directory: string) => Promise<void>): Promise<void> {
  const parent = await mkdtemp(join(tmpdir(), 'tapedeck-blobs-'));
  try {
    await work(join(parent, 'not', 'there', 'yet'));
  } finally {
    await rm(parent, { recursive: true });
  }
}

test('makes its directory and lays files out on two levels', () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    const { sha256 } = await blobs.put(Buffer.from('hello'), 'text/plain');
    assert.deepEqual(await filesBelow(directory), [pathIn(directory, sha256)]);
    await blobs.close();
  }));

test('open removes unfinished files of processes that died long ago, and no others', () =>
  inTemp(async (directory) => {
    const unfinished = join(directory, 'unfinished');
    await mkdir(unfinished, { recursive: true });
    await writeFile(join(unfinished, 'old'), 'x');
    await writeFile(join(unfinished, 'fresh'), 'x');
    const twoHoursAgo = Date.now() / 1000 - 7200;
    await utimes(join(unfinished, 'old'), twoHoursAgo, twoHoursAgo);
    const blobs = await open(directory);
    assert.deepEqual(await readdir(unfinished), ['fresh']);
    await blobs.close();
  }));

test('an abort at any moment leaves no unfinished file and no half blob', () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    for (let i = 0; i < 40; i++) {
      const content = randomBytes(300_000);
      const stop = new AbortController();
      const put = blobs.put(content, 'text/plain', stop.signal).catch(fails('aborted'));
      setTimeout(() => stop.abort(), i / 10);
      await put;
      // Whoever was told of the abort may reuse the buffer at once.
      content.fill(0);
    }
    // Work that was under way when its caller left ends by itself.
    await blobs.close();
    assert.deepEqual(await readdir(join(directory, 'unfinished')), []);
    const again = await open(directory);
    for (const file of await filesBelow(directory)) await again.get(file.slice(file.lastIndexOf('/') + 1));
    await again.close();
  }));

test('a directory that vanished is not made anew', () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    await rm(directory, { recursive: true });
    await assert.rejects(blobs.put(Buffer.from('x'), 'text/plain'), fails('not_writable'));
    await assert.rejects(stat(directory));
    await blobs.close();
  }));

test('a file where a folder belongs is refused by name', () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    const content = Buffer.from('in the way');
    await writeFile(join(directory, blobName(content).slice(0, 2)), 'a file');
    await assert.rejects(blobs.put(content, 'text/plain'), fails('not_writable'));
    await assert.rejects(open(join(directory, blobName(content).slice(0, 2))), fails('not_writable'));
    await blobs.close();
  }));

test('a disk that does not answer is unavailable by name, after the deadline', () =>
  inTemp(async (directory) => {
    const blobs = await openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom, deadlineMs: 1 });
    const content = randomBytes(64 * 1024 * 1024);
    await assert.rejects(blobs.put(content, 'text/plain'), fails('store_unavailable'));
    await blobs.close();
  }));

const rootSkip = process.getuid?.() === 0 ? 'root may write everywhere; see directory-blobs.int.test.ts' : false;
test('an unwritable directory is refused by name', { skip: rootSkip }, () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    await chmod(join(directory, 'unfinished'), 0o555);
    await assert.rejects(blobs.put(Buffer.from('x'), 'text/plain'), fails('not_writable'));
    await chmod(join(directory, 'unfinished'), 0o755);
    await blobs.put(Buffer.from('x'), 'text/plain');
    await blobs.close();
  }),
);

/** Every fsync of `work`: what was synced, and whether the blob had its name then. */
async function syncsDuring(directory: string, sha256: string, work: () => Promise<unknown>): Promise<{ synced: string; named: boolean }[]> {
  const any = await openFile(directory, 'r');
  const prototype = Object.getPrototypeOf(any) as FileHandle;
  await any.close();
  const seen: { synced: string; named: boolean }[] = [];
  const original = Object.getOwnPropertyDescriptor(prototype, 'sync')?.value as (this: FileHandle) => Promise<void>;
  const watched = mock.method(prototype, 'sync', async function (this: FileHandle) {
    const synced = await readlink(`/proc/self/fd/${this.fd}`);
    if (synced.startsWith(directory)) seen.push({ synced, named: existsSync(pathIn(directory, sha256)) });
    await original.call(this);
  });
  try {
    await work();
  } finally {
    watched.mock.restore();
  }
  return seen;
}

const procSkip = existsSync('/proc/self/fd') ? false : 'needs /proc to tell which file is synced';
test('the bytes are on the disk before the name, and the name before the answer', { skip: procSkip }, () =>
  inTemp(async (directory) => {
    const blobs = await open(directory);
    const content = randomBytes(1000);
    const sha256 = blobName(content);
    const folder = join(directory, sha256.slice(0, 2), sha256.slice(2, 4));

    const [bytes, ...names] = await syncsDuring(directory, sha256, () => blobs.put(content, 'text/plain'));
    assert.match(bytes?.synced ?? '', /\/unfinished\/[0-9a-f]{32}$/);
    assert.equal(bytes?.named, false);
    // the folders in any order: they are synced side by side
    assert.deepEqual(
      names.toSorted((a, b) => (a.synced < b.synced ? 1 : -1)),
      [folder, join(directory, sha256.slice(0, 2)), directory].map((synced) => ({ synced, named: true })),
    );

    const again = await syncsDuring(directory, sha256, () => blobs.put(content, 'text/plain'));
    assert.deepEqual(again, [{ synced: folder, named: true }], 'the name may be that of a process that has not synced it yet');
    await blobs.close();
  }),
);
