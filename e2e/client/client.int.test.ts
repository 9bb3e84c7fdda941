/** The typed client against a real server; every JSON answer it gets is held against the server's own document. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ListError, listRows } from '../../client/list-rows.ts';
import { connectClient, type TapedeckClient } from '../../client/tapedeck-client.ts';
import { startServer, temporaryFolder, type TestServer } from '../server.ts';
import { documentedFetch, type Document } from './documented.ts';

const ROOT = join(import.meta.dirname, '../..');
const DOCS = join(ROOT, 'docs/client.md');
const TASKS = 6;
const folder = temporaryFolder('api-client');
let server: TestServer;
let client: TapedeckClient;
let judged: ReturnType<typeof documentedFetch>;

type Event = Readonly<Record<string, unknown>>;

function rolloutOf(run: string, task: number, score: number): Event[] {
  const ids = { run, rollout: `${run}/r ${task}` };
  const inTrace = { ...ids, trace: `${run}-t${task}` };
  return [
    { type: 'rollout.started', ...ids, data: { env: { id: task % 2 === 0 ? 'sums' : 'words' }, task: { key: `q${task}` }, policyVersion: 3 } },
    { type: 'trace.started', ...inTrace, data: { agent: { name: 'solver', model: 'm-1', trainable: true } } },
    { type: 'node.appended', ...inTrace, data: { index: 0, parent: null, role: 'user', sampled: false, message: { role: 'user', content: `What is ${task} plus two?` }, tokens: { ids: [1, 2], mask: [0, 0] } } },
    { type: 'node.appended', ...inTrace, data: { index: 1, parent: 0, role: 'assistant', sampled: true, message: { role: 'assistant', content: 'Umbrella.' }, tokens: { ids: [3, 4], mask: [1, 1], logprobs: [-0.5, -0.25] }, call: 0, policyVersion: 3 } },
    { type: 'call.recorded', ...inTrace, data: { index: 0, node: 1, model: 'm-1', finishReason: 'stop', usage: { promptTokens: 2, completionTokens: 2 } } },
    { type: 'trace.ended', ...inTrace, data: { ok: true } },
    { type: 'reward.assigned', ...ids, data: { scope: 'rollout', name: 'correct', score, weight: 1 } },
    { type: 'rollout.ended', ...ids, data: { ok: true } },
  ];
} // prettier-ignore

function world(): Event[] {
  const tasks = Array.from({ length: TASKS }, (_, task) => task);
  const events = ['run-a', 'run-b'].flatMap((run) => [
    { type: 'run.started', run, data: { kind: 'eval', name: run } },
    ...tasks.flatMap((task) => rolloutOf(run, task, run === 'run-b' || task < 2 ? 1 : 0)),
    { type: 'run.ended', run, data: { status: 'completed' } },
  ]);
  return events.map((event, at) => ({ v: 1, id: `0198c0de-0000-7000-8000-${String(at).padStart(12, '0')}`, time: 1_760_000_000_000_000 + at, ...event }));
} // prettier-ignore

/** Summaries and the word index follow the log. */
async function until(isThere: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 90_000;
  while (!(await isThere())) {
    assert.ok(Date.now() < end, 'what was recorded did not become visible');
    await sleep(100);
  }
}

before(async () => {
  server = await startServer({ TAPEDECK_DATA: folder.path });
  await server.ready();
  judged = documentedFetch((await (await fetch(`${server.url}/docs/json`)).json()) as Document);
  client = connectClient({ url: `${server.url}/`, fetch: judged.fetch });
  const posted = await fetch(`${server.url}/v1/events`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(world()) });
  assert.deepEqual(((await posted.json()) as { rejected: unknown }).rejected, []);
  await until(async () => (await client.GET('/v1/rollouts', { params: { query: { ok: true, 'reward[null]': false } } })).data?.rows.length === 2 * TASKS);
  await until(async () => (await client.GET('/v1/search', { params: { query: { q: 'umbrella' } } })).data?.hits.length === 2 * TASKS);
}); // prettier-ignore
after(async () => {
  await server?.stop();
  folder.remove();
});

