/** Figures of the analytics routes that other tests only look at in passing: each is computed here by hand, or from the other figures of the answer. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import Fastify from 'fastify';
import type { FastifyInstance } from 'fastify';
import type { CheckpointsAnswer } from '../analytics/checkpoints.ts';
import type { CompareAnswer } from '../analytics/compare-answer.ts';
import type { EstimatesAnswer } from '../analytics/estimates.ts';
import type { JudgesAnswer } from '../analytics/judges.ts';
import { rolloutEvents, testLog, type TestLog } from '../analytics/log-for-tests.ts';
import { holm } from '../analytics/statistics/paired.ts';
import type { Draft } from '../../store/columns/projections/test-world.ts';
import { startTestEngine } from '../engine-for-tests.ts';
import type { TestEngine } from '../engine-for-tests.ts';
import { DATABASE, prepareStore } from '../events-for-tests.ts';
import { analyticsRoutes } from './analytics.ts';

let engine: TestEngine;
let app: FastifyInstance;
let log: TestLog;

before(async () => {
  engine = await startTestEngine(DATABASE);
  await prepareStore(engine.store, ['default']);
  log = testLog(engine.store);
  app = Fastify();
  await app.register(analyticsRoutes, { store: engine.store });
});
after(async () => {
  await app?.close();
  await engine?.close();
});

async function good<T>(path: string): Promise<T> {
  const response = await app.inject({ url: `/v1/analytics/${path}` });
  assert.equal(response.statusCode, 200, response.body);
  return response.json<T>();
}

/** One rollout for each score, of tasks that are called by their places. */
function scored(run: string, scores: readonly number[], more: { readonly env?: string; readonly version?: number } = {}): Draft[] {
  return scores.flatMap((score, task) => rolloutEvents({ run, rollout: `${run}-${more.env ?? ''}${more.version ?? ''}-${task}`, task: `t${task}`, score, ...more }));
} // prettier-ignore

test('the mean over environments counts each environment once, however many tasks it has', async () => {
  await log.append([...scored('envs', [1, 1, 1, 0, 1, 1], { env: 'many' }), ...scored('envs', [0, 1], { env: 'few' })]);
  const tasks = await good<EstimatesAnswer>('pass-at-k?run=envs&k=1');
  const envs = await good<EstimatesAnswer>('pass-at-k?run=envs&k=1&over=envs');
  assert.deepEqual([tasks.estimates.passAtK[0]?.estimate, envs.estimates.passAtK[0]?.estimate], [6 / 8, (5 / 6 + 1 / 2) / 2]);
  assert.deepEqual([tasks.method.over, envs.method.over], ['tasks', 'envs']);
  assert.equal(envs.estimates.passAtK[0]?.interval.method, 't over tasks within envs');
});

test('several comparisons are one family, adjusted by Holm for each measure by itself', async () => {
  await log.append([
    ...scored('base', [0, 0, 0, 0, 0, 0, 0, 1]),
    ...scored('much', [1, 1, 1, 1, 1, 1, 1, 1]),
    ...scored('more', [1, 1, 1, 1, 1, 1, 0, 1]),
    ...scored('same', [0, 0, 0, 0, 0, 0, 0, 1]),
  ]);
  const { comparisons } = await good<CompareAnswer>('compare?base=base&other=much&other=more&other=same');
  const places = comparisons[0]?.measures.map((_, place) => place) ?? [];
  assert.deepEqual(comparisons[0]?.measures.map(({ measure }) => measure), ['avg', 'pass@1']); // prettier-ignore
  for (const place of places) {
    const of = comparisons.map(({ measures }) => measures[place]);
    const ps = of.map((measure) => measure?.signFlip?.p ?? null);
    assert.deepEqual(ps, [2 / 2 ** 7, 2 / 2 ** 6, 1]);
    assert.deepEqual(of.map((measure) => measure?.pAdjusted), holm(ps)); // prettier-ignore
    // alone the second would be found, too
    assert.deepEqual(of.map((measure) => measure?.verdict), ['better', 'not decided', 'not decided']); // prettier-ignore
  }
  const [pass] = (await good<CompareAnswer>('compare?base=much&other=base&k=1')).comparisons[0]?.measures.slice(1) ?? [];
  assert.deepEqual([pass?.verdict, pass?.mcNemar], ['worse', { onlyBase: 7, onlyOther: 0, p: 2 / 2 ** 7 }]);
});

