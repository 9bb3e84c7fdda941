/** The command as a person runs it, against a real edge. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { openEdge, type Edge } from '../../ingest/http/edge-under-test.ts';
import type { ImportReport } from '../../ingest/importers/report.ts';
import { EPISODE_040, ROWS, TRAIN_EPISODE } from '../../ingest/importers/sample-records.ts';

let folder = '';
let edge: Edge;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-cli-import-'));
  edge = await openEdge();
  await writeFile(join(folder, 'traces.jsonl'), `${TRAIN_EPISODE}\n${EPISODE_040}\n`);
  await writeFile(join(folder, 'results.jsonl'), `${ROWS['g3 flat times']}\n`);
  await writeFile(join(folder, 'bad.jsonl'), `${TRAIN_EPISODE}\nnonsense\n`);
});
after(async () => {
  await edge.close();
  await rm(folder, { recursive: true, force: true });
});

type Outcome = { readonly code: number | null; readonly out: string; readonly err: string };

function tapedeck(args: readonly string[], onStart: (kill: (signal: NodeJS.Signals) => void) => void = () => {}): Promise<Outcome> {
  const main = join(import.meta.dirname, '../main.ts');
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'] },
  });
  let out = '';
  let err = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
  onStart((signal) => child.kill(signal));
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, out, err })));
}

test('files by name: exit 0, and what was read is told', async () => {
  const { code, out, err } = await tapedeck(['import', 'traces.jsonl', 'results.jsonl', '--url', edge.url]);
  assert.equal(code, 0, err);
  assert.match(out, /traces\.jsonl: verifiers-v1, 2 of 2 episodes/);
  assert.match(out, /results\.jsonl: verifiers-v0, 1 of 1 rollouts/);
  const rollouts = new Set((await edge.stored()).map((s) => s.event['rollout']).filter((r) => r !== undefined));
  assert.equal(rollouts.size, 3);
});

test('a bad line: exit 2, and the report as JSON names it', async () => {
  const { code, out } = await tapedeck(['import', 'bad.jsonl', '--project', 'other', '--json', '--url', edge.url]);
  const report = JSON.parse(out) as ImportReport;
  assert.deepEqual([code, report.issues.map((i) => [i.line, i.code]), report.files[0]?.imported], [2, [[2, 'invalid_json']], 1]);
  assert.ok((await edge.stored()).some((s) => s.event['project'] === 'other' && s.event['rollout'] === 'e1'));
});

test('nothing to import, a wrong option: a failure with a sentence', async () => {
  const missing = await tapedeck(['import', 'nothing*.jsonl', '--url', edge.url]);
  assert.equal(missing.code, 1);
  assert.match(missing.err, /no such file or folder/);
  const wrong = await tapedeck(['import', 'traces.jsonl', '--max-line-mib', 'lots']);
  assert.notEqual(wrong.code, 0);
  assert.match(wrong.err, /whole number from 1 to 512/);
});

test('Ctrl-C: exit 130, a report, and importing again completes it', async () => {
  const lines = Array.from({ length: 250 }, (_, i) => TRAIN_EPISODE.replace('"id":"e1"', `"id":"stop${i}"`));
  await writeFile(join(folder, 'long.jsonl'), lines.join('\n'));
  let appends = 0;
  let kill: (signal: NodeJS.Signals) => void = () => {};
  edge.tap = async () => {
    if (++appends === 2) kill('SIGINT');
    if (appends < 20) await new Promise((resolve) => setTimeout(resolve, 100));
  };
  const stopped = await tapedeck(['import', 'long.jsonl', '--url', edge.url], (end) => (kill = end));
  edge.tap = () => {};
  assert.equal(stopped.code, 130, stopped.err);
  assert.match(stopped.out, /import the same files again to go on/);
  assert.equal((await tapedeck(['import', 'long.jsonl', '--url', edge.url])).code, 0);
  const stored = (await edge.stored()).filter((s) => String(s.event['rollout']).startsWith('stop'));
  assert.equal(new Set(stored.map((s) => s.event['rollout'])).size, 250);
});
