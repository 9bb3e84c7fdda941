/** `tapedeck feed`: create, list, status, explain, resume, delete against a real server; what people read is what the server says, and what is wrong is said with a remedy. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { startServer, temporaryFolder, type TestServer } from '../../../e2e/server.ts';
import { encodeEvent } from '../../../events/codec/cbor-encode.ts';
import type { TapedeckEvent } from '../../../events/registry.ts';
import { event, f32, T0, u32, u8 } from '../../../trainer-feed/feed/feed-world.ts';
import type { FeedStatus } from '../../../trainer-feed/feed/status.ts';
import type { Manifest } from '../../../trainer-feed/server/manifest.ts';

const folder = temporaryFolder('feed-command');
let server: TestServer;

type Outcome = { readonly code: number; readonly out: string; readonly err: string };

function feed(...args: readonly string[]): Promise<Outcome> {
  const main = join(import.meta.dirname, '../../main.ts');
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', main, 'feed', ...args, '--url', server.url],
      { cwd: folder.path, env: { PATH: process.env['PATH'] } },
      (error, out, err) => resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
    );
  });
}

type Given = { readonly reward?: number; readonly ok?: boolean; readonly mode?: string };

function group(name: string, members: readonly Given[]): TapedeckEvent[] {
  return members.flatMap(({ reward = 1, ok = true, mode = 'processed' }, i) => {
    const ids = { run: 'r', group: name, rollout: `${name}-${i}` };
    const trace = { ...ids, trace: `t-${name}-${i}` };
    let time = T0 + i * 10;
    return [
      event('rollout.started', ids, time++, { env: { id: 'toy' }, task: { key: `task of ${name}` }, group: { id: name, size: members.length }, work: { type: 'train' }, policyVersion: 0 }),
      event('trace.started', trace, time++, { agent: { name: 'a', trainable: true } }),
      event('node.appended', trace, time++, { index: 0, parent: null, role: 'user', sampled: false, tokens: { ids: u32([1, 2]), mask: u8([0, 0]) } }),
      event('node.appended', trace, time++, { index: 1, parent: 0, role: 'assistant', sampled: true, call: 0, tokens: { ids: u32([3, 4, 5]), mask: u8([1, 1, 1]), logprobs: f32([-1, -1, -1]) } }),
      event('call.recorded', trace, time++, { index: 0, node: 1, policyVersion: 0, sampling: { temperature: 1 }, logprobsMode: mode }),
      event('reward.assigned', trace, time++, { scope: 'trace', name: 'x', score: reward }),
      event('trace.ended', trace, time++, { ok }),
      event('rollout.ended', ids, time++, { ok }),
    ];
  });
} // prettier-ignore

before(async () => {
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_ROLES: 'ingest,feed', TAPEDECK_LOG_LEVEL: 'warn' });
  await server.ready();
  const events = [
    ...group('plain', [{ reward: 1, mode: 'raw' }, { reward: 0.25 }, { ok: false }, { reward: 0.25 }]),
    ...group('equal', [{}, {}]),
    ...group('red \u001b[31mgroup', [{ reward: 1 }, { reward: 0 }]),
  ]; // prettier-ignore
  const body = Buffer.concat(events.map((each) => encodeEvent(each)));
  const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/cbor-seq' }, body });
  assert.equal(posted.status, 200, await posted.text());
  writeFileSync(join(folder.path, 'spec.json'), JSON.stringify({ runs: ['r'], maxRowTokens: 64, batch: { by: 'rollouts', size: 5 } }));
});
after(async () => {
  await server?.kill();
  folder.remove();
});

async function until<T>(look: () => Promise<T | null>): Promise<T> {
  for (let i = 0; i < 60; i++) {
    const found = await look();
    if (found !== null) return found;
  }
  throw new Error('it did not come');
}

test('create, list and status say what the server knows', async () => {
  const made = await feed('create', 'main', 'spec.json');
  assert.match(made.out, /^feed main is there \(spec [0-9a-f]{12}\)\n$/, made.err);
  assert.match((await feed('create', 'main', 'spec.json')).out, /^feed main is there/);
  const status = await until(async () => {
    const asked = JSON.parse((await feed('status', 'main', '--json')).out) as FeedStatus;
    return asked.cut === 1 ? asked : null;
  });
  assert.equal(status.committed, 0);
  const { out } = await feed('status', 'main');
  assert.match(out, /^feed main, timeline 0: 0 batches committed, 1 cut\n {2}lease {6}nobody holds it\n {2}next {7}batch 2 waits for the commit of batch 1, since /);
  assert.match(out, /groups {5}0 open, 0 sealed, 0 scoring, 0 ready, 3 cut/);
  assert.match(out, /left out {3}.*1 error \(5 tokens\)/);
  assert.match((await feed('list')).out, /^feed +committed +cut +timeline +created\s*\nmain +0 +1 +0 +20\d\d-/);
}); // prettier-ignore

test('explain prints a batch: groups, rewards, advantages, mixed conventions, what was left out and why', async () => {
  const asked = await feed('explain', 'main', '1', '--json');
  const manifest = JSON.parse(asked.out) as Manifest;
  const { out, err, code } = await feed('explain', 'main', '1');
  assert.deepEqual([code, err], [0, '']);
  const lines = out.split('\n').map((line) => line.trimEnd());
  assert.equal(lines[0], 'batch 1 of feed main, timeline 0: not committed yet');
  assert.ok(lines.includes(`  id        ${manifest.batchId}`) && lines.includes('  before    none: it is the first'));
  assert.ok(lines.includes('  holds     5 rows of 5 rollouts in 2 groups, 25 tokens, longest 5'), out);
  assert.ok(lines.includes('  divide by N_rl 15, N_ce 1, N_ref_kl 1'));
  assert.ok(lines.includes('  rewards   mean 0.5, standard deviation 0.4677'));
  assert.ok(lines.includes('  logprobs  MIXED: 1 rows raw, 4 rows processed'));
  const at = lines.indexOf('group plain (toy, task task of plain)');
  assert.deepEqual(
    lines.slice(at + 1, at + 5).map((line) => line.trim().split(/\s+/)),
    [
      ['rollout', 'trace', 'leaf', 'reward', 'advantage', 'stale', 'tokens', 'trained', 'status'],
      ['plain-0', 't-plain-0', '1', '1', '0.5', '0', '5', '3', 'completed'],
      ['plain-1', 't-plain-1', '1', '0.25', '-0.25', '0', '5', '3', 'completed'],
      ['plain-3', 't-plain-3', '1', '0.25', '-0.25', '0', '5', '3', 'completed'],
    ],
  );
  assert.ok(!out.includes('\u001b'), 'what producers send does not steer the terminal');
  for (const { rollout, reason } of manifest.excluded) assert.ok(lines.some((line) => line.includes(`${rollout}`) && line.includes(reason)));
  assert.ok(lines.some((line) => /^left out: .*1 error \(5 tokens\)/.test(line)));
}); // prettier-ignore

test('what cannot be answered is told with its code and a remedy, and fails', async () => {
  for (const [args, code, says] of [
    [['explain', 'nobody', '1'], 1, /no feed nobody.*create it with POST \/v1\/feeds.*not_found/s],
    [['explain', 'main', '40'], 1, /batch 40 is far ahead.*ask for batches up to 2.*out_of_order/s],
    [['explain', 'main', 'first'], 1, /first must be a whole number/],
    [['create', 'main', 'absent.json'], 1, /absent\.json/],
    [['resume', 'main', '--holder', 'me', '--to', '7', '--batch', 'ab'], 1, /batch 7 is not cut.*chain_mismatch/s],
  ] as const) {
    const refused = await feed(...args);
    assert.match(refused.err, says, args.join(' '));
    assert.equal(refused.code, code, args.join(' '));
  }
});

test('resume rewinds, delete ends', async () => {
  const post = (path: string, body: object): Promise<Response> => fetch(`${server.url}/v1/feeds/main/${path}`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const lease = (await (await post('leases', { holder: 'me', step: 1, world: 1, maxTokens: 64, wait: 30 })).json()) as { batchId: string; token: number };
  assert.equal((await post('commits', { n: 1, batchId: lease.batchId, token: lease.token })).status, 200);
  assert.match((await feed('explain', 'main', '1')).out, /^batch 1 of feed main, timeline 0: committed\n/);
  assert.equal((await feed('resume', 'main', '--holder', 'me', '--to', '1', '--batch', lease.batchId)).out, 'nothing to rewind; next is step 2\n');
  assert.match((await feed('resume', 'main', '--holder', 'me')).err, /you sent no checkpoint.*restart: true/);
  assert.equal((await feed('resume', 'main', '--holder', 'me', '--restart')).out, 'rewound: timeline 1; next is step 1\n');
  assert.equal((await feed('delete', 'main', '--reason', 'over')).out, 'feed main is over; its log stays\n');
  assert.match((await feed('status', 'main')).err, /feed main was deleted/);
}); // prettier-ignore