test('lists with conditions, by pages', async () => {
  const query = { run: 'run-a', 'reward.correct[lt]': 0.5, 'env[in]': ['sums', 'none'], sort: '-task_key', limit: 1, fields: 'rollout,task_key,reward.correct' } as const;
  const keys: (string | null | undefined)[] = [];
  for await (const row of listRows(client, '/v1/rollouts', query)) {
    keys.push(row.task_key);
    assert.equal(row['reward.correct'], 0);
  }
  assert.deepEqual(keys, ['q4', 'q2']);
  const { data } = await client.GET('/v1/rollouts', { params: { query: { ...query, markers: 2, histograms: 'reward,env', count: 'exact' } } });
  assert.deepEqual(data?.count, { value: '2', exact: true });
  assert.equal(data?.histograms?.['env']?.kind, 'values');
  assert.equal(typeof data?.next, 'string');
}); // prettier-ignore

test('one row by an id with odd characters', async () => {
  const { data } = await client.GET('/v1/rollouts/{rollout}', { params: { path: { rollout: 'run-a/r 3' } } });
  assert.deepEqual([data?.row.task_key, data?.row.reward, data?.row.policy_version_min], ['q3', 0, '3']);
});

test('search, traces, graph windows, tokens, lineage and curves', async () => {
  const found = await client.GET('/v1/search', { params: { query: { q: 'three OR plus', run: 'run-a', role: ['user', 'tool'], limit: 2 } } });
  assert.equal(found.error, undefined);
  const { data: hits } = await client.GET('/v1/search', { params: { query: { q: 'plus two', run: 'run-a', limit: 2 } } });
  assert.equal(hits?.hits[0]?.fragments[0]?.text, 'What is 0 plus two?');
  const { data: trace } = await client.GET('/v1/traces/{id}', { params: { path: { id: 'run-a-t1' } } });
  assert.ok(trace !== undefined && 'nodes' in trace);
  assert.deepEqual(trace.nodes.map((node) => node.text), ['What is 1 plus two?', 'Umbrella.']); // prettier-ignore
  const { data: branch } = await client.GET('/v1/traces/{id}', { params: { path: { id: 'run-a-t1' }, query: { tokens: 1, encoding: 'arrays' } } });
  assert.ok(branch !== undefined && 'ids' in branch);
  assert.deepEqual(branch.ids, [1, 2, 3, 4]);
  const path = { trace: 'run-a-t1' };
  const { data: graph } = await client.GET('/v1/traces/{trace}/graph', { params: { path, query: { around: 0 } } });
  assert.equal(graph?.nodes[0]?.children, 1);
  const { data: tokens } = await client.GET('/v1/traces/{trace}/tokens', { params: { path, query: { leaf: 1, columns: 'token_id,logprob,policy_version' } } });
  assert.ok(tokens !== undefined && 'columns' in tokens);
  assert.deepEqual(tokens.columns.logprob, [null, null, -0.5, -0.25]);
  const { data: skeleton } = await client.GET('/v1/traces/{trace}/skeleton', { params: { path }, parseAs: 'arrayBuffer' });
  assert.ok((skeleton?.byteLength ?? 0) > 100);
  const { data: lineage } = await client.GET('/v1/traces/{trace}/nodes/{index}/lineage', { params: { path: { ...path, index: 1 } } });
  assert.deepEqual([lineage?.tokens, lineage?.rows], [2, []]);
  const { data: steps } = await client.GET('/v1/lineage/steps/{step}', { params: { path: { step: 1 }, query: { asOf: lineage?.asOf ?? '' } } });
  assert.deepEqual(steps, { asOf: lineage?.asOf, batches: [] });
  const { data: curves } = await client.GET('/v1/curves', { params: { query: { of: 'rollouts', x: 'started', y: 'reward', by: 'run', points: 4 } } });
  assert.deepEqual(curves?.curves.map(({ by }) => by), ['run-a', 'run-b']); // prettier-ignore
}); // prettier-ignore

