/** The examples of docs/analytics.md: a request, and the part of its answer that is shown. */
import type { Breakdown } from './breakdown/breakdown.ts';
import type { CheckpointsAnswer } from './checkpoints.ts';
import type { CompareAnswer } from './compare-answer.ts';
import type { CurvesAnswer } from './curves/curves-answer.ts';
import type { DiffAnswer } from './diff/diff-answer.ts';
import type { EstimatesAnswer } from './estimates.ts';
import type { JudgesAnswer } from './judges.ts';
import type { Overall } from './overall.ts';
import type { TasksAnswer } from './task-list.ts';

export type Example = { readonly request: string; readonly shown: (answer: unknown) => unknown };

function example<T>(request: string, shown: (answer: T) => unknown): Example {
  return { request, shown: (answer) => shown(answer as T) };
}

const brief = ({ measure, estimate, interval, tasks }: Overall) => ({ measure, estimate, interval, tasks });

/** By the name that stands in the page as `<!-- example: name -->`. */
export const EXAMPLES: Readonly<Record<string, Example>> = {
  estimates: example<EstimatesAnswer>('/v1/analytics/pass-at-k?run=eval-1&k=1,4', ({ asOf, counts, solved, estimates, otherPolicy, warnings }) => ({
    asOf,
    counts,
    solved,
    estimates: { passAtK: estimates.passAtK, passHatK: estimates.passHatK.map(brief) },
    otherPolicy: { missing: otherPolicy.missing, estimates: { passAtK: otherPolicy.estimates.passAtK.map(brief) } },
    warnings,
  })),
  best: example<EstimatesAnswer>('/v1/analytics/pass-at-k?run=eval-1&k=4&chooseBy=judge&answer=answer', ({ estimates }) => ({
    avg: brief(estimates.avg),
    bestAtK: estimates.bestAtK.map(brief),
    majority: estimates.majority?.map(brief),
  })),
  compare: example<CompareAnswer>('/v1/analytics/compare?base=train-1&baseVersion=0&otherVersion=2&k=1', ({ comparisons }) => ({
    comparisons: comparisons.map((each) => ({ ...each, measures: each.measures.filter(({ measure }) => measure === 'pass@1'), tasks: each.tasks.slice(0, 1) })),
  })),
  compareRuns: example<CompareAnswer>('/v1/analytics/compare?base=eval-1&other=eval-2&k=1', ({ comparisons: [first] }) => {
    const { paired, signFlip, pAdjusted, won, lost, tied, minimumDetectable, tasksNeeded, verdict } = first?.measures.find(({ measure }) => measure === 'pass@1') ?? {};
    return { pass1: { paired, signFlip, pAdjusted, won, lost, tied, minimumDetectable, tasksNeeded, verdict }, settings: first?.settings, warnings: first?.warnings };
  }),
  tasks: example<TasksAnswer>('/v1/analytics/tasks?run=eval-1&sort=sd&limit=2', ({ total, next, tasks }) => ({ total, next, tasks })),
  breakdown: example<Breakdown>('/v1/analytics/breakdown?run=eval-1', ({ score, rewards, length, truncated, stops, tools, calls, cost }) => ({
    score,
    rewards: rewards.map(({ name, score: { n, mean, sd }, weights, contribution, missing, nan }) => ({ name, n, mean, sd, weights, contribution, missing, nan })),
    length: { outputTokens: length.outputTokens, withScore: length.withScore },
    truncated,
    stops,
    tools,
    calls: calls.map(({ model, calls: number, failed, completionTokens, secondsToFirstToken, tokensPerSecond, cost: spent }) => ({ model, calls: number, failed, completionTokens, secondsToFirstToken, tokensPerSecond, cost: spent })),
    cost: { total: cost.total, perSolvedRollout: cost.perSolvedRollout },
  })),
  curves: example<CurvesAnswer>('/v1/analytics/curves?run=train-1&by=step', ({ all, effective, staleness }) => ({
    all: all[0]?.points.map(({ x, rollouts, taskMean, low, high, solved }) => ({ x, rollouts, taskMean, low, high, solved })),
    effective: effective[0]?.points.map(({ x, rollouts, score, staleness: of }) => ({ x, rollouts, mean: score.mean, staleness: of })),
    trend: all[0]?.trend,
    staleness,
  })),
  checkpoints: example<CheckpointsAnswer>('/v1/analytics/checkpoints?run=train-1', ({ measure, best, checkpoints }) => ({
    measure,
    best,
    checkpoints: checkpoints.map(({ policyVersion, uri, estimate, againstBest, mayBeBest }) => ({ policyVersion, uri, estimate: estimate.estimate, againstBest, mayBeBest })),
  })),
  judges: example<JudgesAnswer>('/v1/analytics/judges?run=eval-1', ({ agreements }) => ({ agreements })),
  diff: example<DiffAnswer>('/v1/analytics/diff?a=eval-1-5-0&b=eval-2-5-0', ({ sameTask, shared, divergence, a, b }) => ({
    sameTask, shared, divergence, a: { reward: a.reward, size: a.size, tools: a.tools }, b: { reward: b.reward, size: b.size, tools: b.tools },
  })),
}; // prettier-ignore
