/** Environments, evaluations and samples over a real edge; the column store is away, so what is known comes from this process alone (uploads.int.test.ts has it back). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { TapedeckError } from '../../base/errors.ts';
import type { Edge, Stored } from '../http/edge-under-test.ts';
import { episodeOf } from '../importers/export-verifiers.ts';
import { sameJson, type Json } from '../importers/json-value.ts';
import { EPISODE_040, parsed, ROWS } from '../importers/sample-records.ts';
import { foldEvaluation, startedData } from './evaluation.ts';
import { call, openPrimeEdge } from './upload-under-test.ts';

const SAMPLES = join(import.meta.dirname, '../../../shared/peers/samples');
const skip = existsSync(SAMPLES) ? false : 'the recorded requests (../shared/peers) are not here';

let edge: Edge;
before(async () => {
  edge = await openPrimeEdge();
});
afterEach(() => {
  edge.tap = () => {};
});
after(() => edge.close());

const CREATE = { name: 'toy-sum--toy', environments: [{ id: 'toy-sum' }], tags: ['a'], model_name: 'toy', dataset: 'toy-sum', framework: 'verifiers', metadata: { big: 1, rate: 0.5 } }; // prettier-ignore

async function create(body: object = CREATE): Promise<string> {
  const { status, body: said } = await call(edge.url, 'POST', '/api/v1/evaluations/', body);
  assert.equal(status, 200, JSON.stringify(said));
  return said['evaluation_id'] as string;
}

async function ofRun(run: string): Promise<Stored[]> {
  return (await edge.stored()).filter(({ event }) => event['run'] === run);
}

const dataOf = (stored: readonly Stored[], type: string): unknown[] =>
  stored.filter(({ event }) => event['type'] === type).map(({ event }) => event['data']);

test('an environment is its name', async () => {
  const ask = (path: string, body?: object) => call(edge.url, body === undefined ? 'GET' : 'POST', `/api/v1/environmentshub/${path}`, body);
  assert.deepEqual((await ask('resolve', { name: 'toy-sum' })).body, { data: { id: 'toy-sum', name: 'toy-sum' } });
  assert.deepEqual((await ask('lookup', { id: 'x' })).body, { data: { id: 'x', name: 'x' } });
  assert.deepEqual((await ask('org/env/@latest')).body, { data: { id: 'org/env', name: 'org/env' } });
  const { status, body } = await ask('resolve', { nom: 'x' });
  assert.deepEqual([status, body.error?.code], [400, 'missing_field']);
});

test('an evaluation is a run: created, changed, completed once', async () => {
  const id = await create();
  assert.match(id, /^[0-9a-f]{32}$/);
  const put = await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { metadata: { big: 2 }, metrics: { avg_reward: 0.25 } });
  assert.deepEqual(
    [put.status, put.body['status'], put.body['metadata'], put.body['metrics']],
    [200, 'RUNNING', { big: 2 }, { avg_reward: 0.25 }],
  );
  const done = await call(edge.url, 'POST', `/api/v1/evaluations/${id}/finalize`, { metrics: { avg_reward: 0.5 } });
  assert.deepEqual(
    [done.status, done.body['status'], done.body['metrics'], done.body['name']],
    [200, 'COMPLETED', { avg_reward: 0.5 }, CREATE.name],
  );
  const stored = await ofRun(id);
  assert.deepEqual(dataOf(stored, 'run.started'), [
    { kind: 'eval', name: CREATE.name, model: 'toy', config: { big: 1, rate: 0.5 }, envs: [{ id: 'toy-sum' }], tags: ['a'], extra: { source: 'prime.evaluation', evaluation: { dataset: 'toy-sum', framework: 'verifiers' } } },
    { kind: 'eval', config: { big: 2 }, extra: { source: 'prime.evaluation', evaluation: { metrics: { avg_reward: 0.25 } } } },
  ]); // prettier-ignore
  const [ended] = dataOf(stored, 'run.ended') as { ended: number }[];
  assert.deepEqual(ended, {
    status: 'completed',
    ended: ended?.ended,
    metrics: { avg_reward: 0.5 },
    extra: { source: 'prime.evaluation' },
  });
  // again: the same answer, no further event; other metrics are a correction
  const again = await call(edge.url, 'POST', `/api/v1/evaluations/${id}/finalize`, { metrics: { avg_reward: 0.5 } });
  assert.deepEqual(again.body, done.body);
  await call(edge.url, 'POST', `/api/v1/evaluations/${id}/finalize`);
  assert.equal((await ofRun(id)).length, stored.length);
  await call(edge.url, 'POST', `/api/v1/evaluations/${id}/finalize`, { metrics: { avg_reward: 1 } });
  assert.equal((await ofRun(id)).length, stored.length + 1);
  const late = await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { status: 'FAILED' });
  assert.deepEqual([late.status, late.body.error?.code], [409, 'evaluation_closed']);
});

test('a failed evaluation keeps its reason and the metrics said before', async () => {
  const id = await create();
  await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { metrics: { avg_reward: 0.125 } });
  const failed = await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { status: 'FAILED', error_message: 'ValueError: x' });
  assert.deepEqual([failed.status, failed.body['status'], failed.body['error_message'], failed.body['metrics']], [200, 'FAILED', 'ValueError: x', { avg_reward: 0.125 }]); // prettier-ignore
  const [ended] = dataOf(await ofRun(id), 'run.ended') as { status: string; metrics: object; extra: object }[];
  assert.deepEqual([ended?.status, ended?.metrics, ended?.extra], ['failed', { avg_reward: 0.125 }, { source: 'prime.evaluation', errorMessage: 'ValueError: x' }]); // prettier-ignore
  assert.equal((await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { status: 'FAILED' })).status, 200);
  assert.equal((await call(edge.url, 'POST', `/api/v1/evaluations/${id}/finalize`, {})).status, 409);
  assert.equal(dataOf(await ofRun(id), 'run.ended').length, 1);
});

test('two evaluations with the same fields are two', async () => {
  assert.notEqual(await create(), await create());
});

test('an append whose fate is unclear is done again with the same id', async () => {
  let failures = 2;
  edge.tap = () => {
    if (failures-- > 0) throw new TapedeckError('append_unclear', 'lost');
  };
  const before = (await edge.stored()).length;
  await create();
  assert.equal((await edge.stored()).length, before + 1);
});

test('bad bodies are named, and nothing is stored', async () => {
  const before = (await edge.stored()).length;
  const id = await create();
  for (const [body, code] of [
    ['{', 'invalid_json'], ['[]', 'wrong_type'], [{}, 'missing_field'], [{ name: 'x', tags: [1] }, 'invalid_value'], [{ name: 'x', metadata: 3 }, 'wrong_type'],
    [{ name: 'x', environments: ['a'] }, 'wrong_type'], [{ name: 'x', metrics: 1 }, 'wrong_type'], [{ name: 'x', model_name: 'y'.repeat(1025) }, 'invalid_value'],
    [{ name: 'x', metadata: { y: 'z'.repeat(9_000_000) } }, 'body_too_large'],
  ] as const) {
    const { status, body: said } = await call(edge.url, 'POST', '/api/v1/evaluations/', body);
    assert.deepEqual([status, said.error?.code], [400, code], JSON.stringify(said).slice(0, 300));
  } // prettier-ignore
  const put = await call(edge.url, 'PUT', `/api/v1/evaluations/${id}`, { status: 'COMPLETED' });
  assert.deepEqual([put.status, put.body.error?.code], [400, 'invalid_value']);
  for (const [body, code, message] of [
    [{}, 'missing_field', /samples must be a list/], [{ samples: {} }, 'missing_field', /samples must be a list/], ['[1]', 'wrong_type', /object/],
    [{ samples: [{ sample_id: 'a', prompt: 'x' }, 3] }, 'invalid_trace', /sample 2: a row must be an object/],
    ['{"samples":[{"prompt":"x"},{"prompt":}]}', 'invalid_trace', /sample 2: /],
    [{ samples: [{ prompt: 'x' }, { reward: 1 }] }, 'invalid_trace', /sample 2: prompt and completion are both missing/],
    [{ samples: [{ info: { native_wrapper: { id: 'x', traces: 1 } } }] }, 'invalid_trace', /sample 1: traces must be a list/],
  ] as const) {
    const { status, body: said } = await call(edge.url, 'POST', `/api/v1/evaluations/${id}/samples`, body);
    assert.deepEqual([status, said.error?.code], [400, code], JSON.stringify(said));
    assert.match(said.error?.message ?? '', message);
  } // prettier-ignore
  assert.equal((await edge.stored()).length, before + 1);
});

test('while the store is away an evaluation of another process is unknown for now: send again', async () => {
  for (const [method, path] of [['PUT', ''], ['POST', '/finalize'], ['POST', '/samples'], ['GET', '']] as const) {
    const answer = await call(edge.url, method, `/api/v1/evaluations/0123${path}`, method === 'GET' ? undefined : { samples: [] });
    assert.deepEqual([answer.status, answer.headers.get('retry-after') !== null], [503, true]);
  }
}); // prettier-ignore

test('samples with their native episode are that episode, in the run of the evaluation; what else they say is kept', async () => {
  const id = await create();
  const sample = { sample_id: 'e2', example_id: 0, rollout_number: 1, reward: 7, prompt: [], completion: [{ role: 'assistant' }], info: { seed: 7, mine: true, native_wrapper: 'EPISODE', native_trace_index: 0 } }; // prettier-ignore
  // as text, so that 600.0 stays a float
  const text = JSON.stringify({ samples: [sample] }).replace('"EPISODE"', EPISODE_040);
  const { status, body } = await call(edge.url, 'POST', `/api/v1/evaluations/${id}/samples`, text);
  assert.deepEqual([status, body], [200, { evaluation_id: id, samples_received: 1 }]);
  const mine = (await ofRun(id)).filter(({ event }) => event['rollout'] === 'e2');
  const back = await episodeOf('e2', mine.map(({ value }) => value)); // prettier-ignore
  const expected = parsed(EPISODE_040.replace('"id":"r2"', `"id":"${id}"`));
  assert.ok(sameJson(back?.episode, expected));
  assert.deepEqual(dataOf(mine, 'note.added'), [{ scope: 'rollout', label: 'sample', extra: { sample: { sample_id: 'e2', example_id: 0, rollout_number: 1, reward: 7, info: { mine: true } } } }]); // prettier-ignore
});

test('other samples are rows of verifiers v0; sent again they are the same rollouts', async () => {
  const id = await create();
  const rows = Object.entries(ROWS).filter(([name]) => !name.startsWith('hosted')).map(([, text], i) => ({ ...(JSON.parse(text) as object), ...(i > 1 && { sample_id: `s${i}`, rollout_number: i }) })); // prettier-ignore
  const twins = [rows[0], rows[0]];
  const send = () => call(edge.url, 'POST', `/api/v1/evaluations/${id}/samples`, { samples: [...rows, ...twins] });
  assert.equal((await send()).body['samples_received'], rows.length + 2);
  const stored = await ofRun(id);
  const rollouts = new Set(stored.map(({ event }) => event['rollout']).filter((rollout) => rollout !== undefined));
  // equal samples without an id are samples of their own
  assert.equal(rollouts.size, rows.length + 2);
  assert.ok(rollouts.has('s2'));
  const note = stored.find(({ event }) => event['rollout'] === 's2' && event['type'] === 'note.added');
  assert.deepEqual((note?.event['data'] as { extra: unknown } | undefined)?.extra, { sample: { sample_id: 's2', rollout_number: 2 } });
  await send();
  assert.deepEqual(new Set((await ofRun(id)).map(({ id: event }) => event)), new Set(stored.map(({ id: event }) => event)));
});

test('the fold of what was said is the state', () => {
  const said = (body: Json) => {
    const data = startedData(body as never);
    assert.ok(data.ok);
    return data.value;
  };
  assert.equal(foldEvaluation([]), null);
  const events = [
    { offset: 1, type: 'run.started', time: 5, data: said({ name: 'n', metrics: { a: 1 }, suite_id: 's' }) },
    { offset: 2, type: 'run.started', time: 6, data: said({ model_name: 'm', name: null }) },
    { offset: 3, type: 'run.ended', time: 7, data: { status: 'cancelled' } },
  ] as const;
  assert.deepEqual(foldEvaluation(events), { status: 'CANCELLED', metrics: { a: 1 }, created: 5, ended: 7, fields: { name: 'n', model_name: 'm', suite_id: 's', metrics: { a: 1 } } }); // prettier-ignore
});

test('the recorded calls of vf-eval are answered as it expects', { skip }, async () => {
  type Recorded = { m: string; p: string; b: Record<string, unknown> };
  const recorded = readFileSync(join(SAMPLES, 'vf-eval-push-requests.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line) as Recorded); // prettier-ignore
  let id = '';
  for (const { m, p, b } of recorded.filter((request) => request.p !== '/api/v1/traces')) {
    const { status, body } = await call(edge.url, m, p.replace('ev1', id), b);
    assert.equal(status, 200, JSON.stringify(body));
    if (p.endsWith('/resolve')) assert.equal((body['data'] as { id: string }).id, 'toy-sum');
    if (p.endsWith('/evaluations/')) id = body['evaluation_id'] as string;
  }
  const stored = await ofRun(id);
  const [ended] = dataOf(stored, 'run.ended') as { metrics: object }[];
  assert.deepEqual(ended?.metrics, {
    avg_reward: 0.5,
    avg_metrics: { exact: 0.5, reply_chars: 18 },
    avg_error: 0,
    prime_runs: { traces_episodes_written: 2 },
  });
  type Sent = { method: string; path: string; body?: Record<string, unknown> };
  const others = (JSON.parse(readFileSync(join(SAMPLES, 'prime-uploads.json'), 'utf8')) as { requests: Sent[] }).requests;
  const creation = others.find(({ path }) => path === '/api/v1/evaluations/') as Sent;
  const made = await call(edge.url, creation.method, creation.path, creation.body);
  const finalize = others.find(({ path }) => path.endsWith('/finalize')) as Sent;
  const done = await call(edge.url, 'POST', finalize.path.replace('ev1', made.body['evaluation_id'] as string), finalize.body);
  assert.deepEqual([done.body['status'], done.body['run_id'], done.body['metrics']], ['COMPLETED', 'r1', { avg_reward: 0.5 }]);
});