test('analytics', async () => {
  const { data } = await client.GET('/v1/analytics/compare', { params: { query: { base: 'run-a', other: ['run-b'], k: '1' } } });
  assert.deepEqual([data?.comparisons[0]?.commonTasks, data?.comparisons[0]?.measures[0]?.paired.difference], [TASKS, 4 / 6]);
  const { data: estimates } = await client.GET('/v1/analytics/pass-at-k', { params: { query: { run: 'run-a' } } });
  assert.equal(estimates?.estimates.avg.estimate, 2 / 6);
  const { data: tasks } = await client.GET('/v1/analytics/tasks', { params: { query: { run: 'run-a', sort: 'solveRate', limit: 1 } } });
  assert.deepEqual([tasks?.total, tasks?.next, tasks?.tasks[0]?.solveRate], [TASKS, 1, 0]);
  const { data: breakdown } = await client.GET('/v1/analytics/breakdown', { params: { query: { run: 'run-a' } } });
  assert.equal(breakdown?.asOf.settled, true);
  const asOf = breakdown?.asOf.position ?? '';
  const { data: curves } = await client.GET('/v1/analytics/curves', { params: { query: { run: 'run-a', by: 'policyVersion', asOf } } });
  assert.deepEqual(curves?.all.map(({ env, points }) => [env, points.map(({ x }) => x)]), [[null, [3]], ['sums', [3]], ['words', [3]]]); // prettier-ignore
  const { data: checkpoints } = await client.GET('/v1/analytics/checkpoints', { params: { query: { run: 'run-a', asOf } } });
  assert.deepEqual([checkpoints?.best, checkpoints?.checkpoints[0]?.estimate.estimate], [3, 2 / 6]);
  const { data: judges } = await client.GET('/v1/analytics/judges', { params: { query: { run: 'run-a', asOf } } });
  assert.deepEqual(judges?.raters.map(({ name, scored }) => [name, scored]), [['correct', TASKS]]); // prettier-ignore
  const sides = { a: 'run-a/r 2', b: 'run-b/r 2' };
  const { data: diff } = await client.GET('/v1/analytics/diff', { params: { query: { ...sides, asOf } } });
  assert.deepEqual([diff?.sameTask, diff?.divergence, diff?.a.reward, diff?.b.reward], [true, null, 0, 1]);
});

test('operations: the audit, what is behind, dead letters, compaction and a checked rebuild', async () => {
  const { data: audit } = await client.GET('/v1/audit');
  assert.deepEqual([audit?.ok, audit?.problems], [true, []]);
  assert.equal((await client.GET('/v1/behind')).data?.notStored, 0);
  assert.deepEqual((await client.GET('/v1/dead-letters')).data, { letters: [] });
  assert.deepEqual((await client.POST('/v1/dead-letters/retry', { body: { all: true } })).data, { retried: 0 });
  const { data: compacted } = await client.POST('/v1/compact', { parseAs: 'text' });
  assert.match(String(compacted), /\{"done":true\}\n$/);
  const { data: rebuilt } = await client.POST('/v1/rebuild', { body: { check: true }, parseAs: 'text' });
  assert.match(String(rebuilt), /"phase":"result","equal":true.*\n\{"done":true\}\n$/);
});

test('a run is delivered again, and what a feed of it is', async () => {
  const { data: lines } = await client.GET('/v1/replay/events', { params: { query: { run: 'run-a' } }, parseAs: 'text' });
  assert.equal(String(lines).trimEnd().split('\n').length, world().length / 2);
  const made = await client.POST('/v1/feeds', { body: { feed: 'of-a', spec: { maxRowTokens: 400, batch: { by: 'rollouts', size: 4 }, runs: ['run-a'] } } });
  assert.equal(made.response.status, 201, JSON.stringify(made.error));
  const path = { feed: 'of-a' };
  assert.equal((await client.GET('/v1/feeds/{feed}', { params: { path } })).data?.feed, 'of-a');
  assert.equal((await client.GET('/v1/feeds')).data?.feeds.length, 1);
  assert.equal((await client.GET('/v1/feeds/{feed}/status', { params: { path } })).data?.committed, 0);
  assert.equal((await client.GET('/v1/feeds/{feed}/capacity', { params: { path } })).data?.running, 0);
}); // prettier-ignore

