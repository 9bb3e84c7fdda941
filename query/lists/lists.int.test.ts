/** Lists over a real log, projector and engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Fastify, { type FastifyInstance } from 'fastify';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import type { Draft } from '../events-for-tests.ts';
import { listRoutes } from '../routes/lists.ts';
import { findField, operatorsOf } from './filter.ts';
import type { ListAnswer } from './read-list.ts';
import { RESOURCES } from './resources.ts';

let world: TestWorld;
let app: FastifyInstance;

const ODD = 'a/b?c=d&e%20"\'\\ \u0000\n\u202e💥';

function rollout(run: string, id: string, over: { env?: string; step?: number; reward?: number | null; named?: Record<string, number | null>; ok?: boolean; key?: string } = {}): Draft[] {
  const ids = { run, rollout: id, trace: `${id}-t` };
  const { env = 'sums', key = `task-${id}`, reward, named = {} } = over;
  return [
    { type: 'rollout.started', run, rollout: id, data: { env: { id: env }, task: { key, hash: 'a'.repeat(64) }, group: { id: `g-${env}`, size: 2 }, work: { type: 'train', step: over.step ?? 0 } } },
    { type: 'trace.started', ...ids, data: { agent: { name: 'solver', model: 'm-1', trainable: true } } },
    { type: 'node.appended', ...ids, data: { index: 0, parent: null, role: 'user', sampled: false, message: { role: 'user', content: `question of ${id}` } } },
    { type: 'call.recorded', ...ids, data: { index: 0, model: 'm-1', finishReason: 'stop', usage: { promptTokens: 3, completionTokens: 2 } } },
    ...(reward === undefined ? [] : [{ type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'exact', score: reward } }]),
    ...Object.entries(named).map(([name, score]): Draft => ({ type: 'reward.assigned', ...ids, data: { scope: 'trace', name, score, weight: 0 } })),
    { type: 'rollout.ended', run, rollout: id, data: { ok: over.ok ?? true } },
  ];
} // prettier-ignore

before(async () => {
  world = await openTestWorld();
  app = Fastify({ routerOptions: { maxParamLength: 4096 } });
  await app.register(listRoutes, { store: world.store });
  await world.append([
    { type: 'run.started', run: 'run-1', data: { kind: 'train', name: 'first', tags: ['a', 'b'] } },
    ...rollout('run-1', 'r1', { reward: 1, step: 1, named: { style: 0.25 } }),
    ...rollout('run-1', 'r2', { reward: 0, step: 2, named: { style: null } }),
    ...rollout('run-1', 'r3', { reward: NaN, env: 'words', named: { style: NaN } }),
    ...rollout('run-1', 'r4', { reward: -Infinity, env: 'words', ok: false }),
    ...rollout('run-1', 'r5', { reward: null }),
    ...rollout('run-1', 'r6', { env: ODD }),
    ...rollout('run-2', 'r1', { reward: 0.5 }),
    ...rollout(ODD, ODD, { reward: 0.125, named: { 'env': 2, "x' OR 1=1 --": 3 } }),
    { type: 'note.added', run: 'run-1', rollout: 'r1', data: { scope: 'rollout', label: 'good', text: 'nice', author: 'me' } },
    { type: 'error.recorded', run: 'run-1', rollout: 'r4', data: { scope: 'rollout', type: 'ToolError', message: 'boom' } },
    { type: 'tool.recorded', run: 'run-1', rollout: 'r1', trace: 'r1-t', data: { toolCallId: 'c/1', node: 0, name: 'add' } },
    { type: 'metric.recorded', run: 'run-1', rollout: 'r1', trace: 'r1-t', data: { scope: 'trace', name: 'speed', value: 9.5 } },
    { type: 'policy.published', run: 'run-1', data: { version: 1, step: 1 } },
    { type: 'trainer.stepped', run: 'run-1', data: { step: 1, metrics: { loss: 0.5, kl: NaN } } },
  ]); // prettier-ignore
  await world.project();
});
after(async () => {
  await app?.close();
  await world?.close();
});

async function get(path: string, query: Record<string, string> = {}, status = 200): Promise<ListAnswer & { error?: { code: string; message: string; details?: unknown }; row?: Record<string, unknown> }> {
  const answer = await app.inject({ method: 'GET', url: `${path}?${new URLSearchParams(query).toString()}` });
  assert.equal(answer.statusCode, status, answer.body);
  return answer.json();
} // prettier-ignore

const ids = (answer: ListAnswer): unknown[] => answer.rows.map((row) => row['rollout']);

test('every resource lists, counts exactly, and has the fields it declares', async () => {
  for (const resource of RESOURCES) {
    const answer = await get(`/v1/${resource.name}`, { fields: '*,' + resource.fields.map((f) => f.name).join(',') });
    if (!resource.name.startsWith('batch')) assert.ok(answer.rows.length > 0, resource.name);
    assert.deepEqual(answer.count, { value: String(answer.rows.length), exact: true });
    for (const row of answer.rows) assert.deepEqual(new Set(Object.keys(row)), new Set(resource.fields.map((f) => f.name)), resource.name);
  }
});

test('rewards sort with null last and NaN before it, both ways', async () => {
  const run = { run: 'run-1', fields: 'rollout,reward' };
  assert.deepEqual(ids(await get('/v1/rollouts', { ...run, sort: 'reward' })), ['r4', 'r2', 'r1', 'r3', 'r5', 'r6']);
  assert.deepEqual(ids(await get('/v1/rollouts', { ...run, sort: '-reward' })), ['r1', 'r2', 'r4', 'r3', 'r5', 'r6']);
  assert.deepEqual(ids(await get('/v1/rollouts', { ...run, sort: 'reward,-rollout' })), ['r4', 'r2', 'r1', 'r3', 'r6', 'r5']);
});

test('filters', async () => {
  const cases: [Record<string, string>, string[]][] = [
    [{ 'reward[gt]': '0' }, ['r1']],
    [{ 'reward[ge]': '0' }, ['r1', 'r2']],
    [{ 'reward[null]': 'true' }, ['r5', 'r6']],
    [{ reward: 'NaN' }, ['r3']],
    [{ 'reward[nan]': 'true' }, ['r3']],
    [{ 'reward[ne]': '0' }, ['r1', 'r3', 'r4', 'r5', 'r6']],
    [{ reward: '-Infinity' }, ['r4']],
    [{ env: ODD }, ['r6']],
    [{ 'env[in]': 'words' }, ['r3', 'r4']],
    [{ 'env[contains]': 'ord' }, ['r3', 'r4']],
    [{ 'env[icontains]': 'ORD' }, ['r3', 'r4']],
    [{ ok: 'false' }, ['r4']],
    [{ 'step[in]': '2' }, ['r2']],
    [{ 'reward.style': '0.25' }, ['r1']],
    [{ 'reward.style[nan]': 'true' }, ['r3']],
    [{ 'reward.style[null]': 'true' }, ['r2', 'r4', 'r5', 'r6']],
    [{ 'metric.speed[gt]': '9' }, ['r1']],
    [{ model: 'm-1', 'rollout[lt]': 'r3' }, ['r1', 'r2']],
    [{ filter: '{"or":[{"reward":1},{"env":{"starts":"wo"}}]}' }, ['r1', 'r3', 'r4']],
    [{ filter: '{"not":{"reward":{"gt":0}}}' }, ['r2', 'r3', 'r4', 'r5', 'r6']],
    [{ filter: '{"reward":null}' }, ['r5', 'r6']],
    [{ filter: '{"reward":{"$float":"NaN"}}' }, ['r3']],
    [{ filter: '{"or":[]}' }, []],
    [{ 'advantage[null]': 'true', rollout: 'r1' }, ['r1']],
    [{ agent: 'solver', task_key: 'task-r2' }, ['r2']],
    [{ task_hash: 'a'.repeat(64), group: 'g-words' }, ['r3', 'r4']],
    [{ error_type: 'ToolError' }, ['r4']],
    [{ 'duration[ge]': '0', 'started[lt]': '2024-01-01T00:00:00Z', 'turns[lt]': '1', 'branches[ge]': '1', rollout: 'r1' }, ['r1']],
    [{ 'output_tokens[ge]': '2', 'input_tokens[le]': '3', 'cost[null]': 'true', 'truncated[ne]': 'true', rollout: 'r1' }, ['r1']],
    [{ 'policy_version_min[null]': 'true', 'policy_version_max[null]': 'true', 'stop_condition[null]': 'true', rollout: 'r1' }, ['r1']],
  ];
  for (const [query, expected] of cases)
    assert.deepEqual(ids(await get('/v1/rollouts', { run: 'run-1', ...query })), expected, JSON.stringify(query));
});

test('what dashboards filter by is a field that has filters', () => {
  const rollouts = RESOURCES.find(({ name }) => name === 'rollouts') as (typeof RESOURCES)[number];
  const names =
    'run env agent group step policy_version_min policy_version_max reward advantage ok error_type stop_condition truncated turns branches input_tokens output_tokens duration cost model task_key task_hash started';
  for (const name of names.split(' ')) assert.ok(operatorsOf(findField(rollouts, name)).includes('eq'), name);
});

test('a reward named like a column is not that column', async () => {
  assert.deepEqual(ids(await get('/v1/rollouts', { 'reward.env': '2' })), [ODD]);
  const answer = await get('/v1/rollouts', { "reward.x' OR 1=1 --": '3', fields: "rollout,reward.env,reward.x' OR 1=1 --" });
  assert.deepEqual(answer.rows, [{ rollout: ODD, 'reward.env': 2, "reward.x' OR 1=1 --": 3 }]);
});

test('values that JSON lacks survive', async () => {
  const { rows } = await get('/v1/rollouts', { run: 'run-1', fields: 'rollout,reward,step' });
  assert.deepEqual(rows.slice(0, 5), [
    { rollout: 'r1', reward: 1, step: '1' },
    { rollout: 'r2', reward: 0, step: '2' },
    { rollout: 'r3', reward: { $float: 'NaN' }, step: '0' },
    { rollout: 'r4', reward: { $float: '-Infinity' }, step: '0' },
    { rollout: 'r5', reward: null, step: '0' },
  ]);
  const steps = await get('/v1/steps', { fields: 'step,metric.loss,metric.kl,metric.none', 'metric.kl[nan]': 'true' });
  assert.deepEqual(steps.rows, [{ step: '1', 'metric.loss': 0.5, 'metric.kl': { $float: 'NaN' }, 'metric.none': null }]);
});

test('rows are fetched by id, odd characters and all', async () => {
  const path = encodeURIComponent(ODD);
  assert.equal((await get(`/v1/rollouts/${path}`)).row?.['env'], 'sums');
  assert.equal((await get('/v1/rollouts/r2')).row?.['reward'], 0);
  assert.equal((await get('/v1/rollouts/r1', { run: 'run-2' })).row?.['reward'], 0.5);
  const ambiguous = await get('/v1/rollouts/r1', {}, 400);
  assert.deepEqual(ambiguous.error?.details, { rows: [{ run: 'run-1', rollout: 'r1' }, { run: 'run-2', rollout: 'r1' }] }); // prettier-ignore
  assert.equal((await get('/v1/rollouts/none', {}, 404)).error?.code, 'not_found');
  assert.equal((await get(`/v1/traces/${path}-t/nodes/0`)).row?.['text'], `question of ${ODD}`);
  assert.equal((await get(`/v1/traces/r1-t/tools/${encodeURIComponent('c/1')}`, { run: 'run-1' })).row?.['name'], 'add');
  assert.equal((await get('/v1/runs/run-1')).row?.['name'], 'first');
  const note = (await get('/v1/notes', { label: 'good' })).rows[0];
  assert.equal((await get(`/v1/notes/${String(note?.['id'])}`)).row?.['text'], 'nice');
});

test('what is wrong is said with its remedy', async () => {
  const cases: [string, Record<string, string>, string, RegExp][] = [
    ['rollouts', { nothing: '1' }, 'invalid_filter', /no such field/],
    ['rollouts', { 'reward[contains]': '1' }, 'invalid_filter', /does not know contains/],
    ['rollouts', { 'reward[gt]': 'NaN' }, 'invalid_filter', /nothing is gt NaN/],
    ['rollouts', { reward: 'x' }, 'invalid_filter', /must be a number/],
    ['rollouts', { step: '99999999999999999999' }, 'invalid_filter', /beyond 64 bits/],
    ['rollouts', { filter: '{' }, 'invalid_filter', /no JSON/],
    ['rollouts', { filter: '{"reward":{"gte":1}}' }, 'invalid_filter', /knows no operator/],
    ['rollouts', { sort: 'tags' }, 'invalid_filter', /no such field/],
    ['runs', { sort: 'tags' }, 'bad_request', /has no order/],
    ['rollouts', { limit: '0' }, 'bad_request', /limit/],
    ['rollouts', { cursor: 'abc' }, 'invalid_cursor', /no cursor/],
    ['rollouts', { asOf: 'yesterday' }, 'bad_request', /asOf/],
    ['rollouts', { asOf: '2026-13-45T00:00:00Z' }, 'bad_request', /asOf/],
    ['rollouts', { 'started[gt]': '2026-13-45T00:00:00Z' }, 'invalid_filter', /a time that exists/],
    ['rollouts', { 'started[gt]': '2026-02-30T00:00:00Z' }, 'invalid_filter', /a time that exists/],
    ['nodes', { histograms: 'text' }, 'bad_request', /no histogram/],
  ];
  for (const [name, query, code, message] of cases) {
    const { error } = await get(`/v1/${name}`, query, 400);
    assert.equal(error?.code, code, JSON.stringify(query));
    assert.match(error?.message ?? '', message);
  }
});

test('a cursor is refused by another query, and says why', async () => {
  const page = await get('/v1/rollouts', { run: 'run-1', limit: '2' });
  const cursor = page.next as string;
  const cases: [string, Record<string, string>, RegExp][] = [
    ['traces', { run: 'run-1' }, /a cursor of rollouts, not of traces/],
    ['rollouts', { run: 'run-2' }, /another filter/],
    ['rollouts', { run: 'run-1', sort: 'reward' }, /another sort/],
    ['rollouts', { run: 'run-1', project: 'x' }, /another project/],
    ['rollouts', { run: 'run-1', asOf: '1~' }, /leave asOf out/],
  ];
  for (const [name, query, message] of cases) assert.match((await get(`/v1/${name}`, { ...query, cursor }, 400)).error?.message ?? '', message); // prettier-ignore
  assert.deepEqual(ids(await get('/v1/rollouts', { filter: '{"run":"run-1"}', limit: '2', cursor })), ['r3', 'r4']);
});

test('a cursor that somebody wrote by hand is none, or asks for a place that is not there', async () => {
  const query = { run: 'run-1', sort: 'step,reward', limit: '2' };
  type Parts = { p: string; k: [number, string][] };
  const { next } = await get('/v1/rollouts', query);
  const forged = async (change: (parts: Parts) => void, status: number): Promise<unknown> => {
    const parts = JSON.parse(Buffer.from(next as string, 'base64url').toString()) as Parts;
    change(parts);
    const { error } = await get('/v1/rollouts', { ...query, cursor: Buffer.from(JSON.stringify(parts)).toString('base64url') }, status);
    return error?.code;
  };
  await forged(() => {}, 200);
  for (const key of [[0, 'abc'], [0, ''], [0, '1e3'], [0, '99999999999999999999'], [3, '1'], [0, 1], [0]]) {
    assert.equal(await forged(({ k }) => (k[0] = key as [number, string]), 400), 'invalid_cursor', `step ${JSON.stringify(key)}`);
    assert.equal(await forged(({ k }) => (k[1] = key as [number, string]), 400), 'invalid_cursor', `reward ${JSON.stringify(key)}`);
  }
  assert.equal(await forged(({ k }) => (k[1] = [0, '-1']), 400), 'invalid_cursor', 'the bits of a double');
  assert.equal(await forged(({ k }) => (k[3] = [2, 'r1']), 400), 'invalid_cursor', 'an id that is null');
  for (const cut of [0, 1, 3]) assert.equal(await forged(({ k }) => k.splice(cut), 400), 'invalid_cursor', `${cut} keys`);
  for (const p of ['', '1', '-1~', '9'.repeat(30)]) assert.equal(await forged((parts) => (parts.p = p), 400), 'invalid_cursor', p);
  await forged((parts) => (parts.p = '~'), 200);
}); // prettier-ignore

test('markers jump to their rank, histograms count every row once', async () => {
  const query = { run: 'run-1', sort: '-reward', limit: '2', markers: '3', histograms: 'reward,env,step,ok' };
  const { markers, histograms } = await get('/v1/rollouts', query);
  assert.deepEqual({ total: markers?.total, step: markers?.step }, { total: '6', step: '2' });
  const order = ['r1', 'r2', 'r4', 'r3', 'r5', 'r6'];
  assert.equal(markers?.cursors.length, 2, 'ranks 2 and 4');
  for (const [at, cursor] of (markers?.cursors ?? []).entries()) {
    const { next: _, ...page } = await get('/v1/rollouts', { run: 'run-1', sort: '-reward', limit: '2', cursor });
    assert.deepEqual(ids(page as ListAnswer), order.slice((at + 1) * 2, (at + 2) * 2));
  }
  const bins = Array.from({ length: 32 }, (_, at) => (at === 0 || at === 31 ? '1' : '0'));
  assert.deepEqual(histograms, {
    reward: { kind: 'numbers', nulls: '2', nan: '1', infinity: '0', minusInfinity: '1', min: 0, max: 1, bins },
    env: { kind: 'values', nulls: '0', distinct: '3', values: [{ value: 'sums', count: '3' }, { value: 'words', count: '2' }, { value: ODD, count: '1' }], others: '0' },
    step: { kind: 'numbers', nulls: '0', nan: '0', infinity: '0', minusInfinity: '0', min: '0', max: '2', bins: ['4', '1', '1'] },
    ok: { kind: 'values', nulls: '0', distinct: '2', values: [{ value: true, count: '5' }, { value: false, count: '1' }], others: '0' },
  }); // prettier-ignore
});