test('sides that were not run alike are told, in sampling, tools, template and tokenizer', async () => {
  const side = (run: string, sampling: object, tokenizer: string, template: string, tool: string): Draft[] => {
    const ids = { run, rollout: `${run}--0`, trace: `own-${run}` };
    return [
      ...scored(run, [1, 0, 1]),
      { type: 'trace.started', ...ids, data: { agent: { name: 'helper' }, tools: [{ name: tool }] } },
      { type: 'call.recorded', ...ids, data: { index: 0, model: 'm', sampling, tokenizerHash: tokenizer, templateHash: template } },
      // what failed was not run so
      { type: 'call.recorded', ...ids, data: { index: 1, model: 'm', sampling: { temperature: 9 }, tokenizerHash: 'never', error: { type: 'E', message: 'e' } } },
    ];
  };
  await log.append([...side('apart-1', { temperature: 1, seed: 1 }, 'k1', 't1', 'add'), ...side('apart-2', { temperature: 1, seed: 2, top_p: 0.9 }, 'k2', 't2', 'sub'), ...side('alike', { temperature: 1, seed: 3 }, 'k1', 't1', 'add')]);
  const { comparisons } = await good<CompareAnswer>('compare?base=apart-1&other=apart-2&other=alike');
  assert.deepEqual(comparisons[0]?.settings, [
    { setting: 'sampling.top_p', base: [], other: ['0.9'] },
    { setting: 'template', base: ['t1'], other: ['t2'] },
    { setting: 'tokenizer', base: ['k1'], other: ['k2'] },
    { setting: 'tools', base: ['[{"name":"add"}]'], other: ['[{"name":"sub"}]'] },
  ]);
  assert.deepEqual(comparisons.map(({ warnings }) => warnings.map(({ code }) => code)), [['settings_differ'], []]);
  assert.match(comparisons[0]?.warnings[0]?.message ?? '', /sampling\.top_p \(not recorded against 0\.9\); template .*; tokenizer .*; tools\. A difference/);
}); // prettier-ignore

test('the best checkpoint, and which others may be it', async () => {
  const versions = [[0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1, 1]]; // prettier-ignore
  await log.append(versions.flatMap((scores, version) => scored('learning', scores, { version })));
  const { best, checkpoints } = await good<CheckpointsAnswer>('checkpoints?run=learning&measure=pass@k');
  assert.equal(best, 2);
  assert.deepEqual(checkpoints.map(({ policyVersion, mayBeBest, againstBest }) => [policyVersion, mayBeBest, againstBest?.difference ?? null]), [[0, false, -1], [1, true, -1 / 8], [2, true, null]]); // prettier-ignore
});

test('judges are told apart by their sources, and their agreement is counted', async () => {
  const judged = (task: number, kind: string, source: string, score: number): Draft =>
    ({ type: 'reward.assigned', run: 'judged', rollout: `judged--${task}`, data: { scope: 'rollout', name: 'good', score, weight: 0, source: { kind, name: source } } }); // prettier-ignore
  await log.append([
    ...scored('judged', [1, 1, 0, 0]),
    ...[1, 1, 0, 1].map((score, task) => judged(task, 'model', 'x', score)),
    ...[1, 0, 0, 0].map((score, task) => judged(task, 'human', 'me', score)),
  ]);
  const { raters, agreements } = await good<JudgesAnswer>('judges?run=judged');
  assert.deepEqual(raters.map(({ name, kind, source, scored: n }) => [name, kind, source, n]), [['correct', null, null, 4], ['good', 'human', 'me', 4], ['good', 'model', 'x', 4]]); // prettier-ignore
  const pair = agreements.find(({ first, second }) => first.kind === 'human' && second.kind === 'model');
  assert.deepEqual([pair?.n, pair?.fourfold, pair?.agreement, pair?.bias], [4, [1, 0, 2, 1], 0.5, 0.5]);
});
