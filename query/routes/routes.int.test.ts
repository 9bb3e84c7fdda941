/** The routes over the real schema, projections and views. */
import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import { PackedArray } from '../../events/packed-array.ts';
import { CATALOGUE } from '../../store/columns/views/catalogue.ts';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, eventWriter, prepareStore } from '../events-for-tests.ts';
import type { Draft } from '../events-for-tests.ts';
import { QUESTIONS } from '../sql/fixtures/questions.ts';
import { DEFAULT_SQL_LIMITS } from '../sql/limits.ts';
import { createSqlRunner } from '../sql/run-sql.ts';
import type { BranchTokens, TraceAnswer } from '../traces/trace-answer.ts';
import { sqlRoutes } from './sql.ts';
import { traceRoutes } from './traces.ts';

let engine: TestEngine;
let app: FastifyInstance;
let write: (drafts: readonly Draft[]) => Promise<void>;

const SECRET = 'SECRET-51c0';
const inRollout = { run: 'run-1', rollout: 'r-1' };
const inTrace = { ...inRollout, trace: 't-1' };

function tokens(ids: number[], mask: number[], logprobs: number[] | null): object {
  return {
    ids: PackedArray.of(Uint32Array.from(ids)),
    mask: PackedArray.of(Uint8Array.from(mask)),
    logprobs: logprobs === null ? null : PackedArray.of(Float32Array.from(logprobs)),
  };
}

function node(index: number, parent: number | null, role: string, content: string, more: object = {}): Draft {
  return {
    type: 'node.appended',
    ...inTrace,
    data: { index, parent, role, sampled: role === 'assistant', message: { role, content }, ...more },
  };
}

const EVENTS: readonly Draft[] = [
  { type: 'run.started', run: 'run-1', data: { kind: 'eval', name: 'first' } },
  { type: 'rollout.started', ...inRollout, group: 'g-1', data: { env: { id: 'sums' }, task: { key: 'q1' }, group: { id: 'g-1', size: 1 } } },
  { type: 'trace.started', ...inTrace, data: { agent: { name: 'solver', model: 'm-1', trainable: true } } },
  node(0, null, 'system', 'You solve sums.', { tokens: tokens([1, 2], [0, 0], null) }),
  node(1, 0, 'user', 'What is 2 + 2?', { tokens: tokens([3, 4, 5], [0, 0, 0], null) }),
  node(2, 1, 'assistant', 'Four.', { tokens: tokens([2_147_483_647, 7], [0, 1], [-0.5]), policyVersion: 3, call: 0 }),
  node(3, 1, 'assistant', 'Five.', { tokens: tokens([8, 9, 10], [0, 1, 1], [NaN, -Infinity]), policyVersion: 3, call: 1, forkReason: 'resample' }),
  node(4, 3, 'user', 'Sure?\u0000\u001b[2J'),
  { type: 'call.recorded', ...inTrace, data: { index: 0, node: 2, model: 'm-1', finishReason: 'stop', usage: { promptTokens: 5, completionTokens: 1 } } },
  { type: 'call.recorded', ...inTrace, data: { index: 1, node: 3, model: 'm-1', finishReason: 'stop', retryOf: 0 } },
  { type: 'call.recorded', ...inTrace, data: { index: 2, model: 'm-1', error: { type: 'timeout', message: 'no answer' } } },
  { type: 'tool.recorded', ...inTrace, data: { toolCallId: 'c1', node: 2, name: 'add' } },
  { type: 'link.added', ...inRollout, data: { from: { trace: 't-1', node: 2 }, to: { trace: 't-2' }, type: 'subagent_call' } },
  { type: 'reward.assigned', ...inTrace, data: { scope: 'trace', name: 'exact', score: 1, weight: 2 } },
  { type: 'reward.assigned', ...inTrace, data: { scope: 'node', node: 3, name: 'style', score: NaN, weight: 0 } },
  { type: 'reward.assigned', ...inRollout, data: { scope: 'rollout', name: 'human', score: null } },
  { type: 'error.recorded', ...inTrace, data: { scope: 'trace', type: 'ToolError', message: 'division by zero' } },
]; // prettier-ignore

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default', 'other']);
  write = eventWriter(engine.store);
  await write(EVENTS);
  await write(EVENTS.filter((event) => event.type === 'node.appended').map((event) => ({ ...event, project: 'other', run: SECRET })));
  app = Fastify();
  const limits = { ...DEFAULT_SQL_LIMITS, timeoutMs: 20_000 };
  await app.register(sqlRoutes, { run: createSqlRunner({ store: engine.store, limits, ensureProject: async () => {} }) });
  await app.register(traceRoutes, { store: engine.store });
  await app.listen({ host: '127.0.0.1', port: 0 });
});
after(async () => {
  await app?.close();
  await engine?.close();
});

