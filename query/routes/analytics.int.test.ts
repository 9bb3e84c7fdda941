/** The analytics routes over the real schema and engine. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import type { Breakdown } from '../analytics/breakdown/breakdown.ts';
import type { CheckpointsAnswer } from '../analytics/checkpoints.ts';
import type { CompareAnswer } from '../analytics/compare-answer.ts';
import type { EstimatesAnswer } from '../analytics/estimates.ts';
import type { Draft } from '../../store/columns/projections/test-world.ts';
import { rolloutEvents, testLog, type RolloutDraft, type TestLog } from '../analytics/log-for-tests.ts';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { analyticsRoutes } from './analytics.ts';
import { compareAnswer, estimatesAnswer, tasksAnswer } from './answers/analytics-answers.ts';
import { breakdownAnswer, checkpointsAnswer, diffAnswer, judgesAnswer, runCurvesAnswer } from './answers/analytics-run-answers.ts';

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
  assert.equal((await ask(`pass-at-k?run=moving&asOf=99999~`)).error.code, 'not_ready');
  assert.equal((await ask(`pass-at-k?run=moving&asOf=~`)).status, 404);
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

test('failed, missing and NaN rollouts are never silent, and both policies are answered', async () => {
  await log.append([
    { type: 'run.started', run: 'gaps', data: { kind: 'eval' } },
    ...rolloutEvents({ run: 'gaps', rollout: 'g1', task: 'a', group: 'ga', size: 4, score: 1 }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g2', task: 'a', group: 'ga', size: 4, ok: false }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g3', task: 'a', group: 'ga', size: 4, score: NaN }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g4', task: 'b', score: null }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g5', task: 'b', score: 1 }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g6', task: 'b', running: true }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g7', task: 'b', cancelled: 'superseded' }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g8', task: 'b', cancelled: 'stale' }),
    ...rolloutEvents({ run: 'gaps', rollout: 'g9', task: 'c', ok: false, score: 0 }),
  ]);
  const answer = await good<EstimatesAnswer>('pass-at-k?run=gaps&k=1');
  assert.deepEqual(answer.counts, { rollouts: 9, tasks: 3, scored: 3, nan: 1, failed: 2, unscored: 1, running: 1, superseded: 1, missing: 1, scoredThoughFailed: 1 });
  assert.equal(answer.estimates.passAtK[0]?.estimate, 2 / 3);
  assert.equal(answer.otherPolicy.missing, 'zero');
  assert.equal(answer.otherPolicy.estimates.passAtK[0]?.estimate, 7 / 36);
  assert.deepEqual(answer.warnings.map(({ code }) => code).toSorted(), ['few_tasks', 'left_out', 'nan_scores', 'running', 'scored_though_failed']);
  const two = await good<EstimatesAnswer>('pass-at-k?run=gaps&k=2&missing=zero');
  assert.deepEqual([two.estimates.passAtK[0]?.tasks, two.estimates.passAtK[0]?.leftOut], [2, { tasks: 1, becauseOfMissing: 0 }]);
  const strict = await ask('pass-at-k?run=gaps&k=2');
  assert.equal(strict.status, 400);
  assert.match(strict.error.message, /no task has more than 1 rollouts with a score. Ask for k <= 1/);
}); // prettier-ignore

test('tasks left out are flagged when rollouts are missing because they failed', async () => {
  await writeRun('flagged', { a: [1, 0], b: [1] });
  await log.append([
    ...rolloutEvents({ run: 'flagged', rollout: 'f1', task: 'c', score: 1 }),
    ...rolloutEvents({ run: 'flagged', rollout: 'f2', task: 'c', ok: false }),
  ]);
  const { estimates } = await good<EstimatesAnswer>('pass-at-k?run=flagged&k=2');
  assert.deepEqual(estimates.passAtK[0]?.leftOut, { tasks: 2, becauseOfMissing: 1 });
});

test('a failed attempt that was run again is not a second failure', async () => {
  await log.append([
    ...rolloutEvents({ run: 'retried', rollout: 'x1', task: 'a', group: 'gr', size: 2, ok: false }),
    ...rolloutEvents({ run: 'retried', rollout: 'x2', task: 'a', group: 'gr', size: 2, score: 1 }),
    ...rolloutEvents({ run: 'retried', rollout: 'x3', task: 'a', group: 'gr', size: 2, score: 1 }),
  ]);
  const answer = await good<EstimatesAnswer>('pass-at-k?run=retried&k=1&missing=zero');
  assert.equal(answer.estimates.passAtK[0]?.estimate, 1);
});

test('rollouts of a group that began under another version are not missing, and running ones are no zeros', async () => {
  const of = (version: number, n: number, more: Partial<RolloutDraft>): Draft[] =>
    rolloutEvents({ run: 'split', rollout: `s${version}-${n}`, task: 'a', group: 'gs', size: 5, version, ...more });
  await log.append([...of(1, 0, { score: 1 }), ...of(1, 1, { score: 0 }), ...of(2, 0, { score: 1 }), ...of(2, 1, { running: true })]);
  const whole = await good<EstimatesAnswer>('pass-at-k?run=split&missing=zero&k=1');
  assert.deepEqual([whole.counts.missing, whole.estimates.passAtK[0]?.estimate], [1, 2 / 4]);
  for (const [version, estimate] of [[1, 1 - 2 / 3], [2, 1 / 2]] as const) {
    const answer = await good<EstimatesAnswer>(`pass-at-k?run=split&missing=zero&k=1&policyVersion=${version}`);
    assert.deepEqual([answer.counts.missing, answer.estimates.passAtK[0]?.estimate], [1, estimate]);
    const { checkpoints } = await good<CheckpointsAnswer>('checkpoints?run=split&missing=zero&measure=pass@k&k=1');
    const rated = checkpoints.find(({ policyVersion }) => policyVersion === version);
    assert.deepEqual([rated?.counts, rated?.estimate.estimate], [answer.counts, estimate]);
  }
}); // prettier-ignore

test('scores that are infinite are in no mean, and a chooser that is NaN or not there chooses nothing', async () => {
  await writeRun('endless', { a: [1, 0, Infinity], b: [0, 0, -Infinity], c: [NaN, 1] });
  const endless = await good<EstimatesAnswer>('pass-at-k?run=endless');
  assert.deepEqual([endless.counts.nan, endless.counts.scored, endless.estimates.avg.estimate], [3, 5, 0.5]);
  assert.deepEqual(endless.estimates.bestAtK.map(({ measure, estimate }) => [measure, estimate]), [['best@1', 0.5], ['best@2', 0.5]]);
  const { score, rewards } = await good<Breakdown>('breakdown?run=endless');
  assert.deepEqual([score.n, score.max, rewards[0]?.nan, rewards[0]?.contribution], [5, 1, 3, 0.4]);
  const of = (n: number, score: number, chooser: number | null | undefined): Draft[] =>
    rolloutEvents({ run: 'choosing', rollout: `c${n}`, task: 'a', group: 'gc', size: 5, score, ...(chooser === undefined ? {} : { rewards: { judge: chooser } }) });
  await log.append([...of(0, 100, NaN), ...of(1, 100, null), ...of(2, 100, undefined), ...of(3, 0, 0.9), ...of(4, 1, 0.1)]);
  const best = async (more: string): Promise<unknown[]> => {
    const { estimates } = await good<EstimatesAnswer>(`pass-at-k?run=choosing&chooseBy=judge&${more}`);
    return estimates.bestAtK.map(({ k, estimate }) => [k, estimate]);
  };
  assert.deepEqual(await best('k=1,2,3'), [[1, 0.5], [2, 0], [3, null]]);
}); // prettier-ignore

test('all rewards null, a run without rollouts, one task, an unknown run: the right answer or the remedy', async () => {
  await writeRun('nulls', { a: [null, null], b: [null] });
  const nulls = await good<EstimatesAnswer>('pass-at-k?run=nulls');
  assert.deepEqual([nulls.estimates.avg.estimate, nulls.estimates.passAtK, nulls.solved.unjudged], [null, [], 2]);
  assert.deepEqual(nulls.warnings.map(({ code }) => code), ['no_scores']); // prettier-ignore
  assert.equal((await good<EstimatesAnswer>('pass-at-k?run=nulls&k=4')).estimates.passAtK[0]?.estimate, null);
  await log.append([{ type: 'run.started', run: 'nothing', data: { kind: 'eval' } }]);
  const nothing = await good<EstimatesAnswer>('pass-at-k?run=nothing');
  assert.deepEqual([nothing.counts.rollouts, nothing.warnings[0]?.code], [0, 'no_rollouts']);
  await writeRun('single', { a: [1, 0, 0, 1] });
  const single = await good<EstimatesAnswer>('pass-at-k?run=single&k=1');
  assert.equal(single.estimates.passAtK[0]?.estimate, 0.5);
  assert.equal(single.estimates.avg.interval.method, 'none');
  const unknown = await ask('pass-at-k?run=nobody');
  assert.deepEqual([unknown.status, unknown.error.code], [404, 'not_found']);
  assert.equal((await ask('pass-at-k?run=single&project=other')).status, 404);
});

test('rewards by name, also names that are columns or SQL', async () => {
  const hostile = "rollout') OR 1=1 --";
  await log.append([
    ...rolloutEvents({ run: 'named', rollout: 'n1', task: 'a', score: 0, rewards: { score: 1, name: 1, [hostile]: 0.5, weight: null } }),
    ...rolloutEvents({ run: 'named', rollout: 'n2', task: 'b', score: 0, rewards: { score: 0, name: 1, [hostile]: 1 } }),
  ]);
  const estimate = async (reward: string): Promise<number | null> => (await good<EstimatesAnswer>(`pass-at-k?run=named&reward=${encodeURIComponent(reward)}`)).estimates.avg.estimate;
  assert.deepEqual([await estimate('score'), await estimate('name'), await estimate(hostile), await estimate('weight')], [0.5, 1, 0.75, null]);
  const wrong = await ask('pass-at-k?run=named&reward=rewards');
  assert.equal(wrong.status, 400);
  assert.match(wrong.error.message, /no reward "rewards": it has "correct", "name"/);
  assert.equal((await ask('pass-at-k?run=named&answer=x')).status, 400);
}); // prettier-ignore

test('bad requests name the field', async () => {
  for (const [query, field] of [['', 'run'], ['run=a&k=0', 'k'], ['run=a&k=1,x', 'k'], ['run=a&missing=maybe', 'missing'], ['run=a&confidence=2', 'confidence'], ['run=a&what=1', 'what'], ['run=a&asOf=1.2', 'asOf'], ['run=a&asOf=2026-02-30T00:00:00Z', 'asOf'], ['run=a&threshold=x', 'threshold']] as const) {
    const { status, error } = await ask(`pass-at-k?${query}`);
    assert.deepEqual([status, error.code], [400, 'bad_request'], query);
    assert.match(error.message, new RegExp(field), query);
  }
  for (const query of ['base=hand', 'base=hand&other=hand', 'base=hand&other=moving&other=moving', 'base=hand&other=moving&other=gaps&otherVersion=1&otherVersion=2&otherVersion=3', 'base=hand&other=train']) {
    assert.equal((await ask(`compare?${query}`)).status, 400, query);
  }
}); // prettier-ignore

test('compare: tasks by hash, others listed, settings that differ warn, several others are one family', async () => {
  await writeRun('left', { a: [1, 0], b: [0, 0], c: [1, 1] });
  await writeRun('right', { a: [1, 1], b: [1, 0], d: [1, 1] });
  await writeRun('third', { a: [0, 0], b: [0, 0], c: [0, 0] });
  const call = (run: string, rollout: string, temperature: number) =>
    ({ type: 'call.recorded', run, rollout, trace: `t-${run}-${rollout}`, data: { index: 0, node: 1, model: 'm', sampling: { temperature, seed: temperature * 7 } } }) as const;
  await log.append([call('left', 'left-a-0', 0.7), call('right', 'right-a-0', 1), call('third', 'third-a-0', 0.7)]);
  const answer = await good<CompareAnswer>('compare?base=left&other=right&other=third&k=1');
  const [first, second] = answer.comparisons;
  assert.equal(answer.family, 2);
  assert.deepEqual([first?.commonTasks, first?.onlyBase.count, first?.onlyOther.tasks[0]?.taskKey], [2, 1, 'd']);
  assert.deepEqual(first?.settings, [{ setting: 'sampling.temperature', base: ['0.7'], other: ['1'] }]);
  assert.deepEqual(first?.warnings.map(({ code }) => code), ['tasks_differ', 'settings_differ']);
  assert.deepEqual([second?.commonTasks, second?.settings, second?.warnings], [3, [], []]);
  const pass = first?.measures.find(({ measure }) => measure === 'pass@1');
  assert.deepEqual([pass?.base.estimate, pass?.other.estimate, pass?.paired.difference, pass?.mcNemar], [0.25, 0.75, 0.5, null]);
  assert.ok((pass?.pAdjusted ?? 0) >= (pass?.signFlip?.p ?? 1));
}); // prettier-ignore

const ANSWERS = {
  'pass-at-k': estimatesAnswer,
  breakdown: breakdownAnswer,
  curves: runCurvesAnswer,
  tasks: tasksAnswer,
  checkpoints: checkpointsAnswer,
  judges: judgesAnswer,
} as const;

test('every question about a run has an answer of its schema, whatever is odd about the run', async () => {
  const odd = 'o\'dd/run?#% \\ "ü💥';
  await writeRun(odd, { 'a/?': [1, 0], "b'": [NaN, Infinity], b: [1, 0] });
  for (const run of ['nulls', 'nothing', 'single', 'gaps', 'named', 'train', odd]) {
    for (const [path, schema] of Object.entries(ANSWERS)) {
      const body = await good<object>(`${path}?run=${encodeURIComponent(run)}`);
      assert.deepEqual(schema.parse(body), body, `${path} of ${run}`);
    }
  }
  for (const query of ['base=single&other=nulls', 'base=single&other=nothing', `base=hand&other=${encodeURIComponent(odd)}`]) {
    const body = await good<object>(`compare?${query}`);
    assert.deepEqual(compareAnswer.parse(body), body, query);
  }
  const body = await good<object>(`diff?a=${encodeURIComponent(`${odd}-a/?-0`)}&b=hand-b-1`);
  assert.deepEqual(diffAnswer.parse(body), body);
});

test('every other route answers, and says the same again at its position', async () => {
  for (const path of [
    'breakdown?run=gaps',
    'curves?run=train&by=policyVersion',
    'tasks?run=hand&sort=sd',
    'checkpoints?run=train',
    'judges?run=named',
    'diff?a=hand-a-0&b=hand-a-1',
  ]) {
    const answer = await good<{ asOf: { position: string } }>(path);
    assert.deepEqual(await good(`${path}&asOf=${answer.asOf.position}`), answer, path);
  }
});
