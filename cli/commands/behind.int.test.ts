/** While the projector lags, `audit` and `export` say so, and can wait. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { caughtUp } from '../../e2e/proof.ts';
import { projectorOf, startServer, temporaryFolder, type TestServer } from '../../e2e/server.ts';
import { TRAIN_EPISODE } from '../../ingest/importers/sample-records.ts';

const EPISODES = 60;
const folder = temporaryFolder('behind');
let server: TestServer;
before(async () => {
  server = await startServer({ TAPEDECK_DATA: folder.path, TAPEDECK_BLOCK_EVENTS: '500', TAPEDECK_BLOCK_WAIT_MS: '50' });
  await server.ready();
  const lines = Array.from({ length: EPISODES }, (_, i) => TRAIN_EPISODE.replace('"id":"e1"', `"id":"e${i}"`));
  writeFileSync(join(folder.path, 'traces.jsonl'), `${lines.join('\n')}\n`);
});
after(async () => {
  process.kill(projectorOf(server), 'SIGCONT');
  await server.kill();
  folder.remove();
});

type Outcome = { readonly code: number | null; readonly out: string; readonly err: string };

function tapedeck(...args: readonly string[]): Promise<Outcome> {
  const main = join(import.meta.dirname, '../main.ts');
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args, '--url', server.url], {
    cwd: folder.path,
    env: { PATH: process.env['PATH'] },
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

test('what is accepted and not stored yet is named; an export waits for it, or fails and writes nothing', async () => {
  await caughtUp(server.url);
  const empty = await tapedeck('audit');
  assert.deepEqual([empty.code, empty.out.trim().split('\n').at(-1)], [0, 'everything in the log is accounted for']);

  process.kill(projectorOf(server), 'SIGSTOP');
  const imported = await tapedeck('import', 'traces.jsonl', '--json');
  assert.equal(imported.code, 0, imported.err);
  const { sent } = JSON.parse(imported.out) as { sent: number };

  const lagging = await tapedeck('audit');
  assert.equal(lagging.code, 2, lagging.out);
  assert.match(lagging.out, new RegExp(`^${sent} events not yet stored; everything before them is accounted for$`, 'm'));
  const waited = await tapedeck('audit', '--wait', '0.3');
  assert.equal(waited.code, 2, waited.out + waited.err);

  const short = await tapedeck('export', 'verifiers', '--run', 'r1', '-o', 'short.jsonl', '--wait', '0.3');
  assert.equal(short.code, 1);
  assert.match(short.err, new RegExp(`${sent} events are accepted and not yet stored, and none was stored for 0.3 s.*\\(not_ready\\)`));
  assert.equal(existsSync(join(folder.path, 'short.jsonl')), false);

  const exporting = tapedeck('export', 'verifiers', '--run', 'r1', '-o', 'whole.jsonl', '--json');
  const auditing = tapedeck('audit', '--wait', '60');
  await sleep(1_000);
  process.kill(projectorOf(server), 'SIGCONT');
  const exported = await exporting;
  assert.equal(exported.code, 0, exported.err);
  assert.equal((JSON.parse(exported.out) as { episodes: number }).episodes, EPISODES);
  assert.equal(readFileSync(join(folder.path, 'whole.jsonl'), 'utf8').trim().split('\n').length, EPISODES);
  const audited = await auditing;
  assert.equal(audited.code, 0, audited.out + audited.err);
});