const ask = async (body: object): Promise<{ status: number; text: string; type: string }> => {
  const response = await app.inject({ method: 'POST', url: '/v1/sql', payload: body });
  return { status: response.statusCode, text: response.body, type: String(response.headers['content-type']) };
};
const trace = async (query: string): Promise<{ status: number; body: unknown }> => {
  const response = await app.inject({ url: `/v1/traces/${query}` });
  return { status: response.statusCode, body: response.json() };
};

test('every question people ask, and every example of the catalogue, runs over the real views', async () => {
  const params = { run: 'run-1', most: 3 };
  for (const query of [...QUESTIONS, ...CATALOGUE.map((view) => view.example)]) {
    const { status, text } = await ask({ query, params: query.includes('{run:') ? params : {} });
    assert.equal(status, 200, `${query}\n${text}`);
    assert.doesNotMatch(text, new RegExp(SECRET));
  }
});

test('every view shows its own project only, also when all of it is read', async () => {
  const { text } = await ask({ query: 'SHOW TABLES', format: 'ndjson' });
  const names = text.trim().split('\n').map((line) => (JSON.parse(line) as { name: string }).name); // prettier-ignore
  assert.deepEqual(names, CATALOGUE.map((view) => view.name).toSorted());
  for (const name of names) {
    const answer = await ask({ query: `SELECT * FROM ${name}`, format: 'tsv' });
    assert.equal(answer.status, 200, `${name}: ${answer.text}`);
    assert.doesNotMatch(answer.text, new RegExp(SECRET), name);
  }
  const other = await ask({ query: 'SELECT DISTINCT run FROM nodes', project: 'other', format: 'tsv' });
  assert.match(other.text, new RegExp(SECRET));
});

test('formats carry their media type; errors their code, place and ClickHouse code', async () => {
  assert.match((await ask({ query: 'SELECT 1', format: 'csv' })).type, /^text\/csv/);
  assert.match((await ask({ query: 'SELECT 1', format: 'arrow' })).type, /arrow\.stream/);
  const wrong = await ask({ query: 'SELECT 1,\n foo FROM nodes' });
  assert.equal(wrong.status, 400);
  const { error } = JSON.parse(wrong.text) as {
    error: { code: string; details: { clickhouseCode: number; position: { line: number; column: number } } };
  };
  assert.deepEqual(
    [error.code, error.details.clickhouseCode, error.details.position.line, error.details.position.column],
    ['sql_error', 47, 2, 2],
  );
});

test('bad requests name the field', async () => {
  for (const [body, field] of [[{}, 'query'], [{ query: '' }, 'query'], [{ query: 'SELECT 1', format: 'xml' }, 'format'], [{ query: 'SELECT 1', other: 1 }, 'other'], [{ query: 'SELECT 1', params: [] }, 'params'], [{ query: 'SELECT 1', project: 'x'.repeat(300) }, 'project']] as const) {
    const { status, text } = await ask(body);
    assert.equal(status, 400, text);
    assert.match(text, new RegExp(`bad_request.*${field}`));
  }
  const raw = async (payload: string, type: string) => app.inject({ method: 'POST', url: '/v1/sql', payload, headers: { 'content-type': type } });
  assert.equal((await raw('{"query":', 'application/json')).json<{ error: { code: string } }>().error.code, 'bad_request');
  assert.equal((await raw('SELECT 1', 'text/sql')).statusCode, 415);
  for (const [bytes, status, says] of [[1_000_000, 400, /longer than 131072 bytes: pass long lists as params/], [1_100_000, 413, /longer than 1048576 bytes: pass long lists as params/]] as const) {
    const answer = await raw(JSON.stringify({ query: `SELECT '${'x'.repeat(bytes)}'` }), 'application/json');
    assert.equal(answer.statusCode, status, answer.body);
    assert.match(answer.json<{ error: { message: string } }>().error.message, says);
  }
}); // prettier-ignore

