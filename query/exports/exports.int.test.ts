/** Exports over a real log, projector and engine, read back by other code. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import Fastify, { type FastifyInstance } from 'fastify';
import { systemClock } from '../../base/clock.ts';
import { systemRandom } from '../../base/random.ts';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { exportRoutes } from '../routes/exports.ts';
import { conversationFormats } from './conversation-formats.ts';
import { ExportJobs, type ExportStatus } from './export-jobs.ts';
import { rowsFormats } from './rows-format.ts';

let world: TestWorld;
let app: FastifyInstance;
let jobs: ExportJobs;
const directory = mkdtempSync(join(tmpdir(), 'tapedeck-exports-'));

function rollout(id: string, group: string, reward: number | null, answer: string): Draft[] {
  const ids = { run: 'run-1', rollout: id, trace: `${id}-t` };
  const node = (index: number, parent: number | null, role: string, content: string): Draft => ({ type: 'node.appended', ...ids, data: { index, parent, role, sampled: role === 'assistant', message: { role, content } } });
  return [
    { type: 'rollout.started', run: 'run-1', rollout: id, data: { group: { id: group, size: 2 }, task: { key: group } } },
    { type: 'trace.started', ...ids, data: { agent: { name: 'a', trainable: true } } },
    node(0, null, 'user', 'question "1"\n'),
    node(1, 0, 'assistant', answer),
    node(2, 0, 'assistant', `${answer} again`),
    ...(reward === null ? [] : [{ type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'x', score: reward } }]),
  ];
} // prettier-ignore

before(async () => {
  world = await openTestWorld();
  await world.write([...rollout('r1', 'g1', 1, 'good'), ...rollout('r2', 'g1', 0, 'bad'), ...rollout('r3', 'g2', 0.5, 'same'), ...rollout('r4', 'g2', 0.5, 'same'), ...rollout('r5', 'g3', NaN, 'odd')]); // prettier-ignore
  jobs = new ExportJobs({ directory: join(directory, 'files'), clock: systemClock, random: systemRandom, kept: 20 });
  app = Fastify();
  await app.register(exportRoutes, {
    store: world.store,
    jobs,
    formats: [...rowsFormats(world.store), ...conversationFormats(world.store)],
  });
});
after(async () => {
  await jobs?.close();
  await app?.close();
  await world?.close();
  rmSync(directory, { recursive: true, force: true });
});

async function exported(body: object): Promise<{ status: ExportStatus; file: Buffer }> {
  const begun = await app.inject({ method: 'POST', url: '/v1/exports', payload: body });
  assert.equal(begun.statusCode, 202, begun.body);
  const { id } = begun.json<ExportStatus>();
  const end = Date.now() + 60_000;
  let status = begun.json<ExportStatus>();
  while (status.state === 'waiting' || status.state === 'running') {
    if (Date.now() > end) throw new Error('the export does not end');
    await new Promise((resolve) => setTimeout(resolve, 20));
    status = (await app.inject({ url: `/v1/exports/${id}` })).json();
  }
  assert.equal(status.state, 'done', JSON.stringify(status.error));
  const file = await app.inject({ url: `/v1/exports/${id}/file` });
  assert.equal(createHash('sha256').update(file.rawPayload).digest('hex'), status.sha256);
  return { status, file: file.rawPayload };
}

const lines = (file: Buffer): Record<string, unknown>[] => file.toString().trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // prettier-ignore

test('rows of a list as Arrow and as lines of JSON, with filters and named rewards', async () => {
  const arrow = await exported({ format: 'arrow', of: 'rollouts', fields: ['rollout', 'reward', 'turns', 'reward.x'], filter: { run: 'run-1' } });
  const rows = tableFromIPC(arrow.file).toArray().map((row: { toJSON(): Record<string, unknown> }) => row.toJSON());
  assert.deepEqual(rows.map((row) => [row['rollout'], row['reward'], row['turns'], row['reward.x']]), [['r1', 1, 2n, 1], ['r2', 0, 2n, 0], ['r3', 0.5, 2n, 0.5], ['r4', 0.5, 2n, 0.5], ['r5', NaN, 2n, NaN]]);
  const json = await exported({ format: 'ndjson', of: 'rollouts', fields: ['rollout'], filter: { reward: { gt: 0.4 } }, sort: ['-rollout'] });
  assert.deepEqual(lines(json.file), [{ rollout: 'r4' }, { rollout: 'r3' }, { rollout: 'r1' }]);
  assert.match(json.status.report?.asOf ?? '', /^\d/);
}); // prettier-ignore

test('a Parquet file begins and ends as one', async () => {
  const { file } = await exported({ format: 'parquet', of: 'nodes' });
  assert.equal(file.subarray(0, 4).toString() + file.subarray(-4).toString(), 'PAR1PAR1');
});

test('conversations: every branch, the last one, pairs of a group', async () => {
  const chat = await exported({ format: 'openai-chat', filter: { run: 'run-1', rollout: 'r1' } });
  assert.deepEqual(lines(chat.file).map((line) => line['messages']), [
    [{ role: 'user', content: 'question "1"\n' }, { role: 'assistant', content: 'good' }],
    [{ role: 'user', content: 'question "1"\n' }, { role: 'assistant', content: 'good again' }],
  ]);
  const sft = await exported({ format: 'sft', filter: { reward: { ge: 1 } } });
  assert.deepEqual(lines(sft.file), [{ messages: [{ role: 'user', content: 'question "1"\n' }, { role: 'assistant', content: 'good again' }] }]);
  assert.equal(sft.status.report?.left['other branches'], 1);
  const pairs = await exported({ format: 'preference' });
  const [pair, ...others] = lines(pairs.file);
  assert.equal(others.length, 0);
  assert.deepEqual({ prompt: pair?.['prompt'], chosen: pair?.['chosen'], rejected: pair?.['rejected'] }, {
    prompt: [{ role: 'user', content: 'question "1"\n' }],
    chosen: [{ role: 'assistant', content: 'good again' }],
    rejected: [{ role: 'assistant', content: 'bad again' }],
  });
  assert.deepEqual(pairs.status.report?.incomplete, ['g2']);
}); // prettier-ignore

test('a download goes on where it broke off', async () => {
  const { status, file } = await exported({ format: 'ndjson', of: 'nodes' });
  const url = `/v1/exports/${status.id}/file`;
  const part = async (range: string, ifRange?: string): Promise<{ code: number; bytes: Buffer; range: string | undefined }> => {
    const answer = await app.inject({ url, headers: { range, ...(ifRange === undefined ? {} : { 'if-range': ifRange }) } });
    return { code: answer.statusCode, bytes: answer.rawPayload, range: answer.headers['content-range']?.toString() };
  };
  const rest = await part('bytes=10-', `"${status.sha256 ?? ''}"`);
  assert.deepEqual([rest.code, rest.range], [206, `bytes 10-${file.length - 1}/${file.length}`]);
  assert.deepEqual(rest.bytes, file.subarray(10));
  assert.deepEqual((await part('bytes=-7')).bytes, file.subarray(-7));
  assert.deepEqual((await part('bytes=3-5')).bytes, file.subarray(3, 6));
  assert.equal((await part(`bytes=${file.length}-`)).code, 416);
  assert.equal((await part('bytes=10-', '"another"')).code, 200);
});

test('jobs belong to their project, can be removed, and what is wrong is named at once', async () => {
  const { status } = await exported({ format: 'ndjson', of: 'runs' });
  assert.equal((await app.inject({ url: `/v1/exports/${status.id}?project=other` })).statusCode, 404);
  assert.equal((await app.inject({ method: 'DELETE', url: `/v1/exports/${status.id}` })).statusCode, 200);
  assert.equal((await app.inject({ url: `/v1/exports/${status.id}/file` })).statusCode, 404);
  for (const body of [{ format: 'nothing' }, { format: 'arrow' }, { format: 'sft', of: 'runs' }, { format: 'arrow', of: 'runs', filter: { x: 1 } }, { format: 'arrow', of: 'runs', asOf: 'x' }])
    assert.equal((await app.inject({ method: 'POST', url: '/v1/exports', payload: body })).statusCode, 400, JSON.stringify(body));
}); // prettier-ignore
