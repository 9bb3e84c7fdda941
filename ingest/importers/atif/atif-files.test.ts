/** Files of trajectories: one document over many lines, a list of some, one a line, compressed, damaged. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { findFiles } from '../find-files.ts';
import { importFiles } from '../import-files.ts';
import { reportText, type ImportReport } from '../report.ts';
import type { Format } from '../recognise.ts';

const folder = mkdtempSync(join(tmpdir(), 'tapedeck-atif-'));
after(() => rmSync(folder, { recursive: true, force: true }));
function put(name: string, content: string | Buffer): string {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
}

const made = (session: string): object => ({ schema_version: 'ATIF-v1.6', session_id: session, agent: { name: 'solver', version: '1' }, steps: [{ step_id: 1, source: 'user', message: 'hi' }] }); // prettier-ignore
const pretty = (value: unknown): string => JSON.stringify(value, null, 2);

async function imported(paths: string[], format?: Format): Promise<{ report: ImportReport; skipped: Record<string, string>; ids: Set<string> }> {
  const ids = new Set<string>();
  const { files, skipped } = await findFiles(paths, format);
  const report = await importFiles(files, {
    lanes: 1, batchBytes: 1_000_000, batchEvents: 100, signal: AbortSignal.timeout(60_000),
    sink: async (slices) => {
      for (const slice of slices) ids.add(Buffer.from(slice).toString('hex'));
      return { accepted: slices.length, duplicates: 0, rejected: [] };
    },
  });
  return { report, skipped: Object.fromEntries(skipped.map(({ path, reason }) => [basename(path), reason])), ids };
} // prettier-ignore

test('the same two trajectories give the same events in every layout', async () => {
  const both = [made('a'), made('b')];
  const layouts: [string, string | Buffer][] = [
    ['lines.atif.jsonl', both.map((each) => `${JSON.stringify(each)}\n`).join('')],
    ['crlf.atif.jsonl', both.map((each) => `${JSON.stringify(each)}\r\n`).join('\r\n')],
    ['list.atif.json', pretty(both)],
    ['one-line-list.atif.json', JSON.stringify(both)],
    ['marked.atif.json', `\ufeff${pretty(both).replaceAll('\n', '\r\n')}`],
    ['packed.atif.json.gz', gzipSync(pretty(both))],
  ];
  const [first, ...others] = await Promise.all(layouts.map(async ([name, content]) => ({ name, ...(await imported([put(name, content)])) })));
  for (const { name, report, ids } of [first, ...others].filter((each) => each !== undefined)) {
    assert.deepEqual([report.files[0]?.format, report.files[0]?.lines, report.files[0]?.imported, report.issueCount], ['atif', 2, 2, 0], name);
    assert.deepEqual(ids, first?.ids, name);
  }
  assert.match(reportText(first!.report), /lines\.atif\.jsonl: atif, 2 of 2 trajectories, 11 events/);
  const single = await imported([put('trajectory.json', pretty(made('a'))), put('trajectory.cont-1.json', JSON.stringify(made('b')))]);
  assert.deepEqual(single.ids, first?.ids);
}); // prettier-ignore

test('a folder is searched through for the names that trajectories have', async () => {
  const { report, skipped } = await imported([folder]);
  assert.equal(report.files.length, 8);
  assert.deepEqual(skipped, {});
});

test('a damaged trajectory is one issue among good ones; what cannot be one is skipped with the reason', async () => {
  const lines = await imported([put('mixed.jsonl', [made('c'), { ...made('d'), steps: 7 }, made('e')].map((each) => JSON.stringify(each)).join('\n'))]); // prettier-ignore
  assert.deepEqual(lines.report.issues.map(({ line, code, field }) => [line, code, field]), [[2, 'wrong_type', 'steps']]); // prettier-ignore
  assert.equal(lines.report.files[0]?.imported, 2);
  const list = await imported([put('mixed.json', pretty([made('c'), 7, made('e')]))]);
  assert.deepEqual([list.report.files[0]?.imported, list.report.issues.map(({ line, code }) => [line, code])], [2, [[2, 'wrong_type']]]);
  const cut = await imported([put('cut.json', pretty(made('f')).slice(0, -30))]);
  assert.deepEqual(cut.report.issues.map(({ line, code }) => [line, code]), [[null, 'invalid_json']]); // prettier-ignore
  const stream = await imported([put('stream.jsonl', `{"__header__":true,"schema_version":"ATIF-v1.4","agent":{}}\n{"step_id":1}\n`), put('other.json', '{"parent":{}}'), put('numbers.json', '[1,2]')]); // prettier-ignore
  assert.match(stream.skipped['stream.jsonl'] ?? '', /stream of single steps/);
  assert.match(stream.skipped['other.json'] ?? '', /no known format/);
  assert.match(stream.skipped['numbers.json'] ?? '', /does not begin with a JSON object/);
  const forced = await imported([join(folder, 'other.json')], 'atif');
  assert.deepEqual(forced.report.issues.map(({ field }) => field), ['schema_version']); // prettier-ignore
});
