/** Answers about traces, tokens, lineage and messages as of a position, over a real log, projector and engine: later events change none of them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { tableFromIPC } from 'apache-arrow';
import Fastify, { type FastifyInstance } from 'fastify';
import { PackedArray } from '../../events/packed-array.ts';
import { partitionKey } from '../../events/partition-key.ts';
import { partitionOf } from '../../store/log/partitioner.ts';
import type { Draft } from '../events-for-tests.ts';
import { openTestWorld, type TestWorld } from '../log-for-tests.ts';
import { graphRoutes } from '../routes/graphs.ts';
import { lineageRoutes } from '../routes/lineage.ts';
import { listRoutes } from '../routes/lists.ts';
import { searchRoutes } from '../routes/search.ts';
import { traceRoutes } from '../routes/traces.ts';
import { parsePosition, positionText } from './log-position.ts';

let world: TestWorld;
let app: FastifyInstance;
const ids = { run: 'run-1', rollout: 'r1', trace: 't1' };
const FEED = 'f';

function node(index: number, parent: number | null, tokens: number, more: object = {}): Draft {
  const mask = Uint8Array.from({ length: tokens }, (_, at) => (at === tokens - 1 ? 1 : 0));
  const streams = { ids: PackedArray.of(Uint32Array.from(mask, (_, at) => index * 100 + at)), mask: PackedArray.of(mask), logprobs: PackedArray.of(Float32Array.of(-index)) };
  const role = index % 2 === 0 ? 'user' : 'assistant';
  return { type: 'node.appended', ...ids, data: { index, parent, role, sampled: role === 'assistant', message: { role, content: `needle number ${index}` }, tokens: streams, ...more } };
} // prettier-ignore

const reward = (score: number | null): Draft => ({ type: 'reward.assigned', ...ids, data: { scope: 'trace', name: 'correct', score } });
const teacher = (score: number): Draft => ({ type: 'reference.scored', ...ids, data: { node: 1, source: 'teacher', logprobs: PackedArray.of(Float32Array.of(score)) } }); // prettier-ignore
const annotated = (step: number): Draft => ({ type: 'trainer.annotated', ...ids, data: { leaf: 1, step, feed: FEED, streams: { entropies: PackedArray.of(Float32Array.of(step, step, step, step, step)) } } }); // prettier-ignore

/** What happens, step by step; each leaves another state of every question below. */
const STEPS: readonly (() => Promise<unknown>)[] = [
  () => world.write([{ type: 'run.started', run: 'other', data: { kind: 'eval' } }]),
  () => world.write([{ type: 'trace.started', ...ids, data: { agent: { name: 'solver' } } }, node(0, null, 2)]),
  async () => {
    await world.write([node(1, 0, 3), reward(null)]);
    await cut(1, 'a');
  },
  async () => {
    await world.write([node(2, 1, 1), node(3, 1, 4, { forkReason: 'resample' }), teacher(-0.5), annotated(1)]);
    await world.write([{ type: 'batch.committed', run: 'run-1', data: { ...batch(1), holder: 'h', step: 1 } }], 'feeds');
  },
  async () => {
    await cut(2, 'a');
    await world.write([reward(1), teacher(-0.25), annotated(2), node(4, 2, 2)]);
  },
  async () => {
    await world.write([{ type: 'batch.committed', run: 'run-1', data: { ...batch(2), holder: 'h', step: 2 } }], 'feeds');
    await world.write([{ type: 'feed.rewound', run: 'run-1', data: { feed: FEED, timeline: 1, from: 2, to: 1, mode: 'replay' } }], 'feeds');
  },
  async () => {
    await world.write([{ ...node(0, null, 1), trace: 't1', run: 'run-2' }]); // the id of the trace becomes ambiguous
    await world.write([{ type: 'error.recorded', ...ids, data: { scope: 'trace', type: 'Late', message: 'hours later' } }, { type: 'trace.ended', ...ids, data: { ok: true } }]);
  },
]; // prettier-ignore

const batch = (n: number): object => ({ feed: FEED, timeline: 0, n, batchId: `b${n}` });

