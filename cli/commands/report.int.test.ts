/** `tapedeck report` and `tapedeck diff` as a user runs them: processes of their own, asking a server over HTTP. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import { rolloutEvents, testLog } from '../../query/analytics/log-for-tests.ts';
import { writeSample } from '../../query/analytics/sample-for-docs.ts';
import { startTestEngine } from '../../query/engine-for-tests.ts';
import type { TestEngine } from '../../query/engine-for-tests.ts';
import { DATABASE, prepareStore } from '../../query/events-for-tests.ts';
import { analyticsRoutes } from '../../query/routes/analytics.ts';

const HOSTILE = 'run <script>alert(1)</script> "&\' | `x`';
const folder = mkdtempSync(join(tmpdir(), 'tapedeck-report-'));
let engine: TestEngine;
let app: FastifyInstance;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  const log = testLog(engine.store);
  await writeSample(log);
  await log.append([
    { type: 'run.started', run: HOSTILE, data: { kind: 'eval', model: '<b>m</b>' } },
    ...rolloutEvents({ run: HOSTILE, rollout: 'h1', task: '<i>| task', score: 0, rewards: { '<u>': NaN } }),
    ...rolloutEvents({ run: HOSTILE, rollout: 'h2', task: '\u202e\u0007task', env: '<svg onload=x>', score: 1, ok: false }),
  ]);
  app = Fastify();
  await app.register(analyticsRoutes, { store: engine.store });
  await app.listen({ host: '127.0.0.1', port: 0 });
});
after(async () => {
  await app?.close();
  await engine?.close();
  rmSync(folder, { recursive: true, force: true });
});

type Ended = { readonly code: number | null; readonly out: string; readonly err: string };

function tapedeck(args: readonly string[], url = app.listeningOrigin): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', join(import.meta.dirname, '../main.ts'), ...args], {
      env: { PATH: process.env['PATH'], TAPEDECK_URL: url },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    child.on('close', (code) => resolve({ code, out, err }));
  });
}

test('report: Markdown, one HTML file, and the command that makes both again', async () => {
  const file = join(folder, 'report.html');
  const { code, out, err } = await tapedeck(['report', 'eval-2', '--against', 'eval-1', '--html', file]);
  assert.deepEqual([code, err], [0, '']);
  assert.match(out, /^# eval-2\n\n\*\*(Better|Not decided|Worse)\. On 12 common tasks pass@1 went from /);
  assert.match(out, /\| pass@4 \| \d+\.\d % \(\d+\.\d to \d+\.\d\) \| t over tasks \| 12 \|/);
  assert.match(out, /were not run alike: sampling\.temperature \(0\.7 against 1\)/);
  const html = readFileSync(file, 'utf8');
  assert.doesNotMatch(html, /<script|https?:\/\/|url\(|<link|<img|@import/i);
  assert.equal(html.match(/<svg/g)?.length, html.match(/<\/svg>/g)?.length);
  for (const [, label] of html.matchAll(/<svg[^>]*aria-label="([^"]*)"/g)) assert.notEqual(label, '');
  const again = /tapedeck (report .*?)`\n/.exec(out)?.[1]?.replaceAll("'", '').split(' ') as string[];
  assert.equal((await tapedeck([...again, '--html', `${file}.2`])).out, out);
  assert.equal(readFileSync(`${file}.2`, 'utf8'), html);
});

test('report: gates decide the exit code', async () => {
  const passed = await tapedeck(['report', 'eval-2', '--against', 'eval-1', '--quiet', '--fail-if', 'pass@1 < 0.1', '--fail-if', 'significantly worse than baseline']);
  assert.deepEqual([passed.code, passed.out, passed.err], [0, '', '']);
  const failed = await tapedeck(['report', 'eval-1', '--quiet', '--fail-if', 'pass@3 < 1.1']);
  assert.equal(failed.code, 1);
  assert.match(failed.err, /^failed: pass@3 < 1\.1: pass@3 is \d+\.\d %\n$/);
  for (const [args, text] of [[['report', 'nobody'], /no run "nobody"/], [['report', 'eval-1', '--fail-if', 'significantly worse than baseline'], /no baseline/], [['report', 'eval-1', '--fail-if', 'good'], /no condition/], [['report', 'eval-1', '--html', join(folder, 'no', 'such', 'folder')], /cannot be written/]] as const) {
    const wrong = await tapedeck(args);
    assert.equal(wrong.code, 2, `${args.join(' ')}: ${wrong.err}`);
    assert.match(wrong.err, text);
  }
  assert.equal((await tapedeck(['report', 'eval-1'], 'http://127.0.0.1:9')).code, 2);
}); // prettier-ignore

test('report: gates on k beside the usual ones, on votes, and on what is compared only when asked for', async () => {
  const quiet = ['report', 'eval-2', '--against', 'eval-1', '--quiet'];
  const gates = (...texts: string[]): string[] => texts.flatMap((text) => ['--fail-if', text]);
  const worse = 'significantly worse than baseline';
  const passed = await tapedeck([...quiet, '--answer', 'answer', ...gates(`pass@3 ${worse}`, `pass^5 ${worse}`, `pass^1 ${worse}`, `pass@4 ${worse}`, 'maj@3 < 0.1', 'maj@4 < 0.1', 'best@3 < 0.1')]);
  assert.deepEqual([passed.code, passed.err], [0, '']);
  const turned = await tapedeck(['report', 'eval-1', '--against', 'eval-2', '--confidence', '0.85', '--quiet', ...gates(`pass@3 ${worse}`, `pass@1 ${worse}`, worse)]);
  assert.equal(turned.code, 1);
  assert.match(turned.err, /failed: significantly worse than baseline: avg changed by −\d/);
  assert.doesNotMatch(turned.err, /was not compared/);
  const noMetric = await tapedeck([...quiet, ...gates('maj@3 < 0.1')]);
  assert.deepEqual([noMetric.code, /--answer <metric>/.test(noMetric.err)], [2, true]);
  const tooMany = await tapedeck([...quiet, ...gates(`pass@9 ${worse}`)]);
  assert.deepEqual([tooMany.code, /Ask for k <= 8/.test(tooMany.err)], [2, true]);
  const told = await tapedeck(['report', 'eval-1', '--answer', 'answer', '--choose-by', 'judge']);
  assert.match(told.out, /\| maj@4 \| .*\| best@4 \| /s);
  assert.match(told.out, /--answer answer --choose-by judge/);
}); // prettier-ignore

test('report: two policy versions of one run; JSON for programs', async () => {
  const { code, out } = await tapedeck(['report', 'train-1', '--policy-version', '2', '--against-version', '0', '--json']);
  assert.equal(code, 0);
  const data = JSON.parse(out) as { compare: { comparisons: { commonTasks: number }[] }; estimates: { selection: object } };
  assert.deepEqual(data.estimates.selection, { run: 'train-1', policyVersion: 2 });
  assert.equal(data.compare.comparisons[0]?.commonTasks, 4);
});

test('report: names that are markup stay text', async () => {
  const file = join(folder, 'hostile.html');
  const { code, out } = await tapedeck(['report', HOSTILE, '--html', file]);
  assert.equal(code, 0);
  const html = readFileSync(file, 'utf8');
  assert.doesNotMatch(html, /<script|<b>m|<i>|<u>|<svg onload/);
  assert.match(html, /&lt;script&gt;alert\(1\)/);
  for (const unsafe of ['\u0007', '\u202e']) assert.ok(!out.includes(unsafe));
  assert.match(out, /^# run \\<script\\>alert\(1\)/);
});

test('diff: facts side by side, then the messages', async () => {
  const { code, out } = await tapedeck(['diff', 'eval-1-5-0', 'eval-2-5-0']);
  assert.equal(code, 0);
  assert.match(out, /^rollout +eval-1-5-0 +eval-2-5-0\nrun +eval-1 +eval-2\ntask +task-5 +task-5\n/);
  assert.match(out, /messages: the same to their ends \(2\)/);
  const other = await tapedeck(['diff', 'eval-1-5-0', 'eval-1-6-0']);
  assert.match(other.out, /different tasks/);
  assert.match(other.out, /0 are the same, then text differs at character 5/);
  const none = await tapedeck(['diff', 'nope', 'eval-1-6-0']);
  assert.deepEqual([none.code, /no rollout "nope"/.test(none.err)], [1, true]);
  assert.equal((JSON.parse((await tapedeck(['diff', 'eval-1-5-0', 'eval-2-5-0', '--json'])).out) as { shared: number }).shared, 2);
});
