/**
 * The published package, as its users get it: packed, installed into an empty folder, type-checked there, and run by plain Node 20, by the pinned Node, and by Bun and Deno where they
 * are on the path. With CI=true a Node 20 is fetched where the caller's own is another.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { execFile } from 'node:child_process';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import { temporaryFolder } from '../server.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = temporaryFolder('sdk-package');
const home = join(folder.path, 'home');
/** The environment of somebody who knows nothing of this repository. */
const env: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(TAPEDECK_|npm_|NODE_)/i.test(name) || name === 'NODE_EXTRA_CA_CERTS')),
  PATH: (process.env['PATH'] ?? '').split(delimiter).filter((entry) => !entry.includes('node_modules')).join(delimiter),
}; // prettier-ignore

type Runtime = { readonly name: string; readonly command: readonly string[] };

function versionOf(command: string): string | null {
  const { status, stdout } = spawnSync(command, ['--version'], { env, encoding: 'utf8' });
  return status === 0 ? stdout.trim().split('\n')[0] as string : null; // prettier-ignore
}

/** A Node 20, or why there is none. */
function node20(): string | { readonly missing: string } {
  const own = versionOf('node');
  if (own?.startsWith('v20.')) return 'node';
  if (process.env['CI'] !== 'true')
    return { missing: `the caller's own Node is ${own ?? 'none'}, and CI=true is not set to fetch another` };
  const prefix = join(folder.path, 'node20');
  mkdirSync(prefix);
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', prefix, 'node@20.20.2'], { env, stdio: 'pipe' });
  return join(prefix, 'node_modules/node/bin/node');
}

const PROGRAM = `
import { createRecorder, recordingFetch, currentTrace, isTapedeckError } from '@tapedeck/harness';
const [url, spool, step] = process.argv.slice(2);
const recorder = createRecorder({ url, spool, closeMs: 30_000, producer: 'packaged' });
if (step === 'killed') {
  const rollout = recorder.rollout({ id: 'killed-' + process.pid, env: 'sums', task: { key: 'add', data: { a: 1 } }, group: 'g' });
  const trace = rollout.trace({ agent: 'solver' });
  for (let i = 0; i < 50; i++) trace.message({ role: 'user', content: 'naïve \\u{1F4FC} ' + i }, { tokens: { ids: [i, 2, 3] } });
  await recorder.persist();
  process.kill(process.pid, 'SIGKILL');
  setInterval(() => {}, 1000);
} else {
  const fake = async () => Response.json({ id: 'x', model: 'toy', choices: [{ index: 0, message: { role: 'assistant', content: '2' }, finish_reason: 'stop', token_ids: [7], logprobs: { content: [{ logprob: -0.5 }] } }], prompt_token_ids: [5, 6] });
  const ask = recordingFetch(fake);
  await recorder.rollout({ env: 'sums' }, async (rollout) => {
    await rollout.trace({ agent: 'solver' }, async (trace) => {
      if (currentTrace() !== trace) throw new Error('the trace is not current');
      const answer = await ask('http://engine/v1/chat/completions', { method: 'POST', body: JSON.stringify({ model: 'toy', messages: [{ role: 'user', content: '1 + 1?' }] }) });
      if ((await answer.json()).choices[0].message.content !== '2') throw new Error('another answer');
    });
    rollout.reward('correct', 1);
  });
  while (recorder.drained.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  try {
    recorder.rollout({ id: '' });
  } catch (error) {
    if (!isTapedeckError(error, 'invalid_id')) throw error;
  }
  await recorder.close();
  console.log(JSON.stringify({ drained: recorder.drained, counters: recorder.counters }));
}
`;

const TYPES = `
import { createRecorder, wrapOpenAI, type Counters, type Trace, type Rejected } from '@tapedeck/harness';
await using recorder = createRecorder({ url: 'http://127.0.0.1:7070', spool: { folder: 'spool', sync: true }, onRejected: (list: readonly Rejected[]) => list[0]?.code });
const counters: Counters = recorder.counters;
const length: number = await recorder.rollout({ env: 'sums', group: { id: 'g', size: 4 } }, async (rollout) => {
  const trace: Trace = rollout.trace({ agent: { name: 'solver', trainable: true } });
  const node: number = trace.message({ role: 'assistant', content: 'x' }, { sampled: true, tokens: { ids: new Uint32Array(3), logprobs: [0, 0, 0] }, forkReason: 'resample' });
  // @ts-expect-error: no such fork reason
  trace.message({ role: 'user' }, { forkReason: 'whim' });
  // @ts-expect-error: a message needs a role
  trace.message({ content: 'x' });
  return node;
});
class Client { withOptions(_options: object): Client { return this; } chat = 1; }
export const chat: number = wrapOpenAI(new Client()).chat + length + counters.acked;
`;

