import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readEvent } from '../../events/read-event.ts';
import { findFiles } from './find-files.ts';
import { importFiles, type ImportFilesOptions } from './import-files.ts';
import type { Sink } from './lanes.ts';
import { emptyReport, exitCodeOf, MAX_ISSUES, reportText, addIssue, type ImportReport } from './report.ts';
import { BARE_EPISODE, EPISODE_040, ROWS, TRAIN_EPISODE } from './sample-records.ts';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tapedeck-import-'));
});
after(() => rm(folder, { recursive: true, force: true }));

async function put(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, '..'), { recursive: true });
  await writeFile(path, content);
  return path;
}

/** Takes everything and keeps the ids; every event must be legal. */
function keeper(): { ids: Set<string>; sink: Sink } {
  const ids = new Set<string>();
  const sink: Sink = async (slices) => {
    for (const slice of slices) {
      const event = readEvent(slice);
      assert.ok(event.ok, event.ok ? '' : event.error.message);
      ids.add(event.value.id);
    }
    return { accepted: slices.length, duplicates: 0, rejected: [] };
  };
  return { ids, sink };
}

async function run(path: string, options: Partial<ImportFilesOptions> = {}, report?: ImportReport): Promise<ImportReport> {
  const { files, skipped } = await findFiles([path]);
  const all: ImportFilesOptions = {
    sink: keeper().sink,
    signal: AbortSignal.timeout(20_000),
    lanes: 2,
    batchBytes: 4000,
    batchEvents: 10,
    ...options,
  };
  const done = await importFiles(files, all, report);
  done.skipped.push(...skipped);
  return done;
}

test('bad lines are reported with file, line, field and code; the rest goes on', async () => {
  const bad: [string | Buffer, string, string | null][] = [
    ['{"id":"x"', 'invalid_json', null],
    ['{"id":"x","id":"y","traces":[]}', 'duplicate_key', null],
    [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), 'invalid_utf8', null],
    [`{"id":"deep","traces":${'['.repeat(300)}${']'.repeat(300)}}`, 'too_deep', null],
    ['[1,2,3]', 'wrong_type', null],
    ['{"id":5,"traces":[]}', 'invalid_id', 'id'],
    ['{"id":"x","traces":[{"nodes":[7]}]}', 'wrong_type', 'traces[0].nodes[0]'],
    [Buffer.from([0, 1, 2, 0xff, 0xfe]), 'invalid_utf8', null],
    ['{"id":"x","traces":[],"n":1e999}', 'number_out_of_range', null],
    [`{"id":"long","traces":[],"x":"${'y'.repeat(20_000)}"}`, 'record_too_large', null],
  ];
  const lines = [TRAIN_EPISODE, ...bad.map(([text]) => text), EPISODE_040].map((line) =>
    Buffer.concat([Buffer.from(line as string), Buffer.from('\n')]),
  );
  const path = await put('bad/traces.jsonl', Buffer.concat(lines));
  const report = await run(path, { maxLineBytes: 16_000 });
  assert.deepEqual(
    report.issues.map((i) => [i.path, i.line, i.code, i.field ?? null]),
    bad.map(([, code, field], i) => [path, i + 2, code, field]),
  );
  const [file] = report.files;
  assert.deepEqual([file?.lines, file?.imported, file?.failed, file?.torn], [12, 2, 10, 0]);
  assert.equal(exitCodeOf(report), 2);
  assert.match(reportText(report), /traces\.jsonl:8 traces\[0\]\.nodes\[0\]: .* must be an object \(wrong_type\)/);
});

test('a torn last line is left out and said; a whole one without a line feed is imported', async () => {
  const torn = await run(await put('torn/traces.jsonl', `${TRAIN_EPISODE}\n${EPISODE_040.slice(0, 200)}`));
  assert.deepEqual([torn.files[0]?.lines, torn.files[0]?.imported, torn.files[0]?.torn, exitCodeOf(torn)], [1, 1, 1, 0]);
  assert.match(reportText(torn), /the last line was cut off/);
  const whole = await run(await put('whole/traces.jsonl', `\ufeff${TRAIN_EPISODE}\r\n\n${EPISODE_040}`));
  assert.deepEqual([whole.files[0]?.imported, whole.files[0]?.torn, whole.issueCount], [2, 0, 0]);
});

test('the same content in another file, compressed or in pieces, gives the same events', async () => {
  const [one, two] = [keeper(), keeper()];
  await run(await put('same/traces.jsonl', `${TRAIN_EPISODE}\n${EPISODE_040}\n`), one);
  await run(await put('same2/other.jsonl.gz', gzipSync(`${TRAIN_EPISODE}\r\n${EPISODE_040}`)), two);
  assert.deepEqual(two.ids, one.ids);
});