test('SQL as JSON and as bytes', async () => {
  const query = 'SELECT env, count() AS n FROM rollouts WHERE run = {run:String} GROUP BY env ORDER BY env';
  const { data } = await client.POST('/v1/sql', { body: { query, params: { run: 'run-a' } } });
  assert.deepEqual(data?.data, [{ env: 'sums', n: '3' }, { env: 'words', n: '3' }]); // prettier-ignore
  const { data: csv } = await client.POST('/v1/sql', { body: { query: 'SELECT 1 AS one', format: 'csv' }, parseAs: 'text' });
  assert.equal(csv, '"one"\n1\n');
});

test('what people add', async () => {
  const { data, response } = await client.POST('/v1/notes', { body: { run: 'run-a', rollout: 'run-a/r 0', text: 'looks right' } });
  assert.deepEqual([response.status, data?.type], [201, 'note.added']);
});

test('exports, and the rollouts of a run', async () => {
  const { data: formats } = await client.GET('/v1/exports/formats');
  assert.ok(formats?.formats.some(({ name }) => name === 'ndjson'));
  const { data: job, response } = await client.POST('/v1/exports', {
    body: { format: 'ndjson', of: 'rollouts', filter: { run: 'run-a' } },
  });
  assert.deepEqual([response.status, job?.format], [202, 'ndjson']);
  const path = { id: job?.id ?? '' };
  await until(async () => (await client.GET('/v1/exports/{id}', { params: { path } })).data?.state === 'done');
  const { data: file } = await client.GET('/v1/exports/{id}/file', { params: { path }, parseAs: 'text' });
  assert.equal(file?.trim().split('\n').length, TASKS);
  assert.equal((await client.GET('/v1/exports')).data?.exports[0]?.report?.incomplete.length, 0);
  assert.deepEqual((await client.DELETE('/v1/exports/{id}', { params: { path } })).data, {});
  const { data: page } = await client.GET('/v1/runs/{run}/rollouts', { params: { path: { run: 'run-a' }, query: { limit: 1 } } });
  assert.deepEqual(page, { rollouts: ['run-a/r 0'], next: 'run-a/r 0' });
});

test('failures are values with a code', async () => {
  const { data, error, response } = await client.GET('/v1/rollouts/{rollout}', { params: { path: { rollout: 'no such' } } });
  assert.deepEqual([data, error?.error.code, response.status], [undefined, 'not_found', 404]);
  const wrong = await client.POST('/v1/sql', { body: { query: 'SELEC 1' } });
  assert.equal(wrong.error?.error.code, 'sql_error');
  assert.ok(wrong.error.error.details?.['position'] !== undefined);
  await assert.rejects(listRows(client, '/v1/rollouts', { sort: 'nothing' }).next(), (failure) => failure instanceof ListError && failure.status === 400);
  const gone = AbortSignal.abort(new Error('enough'));
  await assert.rejects(listRows(client, '/v1/runs', {}, gone).next(), /enough/);
}); // prettier-ignore