test('a client that goes away ends its query; a slow one gets everything', { timeout: 60_000 }, async () => {
  const url = new URL('/v1/sql', app.listeningOrigin);
  const body = JSON.stringify({ query: 'SELECT arrayJoin(range(20000000)) AS x FROM nodes', format: 'tsv' });
  await new Promise<void>((resolve, reject) => {
    const call = httpRequest(url, { method: 'POST', headers: { 'content-type': 'application/json' } }, (response) => {
      response.once('data', () => {
        response.destroy();
        resolve();
      });
    });
    call.on('error', reject);
    call.end(body);
  });
  for (let left = 100; ; left--) {
    const [row] = await engine.store.rows<{ n: string }>(
      "SELECT count() AS n FROM system.processes WHERE query LIKE '%20000000%' AND query NOT LIKE '%processes%'",
    );
    if (row?.n === '0') break;
    assert.ok(left > 0, 'the query still runs');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ query: 'SELECT arrayJoin(range(300000)) AS x', format: 'tsv' }) }); // prettier-ignore
  let lines = 0;
  for await (const chunk of response.body ?? []) {
    if (lines === 0) await new Promise((resolve) => setTimeout(resolve, 200));
    lines += Buffer.from(chunk).toString('latin1').split('\n').length - 1;
  }
  assert.equal(lines, 300_001);
});

test('an answer that breaks off is never a complete one', async () => {
  const response = await fetch(new URL('/v1/sql', app.listeningOrigin), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ query: 'SELECT throwIf(x = 900000) FROM (SELECT arrayJoin(range(1000000)) AS x) ', format: 'tsv' }),
  });
  if (response.status === 200) await assert.rejects(response.text());
  else assert.equal(((await response.json()) as { error: { code: string } }).error.code, 'sql_error');
});

test('a trace: graph, nodes, calls, links, rewards, errors', async () => {
  const { status, body } = await trace('t-1');
  assert.equal(status, 200, JSON.stringify(body));
  const answer = body as TraceAnswer;
  assert.deepEqual([answer.run, answer.rollout, answer.trace, answer.open], ['run-1', 'r-1', 't-1', true]);
  assert.deepEqual(answer.graph, {
    nodes: 5, roots: [0], orphans: [], branchCount: 2, lastLeaf: 4,
    branches: [{ leaf: 2, nodes: 3, tokens: 7, forkNode: 1, firstOwn: 2 }, { leaf: 4, nodes: 4, tokens: 8, forkNode: 1, firstOwn: 3 }],
  }); // prettier-ignore
  assert.deepEqual(answer.nodes.map((each) => [each.index, each.role, each.tokens, each.sampledTokens, each.forkReason]), [
    [0, 'system', 2, 0, null], [1, 'user', 3, 0, null], [2, 'assistant', 2, 1, null], [3, 'assistant', 3, 2, 'resample'], [4, 'user', null, null, null],
  ]); // prettier-ignore
  assert.equal(answer.nodes[4]?.text, 'Sure?\u0000\u001b[2J');
  assert.deepEqual(answer.calls.map((call) => [call.index, call.node, call.retryOf, call.errorType]), [[0, 2, null, null], [1, 3, 0, null], [2, null, null, 'timeout']]); // prettier-ignore
  assert.deepEqual(answer.tools.map((tool) => [tool.toolCallId, tool.node, tool.name]), [['c1', 2, 'add']]); // prettier-ignore
  assert.deepEqual(answer.links, [{ fromTrace: 't-1', fromNode: 2, toTrace: 't-2', toNode: null, type: 'subagent_call' }]);
  assert.deepEqual(answer.rewards.map(({ scope, node: at, name, score, weight }) => [scope, at, name, score, weight]), [
    ['node', 3, 'style', { $float: 'NaN' }, 0], ['rollout', null, 'human', null, 1], ['trace', null, 'exact', 1, 2],
  ]); // prettier-ignore
  assert.deepEqual(answer.errors.map((error) => [error.scope, error.type, error.message]), [['trace', 'ToolError', 'division by zero']]); // prettier-ignore
  assert.equal(answer.summary?.agent, 'solver');
});

