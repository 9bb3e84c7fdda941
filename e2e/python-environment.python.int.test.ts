/** Environments of Python for the suites: asked for by several processes at once, and after one that was killed, they are made once and whole. */
import assert from 'node:assert/strict';
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { packageFolder } from './python-environment.ts';
import { temporaryFolder } from './server.ts';

const run = promisify(execFile);
const python = process.env['TAPEDECK_PYTHON'] ?? 'python3';
const skip = await run(python, ['-c', 'import venv, ensurepip, fcntl']).then(() => false, () => 'no Python with venv'); // prettier-ignore
const folder = temporaryFolder('python-environment');
const wheels = join(folder.path, 'wheels');
/** Nothing but the wheel of this test can be installed: no registry is asked. */
const env = {
  ...process.env,
  PIP_NO_INDEX: '1',
  PIP_FIND_LINKS: wheels,
  PIP_CONFIG_FILE: '/dev/null',
  UV_NO_INDEX: '1',
  UV_FIND_LINKS: wheels,
};

const WHEEL = `
import sys, zipfile
info = "tapedeck_tiny-1.0.dist-info/"
with zipfile.ZipFile(sys.argv[1] + "/tapedeck_tiny-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr("tapedeck_tiny.py", "import sys\\ndef main(): print(sys.executable)\\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tapedeck-tiny\\nVersion: 1.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "entry_points.txt", "[console_scripts]\\ntiny = tapedeck_tiny:main\\n")
    wheel.writestr(info + "RECORD", "")
`;

before(async () => {
  if (skip !== false) return;
  await mkdir(wheels, { recursive: true });
  await run(python, ['-c', WHEEL, wheels]);
});
after(() => folder.remove());

/** A process of its own that asks for the environment, in a group of its own; prints the path of its interpreter. */
function asker(cache: string): ChildProcess {
  const script = `
    import { virtualEnvironment } from ${JSON.stringify(join(import.meta.dirname, 'python-environment.ts'))};
    process.stdout.write(await virtualEnvironment(${JSON.stringify({ python, cache, packages: ['tapedeck-tiny==1.0'], imports: ['tapedeck_tiny'] })}));`;
  return spawn(process.execPath, ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script], { env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] }); // prettier-ignore
}

async function answerOf(child: ChildProcess): Promise<string> {
  const parts: string[] = [];
  child.stdout?.on('data', (chunk: Buffer) => parts.push(chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => process.stderr.write(chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(code, 0);
  return parts.join('');
}

/** Its commands find it under the path that they were made with. */
async function works(interpreter: string): Promise<void> {
  const { stdout } = await run(join(interpreter, '../tiny'));
  assert.equal(stdout.trim(), interpreter);
}

const madeIn = (cache: string): string[] => globSync(`${cache}/*/made.json`);
const insideOf = (cache: string): string[] => globSync(`${cache}/*/pyvenv.cfg`);
const begins = async (cache: string): Promise<void> => {
  for (let tries = 0; insideOf(cache).length === 0; tries++) {
    assert.ok(tries < 12_000, 'nobody makes it');
    await sleep(5);
  }
};

test('several processes at once get one environment, made by one of them', { skip }, async () => {
  const cache = join(folder.path, 'at-once');
  const paths = await Promise.all(Array.from({ length: 4 }, async () => answerOf(asker(cache))));
  const [path] = paths as [string];
  assert.deepEqual(new Set(paths), new Set([path]));
  await works(path);
  const made = madeIn(cache);
  assert.equal(made.length, 1);
  const before = statSync(made[0] as string).mtimeMs;
  assert.equal(await answerOf(asker(cache)), path);
  assert.equal(statSync(made[0] as string).mtimeMs, before, 'it is not made again');
});

test('one that was killed half-way is begun again, by two at once', { skip }, async () => {
  const cache = join(folder.path, 'killed');
  const killed = asker(cache);
  await begins(cache);
  process.kill(-(killed.pid as number), 'SIGKILL');
  await once(killed, 'close');
  const [begun] = insideOf(cache) as [string];
  writeFileSync(begun.replace('pyvenv.cfg', 'left-behind'), 'x');
  assert.deepEqual(madeIn(cache), []);
  const paths = await Promise.all([answerOf(asker(cache)), answerOf(asker(cache))]);
  assert.equal(paths[0], paths[1]);
  await works(paths[0]);
  assert.ok(!existsSync(join(paths[0], '../../left-behind')));
});

test('a suite that is killed alone leaves its maker running: another one waits for it', { skip }, async () => {
  const cache = join(folder.path, 'orphan');
  const killed = asker(cache);
  await begins(cache);
  killed.kill('SIGKILL');
  await once(killed, 'exit');
  const [begun] = insideOf(cache) as [string];
  const { ino } = statSync(begun);
  const path = await answerOf(asker(cache));
  await works(path);
  assert.equal(statSync(begun).ino, ino, 'the same one, not a second');
});

test('a folder for PYTHONPATH is made once, too; what cannot be installed is said by name', { skip }, async () => {
  const saved = { ...process.env };
  Object.assign(process.env, env);
  try {
    const ask = { python, maker: python, cache: join(folder.path, 'target'), packages: ['tapedeck-tiny==1.0'], unpack: [] };
    const paths = await Promise.all([packageFolder(ask), packageFolder(ask), packageFolder(ask)]);
    assert.equal(new Set(paths).size, 1);
    assert.match(readFileSync(join(paths[0] as string, 'tapedeck_tiny.py'), 'utf8'), /def main/);
    await assert.rejects(packageFolder({ ...ask, packages: ['tapedeck-tiny==2.0'] }), /tapedeck-tiny==2\.0/);
  } finally {
    process.env = saved;
  }
});