test('a cut gzip file: what was whole is imported, the cut is an issue', async () => {
  const text = Array.from({ length: 50 }, (_, i) => TRAIN_EPISODE.replace('"e1"', `"e${i}"`)).join('\n');
  const bytes = gzipSync(text);
  const report = await run(await put('cut/traces.jsonl.gz', bytes.subarray(0, bytes.length - 20)));
  assert.deepEqual(
    report.issues.map((i) => [i.line, i.code]),
    [[null, 'truncated_body']],
  );
  assert.ok((report.files[0]?.imported ?? 0) > 30);
  assert.equal(exitCodeOf(report), 2);
});

test('v0 with its metadata; a pointer or a list in place of metadata.json costs only the metadata', async () => {
  const rows = [ROWS['g3 flat times'], ROWS['g5 error as text'], '{"reward":1}'].join('\n');
  await put('v0/metadata.json', '\ufeff{"env_id":"sum","model":"toy","avg_reward":NaN}');
  const good = await run(await put('v0/results.jsonl', rows));
  assert.deepEqual(
    [good.files[0]?.imported, good.events['run.started'], good.issues.map((i) => [i.line, i.code])],
    [2, 1, [[3, 'missing_field']]],
  );
  for (const [metadata, code] of [
    ['version https://git-lfs.github.com/spec/v1\n', 'invalid_json'],
    ['[1]', 'wrong_type'],
    ['{', 'invalid_json'],
  ] as const) {
    await put('v0b/metadata.json', metadata);
    const report = await run(await put('v0b/results.jsonl', ROWS['g3 flat times'] as string));
    assert.deepEqual([report.files[0]?.imported, report.issues.map((i) => i.code)], [1, [code]], metadata);
  }
});

test('a page of hosted samples is the same rollouts as its rows', async () => {
  const [page, rows] = [keeper(), keeper()];
  const sample = ROWS['hosted training row'] as string;
  const report = await run(await put('hosted/rollouts_raw.json', `{"run_id":"hosted1","page":1,\n"samples":[\n${sample},\n7]}`), page);
  assert.deepEqual(
    report.issues.map((i) => [i.line, i.code]),
    [[2, 'wrong_type']],
  );
  await run(await put('hosted2/results.jsonl', `${sample}\n`), rows);
  assert.deepEqual(rows.ids, page.ids);
});

test('refused events are reported with the line they came from', async () => {
  const sink: Sink = async (slices) => {
    const rejected = slices.flatMap((slice, index) => {
      const event = readEvent(slice);
      return event.ok && event.value.type === 'call.recorded'
        ? [{ index, code: 'event_too_large' as const, message: 'too large', field: 'data' }]
        : [];
    });
    return { accepted: slices.length - rejected.length, duplicates: 0, rejected };
  };
  const path = await put('refused/traces.jsonl', `${BARE_EPISODE}\n${TRAIN_EPISODE}\n`);
  const report = await run(path, { sink });
  assert.deepEqual(
    report.issues.map((i) => [i.line, i.code, i.message]),
    Array.from({ length: 3 }, () => [2, 'event_too_large', 'call.recorded: too large']),
  );
  assert.deepEqual([report.rejected, exitCodeOf(report)], [3, 2]);
  assert.equal(report.accepted + report.rejected, report.sent);
});

test('an abort ends the import; what was sent until then is in the report', async () => {
  const stop = new AbortController();
  const report = emptyReport();
  const lines = Array.from({ length: 200 }, (_, i) => TRAIN_EPISODE.replace('"e1"', `"e${i}"`)).join('\n');
  const sink: Sink = async (slices) => {
    if (report.sent > 100) stop.abort();
    return { accepted: slices.length, duplicates: 0, rejected: [] };
  };
  await assert.rejects(run(await put('abort/traces.jsonl', lines), { sink, signal: stop.signal }, report), { name: 'AbortError' });
  assert.ok(report.sent > 100 && report.sent < 3000);
});

test('issues are kept up to a limit and counted beyond it; nothing imported is a failure', () => {
  const report = emptyReport();
  for (let i = 0; i < MAX_ISSUES + 5; i++) addIssue(report, { path: 'f', line: i, code: 'invalid_json', message: 'x' });
  assert.deepEqual([report.issues.length, report.issueCount], [MAX_ISSUES, MAX_ISSUES + 5]);
  assert.match(reportText(report), /and 5 more/);
  assert.equal(exitCodeOf(report), 1);
});
