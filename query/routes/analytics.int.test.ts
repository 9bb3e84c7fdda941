/** The analytics routes over the real schema and engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import type { CompareAnswer } from '../analytics/compare-answer.ts';
import type { EstimatesAnswer } from '../analytics/estimates.ts';
import { rolloutEvents, testLog, type RolloutDraft, type TestLog } from '../analytics/log-for-tests.ts';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { analyticsRoutes } from './analytics.ts';

let engine: TestEngine;
let app: FastifyInstance;
let log: TestLog;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default', 'other']);
  log = testLog(engine.store);
  app = Fastify();
  await app.register(analyticsRoutes, { store: engine.store });
});
after(async () => {
  await app?.close();
  await engine?.close();
});

async function ask<T>(path: string): Promise<{ status: number; body: T; error: { code: string; message: string } }> {
  const response = await app.inject({ url: `/v1/analytics/${path}` });
  const body = response.json<T & { error: { code: string; message: string } }>();
  return { status: response.statusCode, body, error: body.error };
}

async function good<T>(path: string): Promise<T> {
  const { status, body } = await ask<T>(path);
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

/** Rollouts of one run: for each task its scores. */
async function writeRun(run: string, tasks: Readonly<Record<string, readonly (number | null | undefined)[]>>, more: Partial<RolloutDraft> = {}): Promise<string> {
  const drafts = Object.entries(tasks).flatMap(([task, scores]) =>
    scores.flatMap((score, place) => rolloutEvents({ run, rollout: `${run}-${task}-${place}`, task, group: `${run}-${task}`, size: scores.length, ...(score === undefined ? {} : { score }), ...more })),
  );
  return log.append([{ type: 'run.started', run, data: { kind: 'eval', model: 'm-1' } }, ...drafts]);
} // prettier-ignore

test('pass@k and pass^k of a run, by hand', async () => {
  await writeRun('hand', { a: [1, 0, 1, 0], b: [1, 1, 1, 1], c: [0, 0, 0, 0], d: [1, 0] });
  const answer = await good<EstimatesAnswer>('pass-at-k?run=hand&k=1,2,4');
  const { passAtK, passHatK, avg } = answer.estimates;
  assert.deepEqual(passAtK.map((each) => [each.measure, each.estimate, each.tasks, each.leftOut.tasks]), [
    ['pass@1', (0.5 + 1 + 0 + 0.5) / 4, 4, 0],
    ['pass@2', (1 - 1 / 6 + 1 + 0 + 1) / 4, 4, 0],
    ['pass@4', (1 + 1 + 0) / 3, 3, 1],
  ]); // prettier-ignore
  assert.deepEqual(passHatK.map((each) => each.estimate), [0.5, (1 / 6 + 1 + 0 + 0) / 4, 1 / 3]); // prettier-ignore
  assert.equal(avg.estimate, 0.5);
  assert.deepEqual(answer.solved, { none: 1, some: 2, all: 1, unjudged: 0 });
  assert.equal(passAtK[0]?.interval.method, 't over tasks');
  assert.equal(passAtK[2]?.interval.method, 'Wilson over tasks');
  assert.equal(answer.counts.scored, 14);
  assert.equal(answer.model, 'm-1');
});

test('the same position gives the same answer after more events', async () => {
  const position = await writeRun('moving', { a: [1, 0], b: [1, 1] });
  const first = await good<EstimatesAnswer>('pass-at-k?run=moving');
  assert.equal(first.asOf.position, position);
  await log.append([{ type: 'reward.assigned', run: 'moving', rollout: 'moving-a-1', trace: 't-moving-moving-a-1', data: { scope: 'trace', name: 'correct', score: 1, weight: 1 } }]);
  const now = await good<EstimatesAnswer>('pass-at-k?run=moving');
  assert.equal(now.estimates.passAtK[0]?.estimate, 1);
  assert.deepEqual(await good(`pass-at-k?run=moving&asOf=${position}`), first);
  assert.equal((await ask(`pass-at-k?run=moving&asOf=0:99999`)).error.code, 'not_ready');
  assert.equal((await ask(`pass-at-k?run=moving&asOf=empty`)).status, 404);
  assert.equal((await ask(`pass-at-k?run=moving&asOf=yesterday`)).status, 400);
}); // prettier-ignore

test('two policy versions on the same tasks with one request', async () => {
  const tasks = Array.from({ length: 12 }, (_, task) => `t${task}`);
  const of = (version: number, solved: (task: number) => number): Promise<string> =>
    log.append(tasks.flatMap((task, place) => [0, 1, 2, 3].flatMap((n) => rolloutEvents({ run: 'train', rollout: `v${version}-${task}-${n}`, task, score: n < solved(place) ? 1 : 0, version }))));
  await of(3, (task) => task % 3);
  await of(7, (task) => Math.min(4, (task % 3) + 1 + (task % 2)));
  const answer = await good<CompareAnswer>('compare?base=train&baseVersion=3&otherVersion=7');
  const [comparison] = answer.comparisons;
  const pass1 = comparison?.measures.find(({ measure }) => measure === 'pass@1');
  assert.equal(comparison?.commonTasks, 12);
  assert.equal(pass1?.base.estimate, 0.25);
  assert.equal(pass1?.other.estimate, (12 * 1 + 12 + 6) / 12 / 4);
  assert.equal(pass1?.verdict, 'better');
  assert.deepEqual([pass1?.won, pass1?.lost, pass1?.tied], [12, 0, 0]);
  assert.equal(answer.base.selection.policyVersion, 3);
}); // prettier-ignore
