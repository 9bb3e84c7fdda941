/** The routes of exports over a format made here: the file, the files beside it, in whole and in parts; what fails, is cancelled or belongs to another project. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { ExportJobs, type ExportStatus } from '../exports/export-jobs.ts';
import type { ExportFormat } from '../exports/export-format.ts';
import { exportRoutes } from './exports.ts';

const folder = mkdtempSync(join(tmpdir(), 'tapedeck-export-routes-'));
const MAIN = 'one line\nanother line\n';
const BESIDE = { 'metadata.json': '{"env_id":"sum"}', 'more.json': '[1,2,3]' };
/** Lets a job go on behind its files beside. */
let goOn = Promise.withResolvers<void>();
let reached = Promise.withResolvers<void>();

/** Writes the main file and two small ones; `waits` stops between them, `fails` breaks behind them. */
const format = (name: string): ExportFormat => ({
  name,
  about: '',
  extension: 'test.jsonl',
  mediaType: 'application/jsonl',
  of: 'traces',
  write: async (_, sink, signal) => {
    await sink.write(Buffer.from(MAIN));
    sink.count(2);
    for (const [file, text] of Object.entries(BESIDE)) await sink.beside(file, Buffer.from(text));
    reached.resolve();
    if (name === 'waits') await Promise.race([goOn.promise, new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))]);
    if (name === 'fails') throw new Error('broken behind the files');
    return { asOf: null, left: { notes: 3 }, incomplete: ['r1'] };
  },
}); // prettier-ignore

let app: FastifyInstance;
let jobs: ExportJobs;
before(async () => {
  jobs = new ExportJobs({ directory: join(folder, 'files'), clock: systemClock, random: systemRandom });
  app = Fastify();
  const formats = ['plain', 'waits', 'fails'].map(format);
  // none of these formats reads, and no request here names a position
  await app.register(exportRoutes, { store: null as unknown as ColumnStore, jobs, formats });
});
after(async () => {
  await jobs.close();
  await app.close();
  rmSync(folder, { recursive: true, force: true });
});

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');
async function ended(name: string, project = 'default'): Promise<ExportStatus> {
  const begun = await app.inject({ method: 'POST', url: '/v1/exports', payload: { format: name, project } });
  assert.equal(begun.statusCode, 202, begun.body);
  const { id } = begun.json<ExportStatus>();
  for (;;) {
    const status = (await app.inject({ url: `/v1/exports/${id}?project=${project}` })).json<ExportStatus>();
    if (status.state !== 'waiting' && status.state !== 'running') return status;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
} // prettier-ignore
const file = (id: string, query = '', headers: Record<string, string> = {}) =>
  app.inject({ url: `/v1/exports/${id}/file${query}`, headers });
const onDisk = (id: string): string[] => readdirSync(join(folder, 'files')).filter((name) => name.startsWith(id)).toSorted(); // prettier-ignore

test('the state tells of every file: name, size and digest', async () => {
  const { id, rows, bytes, sha256: digest, beside, report, state } = await ended('plain');
  assert.deepEqual([state, rows, bytes, digest], ['done', 2, MAIN.length, sha256(MAIN)]);
  assert.deepEqual(beside, Object.entries(BESIDE).map(([name, text]) => ({ name, bytes: text.length, sha256: sha256(text) }))); // prettier-ignore
  assert.deepEqual(report, { asOf: null, left: { notes: 3 }, incomplete: ['r1'] });
  assert.deepEqual(onDisk(id), [id, `${id}.metadata.json`, `${id}.more.json`]);
});

test('each file has its own bytes, length, type, name and tag', async () => {
  const { id, fileName } = await ended('plain');
  const told = async (query: string): Promise<unknown[]> => {
    const { statusCode, body, headers } = await file(id, query);
    return [statusCode, body, headers['content-length'], headers['content-type'], headers['content-disposition'], headers['etag']];
  };
  const wanted = (text: string, type: string, name: string): unknown[] => [200, text, String(text.length), type, `attachment; filename="${name}"`, `"${sha256(text)}"`]; // prettier-ignore
  assert.deepEqual(await told(''), wanted(MAIN, 'application/jsonl', fileName));
  for (const [name, text] of Object.entries(BESIDE)) assert.deepEqual(await told(`?beside=${name}`), wanted(text, 'application/json', name)); // prettier-ignore
});

test('parts of each file, as long as it is the same one', async () => {
  const { id } = await ended('plain');
  const of = { '': MAIN, '?beside=more.json': BESIDE['more.json'] };
  for (const [query, text] of Object.entries(of)) {
    const part = await file(id, query, { range: 'bytes=2-4' });
    assert.deepEqual([part.statusCode, part.body, part.headers['content-range']], [206, text.slice(2, 5), `bytes 2-4/${text.length}`]);
    const rest = await file(id, query, { range: 'bytes=3-', 'if-range': `"${sha256(text)}"` });
    assert.deepEqual([rest.statusCode, rest.body], [206, text.slice(3)]);
    const last = await file(id, query, { range: 'bytes=-2' });
    assert.deepEqual([last.statusCode, last.body], [206, text.slice(-2)]);
    const other = await file(id, query, { range: 'bytes=3-', 'if-range': `"${sha256('another')}"` });
    assert.deepEqual([other.statusCode, other.body], [200, text]);
    const behind = await file(id, query, { range: `bytes=${text.length}-` });
    assert.deepEqual([behind.statusCode, behind.headers['content-range']], [416, `bytes */${text.length}`]);
  }
});

test('only names that the state lists are found, and only in the project of the job', async () => {
  const { id } = await ended('plain');
  for (const name of ['other.json', '../more.json', '%2e%2e%2fmore.json', id, `${id}.more.json`, 'more.json%00'])
    assert.equal((await file(id, `?beside=${name}`)).statusCode, 404, name);
  assert.equal((await file(id, '?beside=')).statusCode, 400);
  for (const query of ['?project=other', '?project=other&beside=more.json']) assert.equal((await file(id, query)).statusCode, 404, query);
  const theirs = await ended('plain', 'other');
  assert.equal((await file(theirs.id, '?beside=more.json')).statusCode, 404);
  assert.equal((await file(theirs.id, '?project=other&beside=more.json')).body, BESIDE['more.json']);
});

test('until the job is done there is neither file; a cancelled or failed one leaves nothing on the disk', async () => {
  reached = Promise.withResolvers();
  goOn = Promise.withResolvers();
  const begun = (await app.inject({ method: 'POST', url: '/v1/exports', payload: { format: 'waits' } })).json<ExportStatus>();
  await reached.promise;
  for (const query of ['', '?beside=more.json']) assert.equal((await file(begun.id, query)).json<{ error: { code: string } }>().error.code, 'not_ready', query); // prettier-ignore
  assert.equal(onDisk(begun.id).length, 3);
  assert.equal((await app.inject({ method: 'DELETE', url: `/v1/exports/${begun.id}` })).statusCode, 200);
  const failed = await ended('fails');
  assert.deepEqual([failed.state, failed.error?.message, failed.beside], ['failed', 'broken behind the files', []]);
  for (const query of ['', '?beside=more.json']) assert.equal((await file(failed.id, query)).statusCode, 404, query);
  const done = await ended('plain');
  assert.equal((await app.inject({ method: 'DELETE', url: `/v1/exports/${done.id}` })).statusCode, 200);
  for (const { id } of [begun, failed, done]) assert.deepEqual(onDisk(id), []);
});