/** The package as programs get it: built, beside its one dependency. TAPEDECK_UPDATE_DOCS=1 writes what the examples print. */
test('the examples of docs/client.md type-check against the built package and print what is written', async () => {
  const place = join(folder.path, 'program');
  const modules = join(ROOT, 'node_modules');
  mkdirSync(join(place, 'node_modules/@tapedeck'), { recursive: true });
  for (const name of ['openapi-fetch', 'openapi-typescript-helpers', '@types', 'undici-types']) symlinkSync(join(modules, name), join(place, 'node_modules', name));
  const run = async (...args: string[]): Promise<string> => (await promisify(execFile)(process.execPath, args, { cwd: place, env: { ...process.env, TAPEDECK_URL: server.url } })).stdout;
  await run(join(ROOT, 'client/build.ts'), '--out', join(place, 'node_modules/@tapedeck/client'));
  let text = readFileSync(DOCS, 'utf8');
  const blocks = [...text.matchAll(/```ts\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/g)];
  assert.equal(blocks.length, 3);
  writeFileSync(join(place, 'package.json'), '{"type": "module"}');
  const files = blocks.map(([, script], at) => {
    writeFileSync(join(place, `example-${at}.ts`), script as string);
    return `example-${at}.ts`;
  });
  const compilerOptions = { noEmit: true, strict: true, module: 'nodenext', target: 'es2024', lib: ['es2024', 'dom'], types: ['node'] };
  writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
  await run(join(modules, '.bin/tsc'), '-p', place);
  for (const [at, [whole, script, expected]] of blocks.entries()) {
    const printed = await run('--disable-warning=ExperimentalWarning', files[at] as string);
    if (process.env['TAPEDECK_UPDATE_DOCS'] === '1') text = text.replace(whole, () => `\`\`\`ts\n${script}\`\`\`\n\n\`\`\`text\n${printed}\`\`\``);
    else assert.equal(printed, expected, files[at]);
  }
  if (process.env['TAPEDECK_UPDATE_DOCS'] === '1') writeFileSync(DOCS, text);
}); // prettier-ignore

test('all of it was as the document says', () => {
  for (const id of ['list_rollouts', 'get_rollouts', 'search', 'read_trace', 'trace_graph', 'trace_tokens', 'lineage_node', 'curves', 'analytics_compare', 'sql', 'post_notes', 'analytics_breakdown', 'analytics_curves', 'analytics_checkpoints', 'analytics_judges', 'analytics_diff', 'get_audit', 'get_behind', 'get_dead_letters', 'post_compact', 'post_rebuild', 'get_replay_events', 'get_feeds_feed_status']) {
    assert.ok(judged.seen.has(id), id);
  }
}); // prettier-ignore

/** Never called: each marked line must fail to type-check, or the compiler says that the mark is unused. */
export async function wrongUses(api: TapedeckClient): Promise<void> {
  // @ts-expect-error there is no such path
  await api.GET('/v1/rolouts');
  // @ts-expect-error lists are read, not deleted
  await api.DELETE('/v1/rollouts');
  // @ts-expect-error the run is needed
  await api.GET('/v1/analytics/pass-at-k', { params: { query: { k: '1' } } });
  // @ts-expect-error not an enumerated value
  await api.GET('/v1/rollouts', { params: { query: { count: 'roughly' } } });
  // @ts-expect-error truth values have no order
  await api.GET('/v1/rollouts', { params: { query: { 'ok[contains]': 'x' } } });
  // @ts-expect-error not a field of rollouts
  await api.GET('/v1/rollouts', { params: { query: { colour: 'red' } } });
  // @ts-expect-error a path needs its id
  await api.GET('/v1/rollouts/{rollout}', {});
  // @ts-expect-error one row is no list
  listRows(api, '/v1/rollouts/{rollout}', {});
  // @ts-expect-error cursors are the business of listRows
  listRows(api, '/v1/rollouts', { cursor: 'x' });
  // @ts-expect-error the query is text
  await api.POST('/v1/sql', { body: { query: 1 } });
  const { data, error } = await api.GET('/v1/rollouts/{rollout}', { params: { path: { rollout: 'r' } } });
  // @ts-expect-error there may be an error instead
  void data.row;
  if (data === undefined) return void error.error.code;
  // @ts-expect-error not a field of rollouts
  void data.row.colour;
  // @ts-expect-error 64-bit integers are text
  void ((data.row.policy_version_min ?? '0') - 1);
}