let edge: Edge;
before(async () => {
  edge = await openEdge();
  const dist = join(folder.path, 'dist');
  await promisify(execFile)(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', join(ROOT, 'harness-sdk/build.ts'), '--out', dist],
    { cwd: ROOT },
  );
  execFileSync('npm', ['pack', '--pack-destination', folder.path, dist], { env, stdio: 'pipe' });
  const packed = readdirSync(folder.path).find((name) => name.endsWith('.tgz')) as string;
  mkdirSync(home);
  writeFileSync(join(home, 'package.json'), '{"type": "module", "private": true}');
  execFileSync('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder.path, packed)], { cwd: home, env, stdio: 'pipe' });
  writeFileSync(join(home, 'program.mjs'), PROGRAM);
  writeFileSync(join(home, 'types.ts'), TYPES);
});
after(async () => {
  await edge.close();
  folder.remove();
});

test('it is one file and its declarations, and brings nothing along', () => {
  const installed = readdirSync(join(home, 'node_modules')).filter((name) => !name.startsWith('.'));
  assert.deepEqual(installed, ['@tapedeck']);
  const packed = join(home, 'node_modules/@tapedeck/harness');
  assert.deepEqual(readdirSync(packed).toSorted(), ['README.md', 'index.js', 'package.json', 'types']); // prettier-ignore
  const code = readFileSync(join(packed, 'index.js'), 'utf8');
  const imports = [...code.matchAll(/(?:from|import\()\s*["']([^"']+)["']/g)]
    .map(([, from]) => from as string)
    .filter((from) => !from.startsWith('node:'));
  assert.deepEqual(imports, ['openai']);
  assert.ok(code.length < 200_000, `${code.length} bytes`);
});

test('its types hold in a strict project without further packages', () => {
  const options = [
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--module',
    'nodenext',
    '--lib',
    'es2024,esnext.disposable,dom',
    '--types',
    '',
  ];
  const { status, stdout } = spawnSync(process.execPath, [join(ROOT, 'node_modules/.bin/tsc'), ...options, 'types.ts'], {
    cwd: home,
    encoding: 'utf8',
  });
  assert.equal(status, 0, stdout);
});

describe('it runs', () => {
  const old = node20();
  const runtimes: readonly (Runtime | { readonly name: string; readonly missing: string })[] = [
    typeof old === 'string' ? { name: 'Node 20', command: [old] } : { name: 'Node 20', ...old },
    { name: 'the pinned Node', command: [process.execPath] },
    versionOf('bun') === null ? { name: 'Bun', missing: 'bun is not on the path' } : { name: 'Bun', command: ['bun'] },
    versionOf('deno') === null ? { name: 'Deno', missing: 'deno is not on the path' } : { name: 'Deno', command: ['deno', 'run', '-A'] },
  ];
  for (const runtime of runtimes) {
    test(
      `with ${runtime.name}: what a killed process left is delivered by the next`,
      { skip: 'missing' in runtime ? runtime.missing : false },
      async () => {
        const [command = '', ...args] = (runtime as Runtime).command;
        const spool = join(folder.path, `spool-${runtime.name.replaceAll(' ', '-')}`);
        const before = (await edge.stored()).length;
        const killed = spawnSync(command, [...args, 'program.mjs', 'http://127.0.0.1:9', spool, 'killed'], {
          cwd: home,
          env,
          encoding: 'utf8',
        });
        assert.equal(killed.signal, 'SIGKILL', killed.stderr);
        const { stdout } = await promisify(execFile)(command, [...args, 'program.mjs', edge.url, spool, 'next'], { cwd: home, env });
        const { drained, counters } = JSON.parse(stdout) as {
          drained: { acked: number; lost: number }[];
          counters: { produced: number; acked: number };
        };
        // run, rollout, trace and 50 messages
        assert.deepEqual(drained.map(({ acked, lost }) => [acked, lost]), [[53, 0]]); // prettier-ignore
        assert.equal(counters.acked, counters.produced);
        const stored = (await edge.stored()).slice(before);
        assert.equal((await edge.stored()).length - before, 53 + counters.produced);
        assert.ok(stored.length > 0);
        assert.deepEqual(readdirSync(spool), []);
      },
    );
  }
});
