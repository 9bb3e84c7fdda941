/**
 * `tapedeck tail` as a process of its own, killed at random moments while files grow and rotate, and so is the server: afterwards every line is there exactly once.
 */
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../base/random.ts';
import { audit, caughtUp, sql } from '../../e2e/proof.ts';
import { startServer, temporaryFolder, type TestServer } from '../../e2e/server.ts';
import type { ImportReport } from '../importers/report.ts';
import { ROWS, TRAIN_EPISODE } from '../importers/sample-records.ts';

const SEED = Number(process.env['TAPEDECK_SEED'] ?? Date.now() % 100_000);
const random = seededRandom(SEED);
const data = temporaryFolder('tail-data');
const watched = temporaryFolder('tail-watched');
const PORT = 41_000 + (process.pid % 9_000);
let server: TestServer | null = null;
let tailing: ChildProcess | null = null;
after(async () => {
  tailing?.kill('SIGKILL');
  await server?.kill();
  data.remove();
  watched.remove();
});

async function start(): Promise<TestServer> {
  await server?.kill();
  server = await startServer({ TAPEDECK_DATA: data.path, TAPEDECK_PORT: String(PORT), TAPEDECK_BLOCK_WAIT_MS: '50' }, { listenMs: 60_000 });
  return server;
}

type Outcome = { readonly code: number | null; readonly out: string; readonly err: string };
function tapedeck(args: readonly string[]): { child: ChildProcess; ended: Promise<Outcome> } {
  const main = join(import.meta.dirname, '../../cli/main.ts');
  const child = spawn(
    process.execPath,
    ['--disable-warning=ExperimentalWarning', main, 'tail', watched.path, '--url', `http://127.0.0.1:${PORT}`, ...args],
    {
      env: { PATH: process.env['PATH'] },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  return { child, ended: new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err }))) };
}

let made = 0;
/** Appends to growing files in torn pieces, and rotates one of them now and then. */
function write(): void {
  const id = `live-${made++}`;
  const line = `${TRAIN_EPISODE.replace('"id":"e1"', `"id":"${id}"`).replace('"id":"t1"', `"id":"${id}-t"`)}\n`;
  const folder = join(watched.path, `rollouts/step_${Math.floor(made / 40)}/train/all`);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, 'traces.jsonl');
  const cut = Math.floor(random.next() * line.length);
  appendFileSync(path, line.slice(0, cut));
  appendFileSync(path, line.slice(cut));
  if (made % 25 === 0) renameSync(path, `${path}.${made}`);
}

test(`killed at any moment, every line is there exactly once (seed ${SEED})`, async () => {
  await start();
  writeFileSync(join(watched.path, 'metadata.json'), '{"env_id":"sum","model":"gpt"}');
  writeFileSync(join(watched.path, 'results.jsonl'), `${ROWS['g3 flat times']}\n`);
  const writing = new AbortController();
  const writer = (async () => {
    while (!writing.signal.aborted) {
      write();
      await sleep(15);
    }
  })();
  for (let kill = 0; kill < 6; kill++) {
    const { child, ended } = tapedeck([]);
    tailing = child;
    await sleep(1_200 + random.next() * 1_800);
    if (kill === 2 || kill === 4) await start();
    child.kill('SIGKILL');
    await ended;
  }
  writing.abort();
  await writer;
  const rows = Array.from({ length: 3 }, (_, i) => (ROWS['g3 flat times'] as string).replace('"id":5', `"id":${i}`));
  appendFileSync(join(watched.path, 'results.jsonl'), rows.map((row) => `${row}\n`).join(''));
  const last = await tapedeck(['--once', '--json']).ended;
  assert.equal(last.code, 0, last.err + last.out);
  const report = JSON.parse(last.out) as ImportReport;
  assert.deepEqual([report.issueCount, report.rejected], [0, 0]);
  const idle = await tapedeck(['--once']).ended;
  assert.match(idle.out, /0 events sent/);

  const current = server as TestServer;
  await current.ready(180_000);
  await caughtUp(current.url, 180_000);
  const counts = await sql<Record<string, string>>(
    current.url,
    "SELECT (SELECT count() FROM rollouts WHERE startsWith(rollout, 'live-')) AS rollouts, (SELECT count() FROM nodes WHERE startsWith(rollout, 'live-')) AS nodes, (SELECT uniqExact(trace, index) FROM nodes WHERE startsWith(rollout, 'live-')) AS distinct, (SELECT count() FROM rewards WHERE startsWith(rollout, 'live-')) AS rewards, (SELECT count() FROM rollouts WHERE startsWith(rollout, 'v0-')) AS rows, (SELECT countIf(n > 1) FROM (SELECT id, countIf(status = 'stored') AS n FROM events GROUP BY id)) AS twice",
  );
  assert.deepEqual(Object.values(counts[0] as object).map(Number), [made, 5 * made, 5 * made, 3 * made, 4, 0]);
  const statuses = await sql<{ status: string }>(current.url, 'SELECT DISTINCT status FROM events ORDER BY status');
  assert.deepEqual(statuses.filter(({ status }) => status !== 'stored' && status !== 'duplicate'), []); // prettier-ignore
  const proof = await audit(current.url);
  assert.deepEqual([proof.ok, proof.problems], [true, []]);
});

test('the command says what is wrong with its folder', async () => {
  const main = join(import.meta.dirname, '../../cli/main.ts');
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, 'tail', '/no/such/folder'], {
    env: { PATH: process.env['PATH'] },
  });
  let err = '';
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.equal(code, 1);
  assert.match(err, /is no folder \(not_found\)/);
});
