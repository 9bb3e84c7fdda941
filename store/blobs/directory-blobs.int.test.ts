/** The directory driver in processes of its own: killed at any instant, on a full disk, on a disk it may not write. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import { fails } from './contract.ts';
import { openDirectoryBlobs } from './directory-blobs.ts';

const CHILD = fileURLToPath(new URL('directory-blobs.child.ts', import.meta.url));
const NODE = [process.execPath, '--disable-warning=ExperimentalWarning', CHILD];
const NAME = /^[0-9a-f]{64}$/;

async function inTemp(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'tapedeck-blobs-'));
  try {
    await work(directory);
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Runs the child to its end, through `sh` when `before` is given, and returns the lines it printed. */
function linesOf(args: readonly string[], before?: string): string[] {
  const command =
    before === undefined ? NODE : ['unshare', '--mount', '--map-root-user', 'sh', '-c', `${before} && exec "$@"`, 'sh', ...NODE];
  const done = spawnSync(command[0] as string, [...command.slice(1), ...args], { encoding: 'utf8', timeout: 60_000 });
  assert.equal(done.status, 0, done.stderr);
  return done.stdout.split('\n').filter(Boolean);
}

test('a process killed at any instant loses nothing it acknowledged and leaves no half blob', () =>
  inTemp(async (directory) => {
    const acknowledged = new Set<string>();
    for (let kills = 0; kills < 12; kills++) {
      const child = spawn(NODE[0] as string, [...NODE.slice(1), directory, '0', '400000'], { stdio: ['ignore', 'pipe', 'inherit'] });
      const output = text(child.stdout);
      await once(child.stdout, 'readable');
      await systemClock.sleep(randomInt(1, 120));
      child.kill('SIGKILL');
      const lines = (await output).split('\n').slice(0, -1);
      for (const line of lines) assert.match(line, NAME);
      for (const line of lines) acknowledged.add(line);
    }
    assert.ok(acknowledged.size >= 12, `only ${acknowledged.size} blobs were acknowledged`);

    const blobs = await openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom });
    for (const sha256 of acknowledged) await blobs.get(sha256);
    const files = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((e) => e.isFile());
    const visible = files.filter((e) => !e.parentPath.endsWith('unfinished'));
    assert.ok(visible.length >= acknowledged.size);
    for (const { name } of visible) await blobs.get(name);
    await blobs.close();
  }));

const canMount =
  spawnSync('unshare', ['--mount', '--map-root-user', 'sh', '-c', 'mount -t tmpfs none /mnt'], { stdio: 'ignore' }).status === 0;
const mountSkip = canMount ? false : 'this machine lets us mount no small disk (unshare --mount, mount -t tmpfs)';

test('a full disk is named, and what was acknowledged before stays whole', { skip: mountSkip }, () =>
  inTemp(async (directory) => {
    // The mount lives and dies with the child, so the child copies what it kept out to where we can look.
    const kept = join(directory, 'kept');
    const disk = join(directory, 'disk');
    await mkdir(disk);
    const script = `mount -t tmpfs -o size=2m none ${disk} && "$@" && cp -r ${disk} ${kept} && rm -rf ${disk}/unfinished ${disk}/[0-4]? && "$@"; true`;
    const all = ['--mount', '--map-root-user', 'sh', '-c', script, 'sh', ...NODE, disk, '0', '150000'];
    const done = spawnSync('unshare', all, { encoding: 'utf8', timeout: 60_000 });
    const lines = done.stdout.split('\n').filter(Boolean);
    const firstEnd = lines.findIndex((line) => !NAME.test(line));
    assert.ok(firstEnd > 0, done.stdout + done.stderr);
    const errors = lines.filter((line) => !NAME.test(line));
    assert.deepEqual(new Set(errors), new Set(['disk_full']));
    assert.equal(errors.length, 16, 'each of the eight writers of both runs ends with a full disk');
    const afterSpace = lines.slice(lines.indexOf('disk_full')).filter((line) => NAME.test(line));
    assert.ok(afterSpace.length > 0, 'stores again once there is room');

    const blobs = await openDirectoryBlobs({ directory: kept, clock: systemClock, random: systemRandom });
    for (const line of lines.slice(0, firstEnd)) await blobs.get(line);
    assert.deepEqual(await readdir(join(kept, 'unfinished')), []);
    await blobs.close();
  }),
);

test('a read-only disk is refused by name, when opened and when it becomes one later', { skip: mountSkip }, () =>
  inTemp(async (directory) => {
    const readOnly = `mount -t tmpfs -o size=1m,ro none ${directory}`;
    assert.deepEqual(linesOf([directory, '1', '10'], readOnly), ['not_writable']);
    const later = `mount -t tmpfs -o size=1m none ${directory} && mkdir ${directory}/unfinished && mount -o remount,ro ${directory}`;
    assert.deepEqual(new Set(linesOf([directory, '8', '10'], later)), new Set(['not_writable']));
  }),
);

const otherUser = process.getuid?.() === 0 ? false : 'needs root, to become a user who may not write';
test('a directory of somebody else is refused by name, and still read', { skip: otherUser }, () =>
  inTemp(async (directory) => {
    await chmod(directory, 0o755);
    const blobs = await openDirectoryBlobs({ directory, clock: systemClock, random: systemRandom });
    const content = randomBytes(100);
    const { sha256 } = await blobs.put(content, 'text/plain');
    assert.deepEqual(new Set(linesOf([directory, '8', '10', '65534'])), new Set(['not_writable']));
    assert.ok(Buffer.from(await blobs.get(sha256)).equals(content));

    await rm(join(directory, 'unfinished'), { recursive: true });
    await writeFile(join(directory, 'unfinished'), 'a file where the folder was');
    await assert.rejects(blobs.put(randomBytes(10), 'text/plain'), fails('not_writable'));
    await blobs.close();
  }),
);
