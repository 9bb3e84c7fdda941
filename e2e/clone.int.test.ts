/**
 * What a newcomer does: clone, `npm start`, the commands that it prints, and a kill. With CI=true nothing else is there, so `npm start` installs the locked
 * dependencies from the registry; without, those of this folder are lent to the clone.
 */
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { caughtUp } from './proof.ts';
import { descendants, temporaryFolder } from './server.ts';

const ROOT = join(import.meta.dirname, '..');
const SAMPLE = 'examples/first-steps.traces.jsonl';
const installs = process.env['CI'] === 'true';
const folder = temporaryFolder('clone');
const clone = join(folder.path, 'tapedeck');

/** The environment of a shell that knows nothing of this repository: the caller's own Node and npm, no settings. */
const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TAPEDECK_|npm_|NODE_)/i.test(name) || name === 'NODE_EXTRA_CA_CERTS')),
  PATH: (process.env['PATH'] ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules')).join(delimiter),
}; // prettier-ignore
const ownNode = execFileSync('node', ['--version'], { env, encoding: 'utf8' }).trim();

/** Links in a folder of their own: nothing that is done to the clone's dependencies can harm ours. */
function lendDependencies(): void {
  const from = join(ROOT, 'node_modules');
  const to = join(clone, 'node_modules');
  mkdirSync(to);
  for (const name of readdirSync(from)) if (name !== '.package-lock.json') symlinkSync(join(from, name), join(to, name));
  writeFileSync(join(to, '.package-lock.json'), readFileSync(join(from, '.package-lock.json')));
}

type Started = { readonly npm: ChildProcess; readonly greeting: string; readonly url: string; said(): string };
let running: Started;

/** `npm start`, until the greeting is whole. */
async function npmStart(): Promise<Started> {
  const npm = spawn('npm', ['start'], { cwd: clone, env: { ...env, TAPEDECK_PORT: '0', TAPEDECK_DATA: join(folder.path, 'data') } });
  let out = '';
  let err = '';
  npm.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  npm.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const end = Date.now() + (installs ? 300_000 : 60_000);
  while (!/npx tapedeck audit( --url \S+)?\n/.test(out)) {
    assert.ok(npm.exitCode === null && Date.now() < end, `npm start did not greet:\n${out}\n${err}`);
    await sleep(50);
  }
  const url = /listening on (http:\/\/\S+)/.exec(out)?.[1] ?? assert.fail(out);
  return { npm, greeting: out, url, said: () => out + err };
}

async function killEverything({ npm }: Started): Promise<void> {
  const gone = once(npm, 'close');
  for (const pid of [...descendants(npm.pid as number), npm.pid as number]) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // gone already
    }
  }
  await gone;
}

async function npx(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('npx', ['tapedeck', ...args, '--url', running.url], { cwd: clone, env });
  return stdout;
}

before(async () => {
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', ROOT, clone], { env });
  if (!installs) lendDependencies();
  running = await npmStart();
});
after(async () => {
  if (running !== undefined) await killEverything(running);
  folder.remove();
});

test('npm start installs what is missing', { skip: installs ? false : 'downloads all dependencies: set CI=true' }, () => {
  assert.match(running.said(), /installing dependencies \(once\)/);
});

test(`npm start says where it listens and what to try next, all of which exists; Node of the caller: ${ownNode}`, async () => {
  assert.match(
    running.greeting,
    /tapedeck is listening on http:\/\/127\.0\.0\.1:\d+ \(ingest, projector, query, gateway, feed; data in .*data\)/,
  );
  const commands = [...running.greeting.matchAll(/^ {2}npx tapedeck (\w+)/gm)].map(([, command]) => command);
  assert.deepEqual(commands, ['import', 'sql', 'audit']);
  assert.equal((await fetch(`${running.url}/healthz`)).status, 200);
});

const isOld = Number(ownNode.slice(1).split('.')[0]) < 22;
test('an older Node of the caller does not matter', { skip: isOld ? false : `the caller's own Node is ${ownNode}` }, () => {
  const programs = descendants(running.npm.pid as number).map((pid) => readlinkSync(`/proc/${pid}/exe`));
  const nodes = new Set(programs.filter((program) => basename(program) === 'node'));
  const versions = [...nodes].map((node) => execFileSync(node, ['--version'], { encoding: 'utf8' }).trim());
  const pinned = JSON.parse(readFileSync(join(ROOT, 'node_modules/node/package.json'), 'utf8')) as { version: string };
  assert.ok(versions.includes(`v${pinned.version}`), `the server runs on ${versions.join(', ')}`);
  const help = execFileSync('node', ['cli/tapedeck.mjs', 'audit', '--help'], { cwd: clone, env, encoding: 'utf8' });
  assert.match(help, /^Usage: tapedeck audit/, 'the command, started by the old one');
});

test('import, sql and audit answer what is in the sample', async () => {
  const imported = await npx('import', SAMPLE);
  assert.match(imported, /first-steps\.traces\.jsonl: verifiers-v1, 12 of 12 episodes, 121 events\n/);
  assert.match(imported, /121 events sent: 121 in the log, 0 refused/);
  await caughtUp(running.url);
  const question = / npx tapedeck sql "(.*?)"/.exec(running.greeting)?.[1] ?? assert.fail(running.greeting);
  assert.equal(await npx('sql', question), 'run\trollouts\tavg(reward)\nfirst-steps\t12\t0.8333333333333334\n');
  assert.match(await npx('audit'), /\neverything in the log is accounted for\n$/);
});

test('the run comes out as it went in', async () => {
  const out = join(folder.path, 'out.jsonl');
  assert.match(await npx('export', 'verifiers', '--run', 'first-steps', '-o', out), /^12 episodes/);
  const episodes = (file: string) => {
    const lines = readFileSync(file, 'utf8').trim().split('\n').map((line) => JSON.parse(line) as { id: string }); // prettier-ignore
    return lines.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  };
  assert.deepEqual(episodes(out), episodes(join(ROOT, SAMPLE)));
});

test('after SIGKILL everything is there, and the same import again adds nothing', async () => {
  await killEverything(running);
  running = await npmStart();
  assert.doesNotMatch(running.said(), /installing/);
  await caughtUp(running.url);
  assert.match(await npx('audit'), /\neverything in the log is accounted for\n$/);
  assert.match(await npx('import', SAMPLE), /121 events sent: 121 in the log, 0 refused/);
  await caughtUp(running.url);
  assert.equal(await npx('sql', 'SELECT count() AS rollouts FROM rollouts'), 'rollouts\n12\n');
  const statuses = 'SELECT status, count() AS events FROM events GROUP BY status ORDER BY status';
  assert.equal(await npx('sql', statuses), 'status\tevents\nduplicate\t121\nstored\t121\n');
});