/** A batch of one row, whose list of rows is stored at the place of the cut, as the projector does. */
async function cut(n: number, row: string): Promise<void> {
  const event: Draft = { type: 'batch.cut', run: 'run-1', data: { ...batch(n), algorithm: 'grpo', counts: { rows: 1 } } };
  const partition = partitionOf(partitionKey({ v: 1, id: '', time: 0, project: 'default', ...event } as never, 'feeds'), world.feeds.partitions); // prettier-ignore
  const offset = (await world.feeds.positions())[partition]?.end ?? 0;
  await world.store.command(
    'INSERT INTO batch_rows (project, feed, timeline, n, row_id, batch_id, run, rollout, trace, leaf, env, seq_len, trained, advantage, _partition, _offset) VALUES ' +
      `('default', '${FEED}', 0, ${n}, '${row}', 'b${n}', 'run-1', 'r1', 't1', 1, 'e', 5, 1, 0.5, ${0x8000 + partition}, ${offset})`,
  );
  await world.write([event], 'feeds');
}

const TOKENS = '/v1/traces/t1/tokens?leaf=1&columns=position,node,token_id,mask,logprob,teacher_logprob,entropy';
const QUESTIONS = [
  '/v1/search?q=needle',
  '/v1/traces/t1?run=run-1',
  '/v1/traces/t1?tokens=1&run=run-1&encoding=arrays',
  '/v1/traces/t1/graph?around=0&run=run-1',
  '/v1/traces/t1/graph?children=1', // in the end no single trace
  '/v1/traces/t1/graph?path=4&run=run-1',
  '/v1/traces/t1/skeleton?run=run-1',
  `${TOKENS}&run=run-1`,
  `${TOKENS}&run=run-1&format=arrow`,
  '/v1/lineage/steps/1',
  '/v1/lineage/steps/2?feed=f',
  '/v1/lineage/rows/a',
  '/v1/lineage/rows/a?n=1',
  '/v1/traces/t1/nodes/1/lineage?run=run-1',
];

before(async () => {
  world = await openTestWorld();
  app = Fastify();
  for (const routes of [searchRoutes, traceRoutes, graphRoutes, lineageRoutes, listRoutes])
    await app.register(routes, { store: world.store });
});
after(async () => {
  await app?.close();
  await world?.close();
});

type Answer = { readonly status: number; readonly body: string; readonly asOf: string | undefined };

async function ask(url: string, asOf?: string): Promise<Answer> {
  const answer = await app.inject({ url: asOf === undefined ? url : `${url}&asOf=${asOf}`.replace(/^([^?]*)&/, '$1?') });
  const header = answer.headers['x-tapedeck-as-of'];
  const isJson = String(answer.headers['content-type']).startsWith('application/json');
  const said = isJson && answer.statusCode === 200 ? (answer.json() as { asOf?: string }).asOf : undefined;
  return { status: answer.statusCode, body: isJson ? answer.body : arrowText(answer.rawPayload), asOf: said ?? (header === undefined ? undefined : String(header)) };
} // prettier-ignore

/** Metadata and rows: where the engine cuts record batches may differ from time to time. */
function arrowText(bytes: Uint8Array): string {
  const table = tableFromIPC(bytes);
  const rows = table.toArray().map((row: { toJSON(): object }) => row.toJSON());
  return JSON.stringify([[...table.schema.metadata], rows], (_, value: unknown) => (typeof value === 'bigint' ? `${value}n` : value));
}

/** The newest position, from an answer that has one at any time. */
async function positionNow(): Promise<string> {
  return (await ask('/v1/nodes?asOf=latest')).asOf as string;
}

