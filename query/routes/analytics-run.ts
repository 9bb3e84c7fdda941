/** Analytics routes about one run: what happened, how it learned, its tasks, its checkpoints, its judges; and two rollouts side by side. */
import { z } from 'zod';
import { entityId } from '../../events/fields.ts';
import { readBreakdown } from '../analytics/breakdown/breakdown.ts';
import { readCheckpoints } from '../analytics/checkpoints.ts';
import { readCurves } from '../analytics/curves/curves-answer.ts';
import { readDiff } from '../analytics/diff/diff-answer.ts';
import { loadEvaluation } from '../analytics/evaluation.ts';
import { readJudges } from '../analytics/judges.ts';
import { taskList } from '../analytics/task-list.ts';
import { estimating, inProject, judging, methodOf, ofRun, selectionOf } from './analytics-query.ts';
import { tasksAnswer } from './answers/analytics-answers.ts';
import { breakdownAnswer, checkpointsAnswer, diffAnswer, judgesAnswer, runCurvesAnswer } from './answers/analytics-run-answers.ts';
import { contextOf, type Ask } from './analytics-route.ts';

const confidence = estimating.confidence;

export const breakdownQuery = z.strictObject({ ...inProject, ...ofRun, ...judging });

export const curvesQuery = z.strictObject({
  ...inProject,
  ...ofRun,
  ...judging,
  confidence,
  by: z.enum(['step', 'policyVersion']).default('step').meta({ description: 'What stands on the axis: the training step, or the version a rollout began under.' }),
  feed: entityId.optional().meta({ description: 'Only what this feed trained on; absent: all feeds.' }),
}); // prettier-ignore

export const tasksQuery = z.strictObject({
  ...inProject,
  ...ofRun,
  ...judging,
  missing: estimating.missing,
  confidence,
  sort: z.enum(['task', 'solveRate', 'sd', 'mean']).default('task').meta({ description: 'solveRate and mean: hardest first; sd: most undecided first.' }),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(10_000).default(1_000),
}); // prettier-ignore

export const checkpointsQuery = z.strictObject({
  ...inProject,
  run: ofRun.run,
  env: ofRun.env,
  workType: ofRun.workType,
  ...judging,
  missing: estimating.missing,
  over: estimating.over,
  confidence,
  seed: estimating.seed,
  measure: z.enum(['pass@k', 'pass^k', 'avg', 'best@k']).default('avg').meta({ description: 'What checkpoints are rated by.' }),
  k: z.coerce.number().int().min(1).max(100_000).default(1),
});

export const judgesQuery = z.strictObject({ ...inProject, ...ofRun, threshold: judging.threshold });

export const diffQuery = z.strictObject({
  ...inProject,
  a: entityId.meta({ description: 'First rollout.' }),
  b: entityId.meta({ description: 'Second rollout.' }),
  runA: entityId.optional().meta({ description: 'Its run, needed only when several runs use the id.' }),
  runB: entityId.optional(),
  traceA: entityId.optional().meta({ description: 'Trace to follow; absent: that of the agent that is trained and began first.' }),
  traceB: entityId.optional(),
  limit: z.coerce.number().int().min(1).max(1_000).default(20).meta({ description: 'Messages from the divergence on.' }),
  chars: z.coerce.number().int().min(1).max(1_000_000).default(2_000).meta({ description: 'Characters of each text.' }),
});

export function addRunRoutes(ask: Ask): void {
  ask(
    '/v1/analytics/breakdown',
    'Outcomes, rewards, length, stops, errors, tools, calls and cost of a run',
    breakdownQuery,
    (reader, query) => readBreakdown(reader, selectionOf(query), { reward: query.reward ?? null, threshold: query.threshold }),
    breakdownAnswer,
  );
  ask(
    '/v1/analytics/curves',
    'Learning curves of a run: of all rollouts, and of what was trained on',
    curvesQuery,
    (reader, query) =>
      readCurves(reader, {
        selection: selectionOf(query),
        axis: query.by,
        feed: query.feed ?? null,
        reward: query.reward ?? null,
        threshold: query.threshold,
        confidence: query.confidence,
      }),
    runCurvesAnswer,
  );
  ask(
    '/v1/analytics/tasks',
    'How often each task of a run was solved',
    tasksQuery,
    async (reader, query) => {
      const method = methodOf({ ...query, over: 'tasks', resamples: 0, seed: 0 });
      const evaluation = await loadEvaluation(reader, selectionOf(query), method);
      return taskList(evaluation, method, query, contextOf(reader));
    },
    tasksAnswer,
  );
  ask(
    '/v1/analytics/checkpoints',
    'The best policy version by a measure, and those that cannot be told from it',
    checkpointsQuery,
    (reader, query) => {
      const measure = query.measure === 'avg' ? ({ name: 'avg@k', k: null } as const) : { name: query.measure, k: query.k };
      return readCheckpoints(reader, selectionOf(query), methodOf({ ...query, resamples: 0 }), measure);
    },
    checkpointsAnswer,
  );
  ask(
    '/v1/analytics/judges',
    'How far the rewards of a run agree',
    judgesQuery,
    (reader, query) => readJudges(reader, selectionOf(query), query.threshold),
    judgesAnswer,
  );
  ask(
    '/v1/analytics/diff',
    'Two rollouts side by side',
    diffQuery,
    (reader, query) =>
      readDiff(
        reader,
        { rollout: query.a, run: query.runA ?? null, trace: query.traceA ?? null },
        { rollout: query.b, run: query.runB ?? null, trace: query.traceB ?? null },
        query,
      ),
    diffAnswer,
  );
}