test('windows and previews', async () => {
  const answer = (await trace('t-1?from=1&limit=2&chars=4')).body as TraceAnswer;
  assert.deepEqual(answer.nodes.map((each) => [each.index, each.text, each.cut]), [[1, 'What', true], [2, 'Four', true]]); // prettier-ignore
  assert.deepEqual(answer.window, { from: 1, limit: 2, next: 3 });
  assert.equal(answer.graph.nodes, 5);
  const last = (await trace('t-1?from=4&limit=2')).body as TraceAnswer;
  assert.deepEqual([last.nodes.length, last.window.next], [1, null]);
  const beyond = (await trace('t-1?from=99')).body as TraceAnswer;
  assert.deepEqual([beyond.nodes.length, beyond.window.next], [0, null]);
});

test('the tokens of a branch are the concatenation along its path', async () => {
  const arrays = (await trace('t-1?tokens=4&encoding=arrays')).body as BranchTokens;
  assert.deepEqual(arrays.path, [0, 1, 3, 4]);
  assert.deepEqual(arrays.ids, [1, 2, 3, 4, 5, 8, 9, 10]);
  assert.deepEqual(arrays.mask, [0, 0, 0, 0, 0, 0, 1, 1]);
  assert.deepEqual(arrays.logprobs, [{ $float: 'NaN' }, { $float: '-Infinity' }]);
  assert.deepEqual(arrays.segments.map((segment) => [segment.node, segment.tokens, segment.sampledTokens, segment.logprobs]), [[0, 2, 0, 0], [1, 3, 0, 0], [3, 3, 2, 2], [4, 0, 0, 0]]); // prettier-ignore
  const base64 = (await trace('t-1?tokens=2')).body as BranchTokens;
  assert.deepEqual([...new PackedArray('u32', Buffer.from(base64.ids as string, 'base64')).typed()], [1, 2, 3, 4, 5, 2_147_483_647, 7]);
  assert.deepEqual([...new PackedArray('f32', Buffer.from(base64.logprobs as string, 'base64')).typed()], [-0.5]);
  const missing = await trace('t-1?tokens=9');
  assert.equal(missing.status, 404);
  assert.match(JSON.stringify(missing.body), /2, 4/);
});

test('what is not there, or not one thing, is said', async () => {
  assert.equal((await trace('nope')).status, 404);
  assert.equal((await trace('t-1?project=nobody')).status, 404);
  assert.equal((await trace('t-1?limit=0')).status, 400);
  assert.equal((await trace('t-1?what=1')).status, 400);
  await write([{ type: 'node.appended', run: 'run-2', rollout: 'r-9', trace: 't-1', data: { index: 0, role: 'user', sampled: false } }]);
  const two = await trace('t-1');
  assert.equal(two.status, 400);
  assert.match(JSON.stringify(two.body), /name the run/);
  assert.equal(((await trace('t-1?run=run-2')).body as TraceAnswer).graph.nodes, 1);
});

test('a trace of 20,000 nodes opens by window, and one of its long branches reads whole', { timeout: 60_000 }, async () => {
  const big = { run: 'run-1', rollout: 'r-big', trace: 't-big' };
  const nodes = Array.from({ length: 20_000 }, (_, index) => ({
    type: 'node.appended',
    ...big,
    data: { index, parent: index === 0 ? null : index % 3 === 2 && index > 2 ? index - 3 : index - 1, role: 'user', sampled: false, tokens: tokens([index], [0], null) },
  }));
  await write(nodes);
  const answer = (await trace('t-big?from=10000&limit=10')).body as TraceAnswer;
  assert.deepEqual([answer.graph.nodes, answer.nodes.length, answer.window.next], [20_000, 10, 10_010]);
  assert.deepEqual(answer.cut, ['branches']);
  const branch = (await trace(`t-big?tokens=${answer.graph.lastLeaf ?? 0}`)).body as BranchTokens;
  assert.deepEqual([...new PackedArray('u32', Buffer.from(branch.ids as string, 'base64')).typed()], branch.path);
  assert.ok(branch.path.length > 5_000);
}); // prettier-ignore

test('a trace that has ended is not open, though nobody knew the time', async () => {
  const untimed = { run: 'run-9', rollout: 'r-9', trace: 't-9', time: 0 };
  await write([{ type: 'trace.started', ...untimed, data: { agent: { name: 'solver' } } }]);
  assert.equal(((await trace('t-9')).body as TraceAnswer).open, true);
  await write([{ type: 'trace.ended', ...untimed, data: { ok: true } }]);
  const { open, summary } = (await trace('t-9')).body as TraceAnswer;
  assert.deepEqual([open, summary?.ok, summary?.started, summary?.ended], [false, true, null, null]);
});