test('every question answers the same for ever, as it did when its position was the newest', async () => {
  const taken: { readonly step: number; readonly position: string; readonly answers: ReadonlyMap<string, Answer> }[] = [];
  for (const [step, happen] of STEPS.entries()) {
    await happen();
    const position = await positionNow();
    const answers = await Promise.all(QUESTIONS.map(async (question) => [question, await ask(question)] as const));
    taken.push({ step, position, answers: new Map(answers) });
  }
  const told = new Map(QUESTIONS.map((question) => [question, new Set<string>()]));
  for (const { step, position, answers } of taken) {
    const again = async (question: string, plain: Answer): Promise<void> => {
      // the word index names positions of the events topic only, and an answer that is a refusal names none
      const asked = question.startsWith('/v1/search') ? plain.asOf : position;
      if (plain.status === 200) assert.equal(plain.asOf, asked, `${question} at step ${step} says another position`);
      assert.deepEqual(await ask(question, asked), plain, `${question} at step ${step}`);
      told.get(question)?.add(withoutPosition(plain));
    };
    await Promise.all([...answers].map(([question, plain]) => again(question, plain)));
  }
  for (const [question, answers] of told) assert.ok(answers.size > 1, `${question} never changed: the steps do not reach it`);
}); // prettier-ignore

function withoutPosition({ status, body, asOf }: Answer): string {
  return `${status} ${asOf === undefined ? body : body.replaceAll(asOf, '')}`;
}

test('summaries that have not followed yet are computed for the position', async () => {
  const before = await ask('/v1/traces/t1?run=run-1');
  await world.append([reward(0.25), node(5, 4, 1)]);
  await world.project({ summaries: false });
  const behind = await ask('/v1/traces/t1?run=run-1');
  const { summary } = JSON.parse(behind.body) as { summary: { reward: number; inputTokens: number; turns: number } };
  assert.equal(summary.reward, 0.25);
  assert.deepEqual(await ask('/v1/traces/t1?run=run-1', before.asOf), before);
  await world.project();
  assert.deepEqual(await ask('/v1/traces/t1?run=run-1', behind.asOf), behind);
});

test('a time means the state before the first later event', async () => {
  const early = await ask('/v1/traces/t1/graph?around=0&run=run-1&asOf=1970-01-01T00:00:01Z');
  assert.equal(early.status, 404);
  const now = await ask('/v1/traces/t1/graph?around=0&run=run-1&asOf=2100-01-01T00:00:00Z');
  assert.deepEqual(now, await ask('/v1/traces/t1/graph?around=0&run=run-1&asOf=latest'));
  const [first] = JSON.parse(now.body).nodes as { index: number; time: number }[]; // prettier-ignore
  const then = JSON.parse((await ask(`/v1/traces/t1/graph?around=0&run=run-1&asOf=${first?.time}`)).body) as { size: number };
  assert.equal(then.size, 1);
});

test('a position that is not stored or not indexed yet is refused for now, what is none for ever', async () => {
  const { events, feeds } = parsePosition(await positionNow()) as { events: number[]; feeds: number[] };
  const beyond = positionText({ events: events.map((next) => next + 1), feeds });
  for (const question of [...QUESTIONS, '/v1/rollouts?limit=5']) {
    const ahead = await ask(question, beyond);
    assert.equal(ahead.status, 503, question);
    assert.match(ahead.body, /"not_ready".*has not come as far as/, question);
    const wrong = await ask(question, 'yesterday');
    assert.equal(wrong.status, 400, question);
    assert.match(wrong.body, /asOf: must be a log position, latest, a time/, question);
  }
  await world.append([node(6, 5, 1)]);
  await world.project({ summaries: false }); // stored, and not in the word index
  const stored = await positionNow();
  assert.match((await ask('/v1/search?q=needle', stored)).body, /the word index has not come as far as/);
  assert.equal((await ask('/v1/search?q=needle', 'latest')).status, 200);
  await world.project();
  assert.match((await ask('/v1/search?q=needle', stored)).body, /"index":6/);
});

test('pages of a search stay at the position of the first', async () => {
  const first = JSON.parse((await ask('/v1/search?q=needle&limit=2')).body) as { asOf: string; next: string };
  await world.write([node(7, 6, 1)]);
  const url = `/v1/search?q=needle&limit=200&cursor=${first.next}`;
  const second = await ask(url);
  assert.equal(second.asOf, first.asOf);
  assert.doesNotMatch(second.body, /"index":7/);
  assert.deepEqual(await ask(url, first.asOf), second);
  assert.match((await ask(url, 'latest')).body, /"invalid_cursor".*leave asOf out/);
});
