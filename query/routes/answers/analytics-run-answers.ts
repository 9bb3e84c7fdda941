/** What the analytics of one run answer, and two rollouts side by side. */
import { z } from 'zod';
import type { Breakdown } from '../../analytics/breakdown/breakdown.ts';
import type { CheckpointsAnswer } from '../../analytics/checkpoints.ts';
import type { CurvesAnswer } from '../../analytics/curves/curves-answer.ts';
import type { DiffAnswer } from '../../analytics/diff/diff-answer.ts';
import type { JudgesAnswer } from '../../analytics/judges.ts';
import { answered, method, number, outcomes, overall, selection, solved, warnings } from './analytics-answers.ts';
import { jsonFloat, whole, type AsJson } from './answer-schema.ts';

const text = z.string().nullable();
const count = whole.nullable();
const summary = z
  .object({ n: whole, mean: number, sd: number, min: number, p10: number, p50: number, p90: number, p99: number, max: number })
  .meta({ title: 'Summary' });
const spread = z.object({ n: whole, p50: number, p90: number, p99: number, max: number }).meta({ title: 'Spread' });
const errorTypes = z.array(z.object({ type: z.string(), count: whole }));
const judged = { reward: text.meta({ description: 'Null: the sum of score times weight.' }), threshold: z.number() };

const rewardPart = z.object({
  name: z.string(),
  scope: z.string(),
  sourceKinds: z.array(z.string()),
  missing: whole.meta({ description: 'Assigned without a score; neither these nor NaN are in the figures.' }),
  nan: whole,
  score: summary,
  weights: z.array(jsonFloat),
  contribution: number.meta({ description: 'Mean of score times weight over the rollouts that have it.' }),
  rollouts: whole,
});
const toolPart = z.object({
  name: z.string(),
  runs: whole,
  failed: whole,
  rollouts: whole,
  seconds: spread,
  errors: errorTypes,
});
const callPart = z.object({
  model: text,
  calls: whole,
  failed: whole,
  retries: whole,
  promptTokens: count,
  completionTokens: count,
  cachedTokens: count,
  reasoningTokens: count,
  cost: number,
  seconds: spread,
  secondsToFirstToken: spread,
  tokensPerSecond: spread,
  finishReasons: z.array(z.object({ reason: text, count: whole })),
  errors: errorTypes,
});

export const breakdownAnswer = z
  .object({
    ...answered,
    selection,
    ...judged,
    counts: outcomes,
    solved,
    score: summary,
    rewards: z.array(rewardPart),
    metrics: z.array(z.object({ name: z.string(), scope: z.string(), missing: whole, nan: whole, value: summary })),
    length: z.object({
      outputTokens: summary,
      inputTokens: summary,
      turns: summary,
      branches: summary,
      outputTokensSolved: summary,
      outputTokensUnsolved: summary,
      withScore: number.meta({ description: "Pearson's correlation of output tokens with score; null where one does not vary." }),
    }),
    truncated: z.object({ yes: whole, no: whole, unknown: whole }),
    stops: z.array(z.object({ stopCondition: text, rollouts: whole, meanScore: number })),
    errors: z.array(z.object({ scope: z.string(), type: z.string(), count: whole, rollouts: whole })),
    tools: z.array(toolPart),
    calls: z.array(callPart),
    seconds: summary,
    cost: z.object({ total: number, perRollout: summary, perSolvedRollout: number }).meta({ description: 'As the calls reported it.' }),
    warnings,
  })
  .meta({ title: 'BreakdownAnswer' }) satisfies z.ZodType<AsJson<Breakdown>>;

const staleness = z.object({ rows: whole, mean: number, max: number, inFlight: number, inQueue: number }).meta({ title: 'Staleness' });
const trend = z.object({ slope: number.meta({ description: 'Change per unit of x.' }), se: number, points: whole });
const allPoint = z.object({
  x: count,
  rollouts: whole,
  tasks: whole,
  scored: whole,
  failed: whole,
  score: summary,
  taskMean: number.meta({ description: 'Mean over tasks; low and high are its interval, clustered by task.' }),
  low: number,
  high: number,
  solved,
  outputTokens: summary,
  turns: summary,
  truncated: whole,
  rewards: z.record(z.string(), number),
});
const effectivePoint = z.object({
  x: count,
  rows: whole,
  rollouts: whole,
  traces: whole,
  tokens: count,
  trainedTokens: count,
  score: summary,
  advantage: summary,
  staleness,
  dropped: z.array(z.object({ reason: z.string(), samples: whole, tokens: count })),
});
const curve = <P extends z.ZodType>(point: P) => z.object({ env: text, points: z.array(point), trend });

export const runCurvesAnswer = z
  .object({
    ...answered,
    selection,
    by: z.enum(['step', 'policyVersion']),
    ...judged,
    all: z.array(curve(allPoint)),
    effective: z.array(curve(effectivePoint)),
    staleness,
    dropped: z.array(z.object({ feed: z.string(), n: count, reason: z.string(), samples: whole, tokens: count })),
    warnings,
  })
  .meta({ title: 'RunCurvesAnswer' }) satisfies z.ZodType<AsJson<CurvesAnswer>>;

export const checkpointsAnswer = z
  .object({
    ...answered,
    selection,
    method,
    measure: z.string(),
    best: count,
    checkpoints: z.array(
      z.object({
        policyVersion: whole,
        step: count,
        uri: text,
        counts: outcomes,
        estimate: overall,
        againstBest: z
          .object({ tasks: whole, difference: number, pAdjusted: number })
          .nullable()
          .meta({ description: 'Paired with the best over their common tasks; null for the best itself.' }),
        mayBeBest: z.boolean().meta({ description: 'False where the paired comparison says it is worse.' }),
      }),
    ),
    warnings,
  })
  .meta({ title: 'CheckpointsAnswer' }) satisfies z.ZodType<AsJson<CheckpointsAnswer>>;

const rater = { name: z.string(), kind: text, source: text };
export const judgesAnswer = z
  .object({
    ...answered,
    selection,
    threshold: z.number(),
    raters: z.array(z.object({ ...rater, scored: whole })),
    agreements: z.array(
      z.object({
        first: z.object(rater),
        second: z.object(rater),
        n: whole.meta({ description: 'Rollouts (or traces) that both scored.' }),
        fourfold: z
          .tuple([whole, whole, whole, whole])
          .meta({ description: 'At the threshold: both reach it, only the first, only the second, neither.' }),
        agreement: number,
        kappa: number,
        pearson: number,
        spearman: number,
        bias: number.meta({ description: 'Mean of second minus first.' }),
      }),
    ),
    warnings,
  })
  .meta({ title: 'JudgesAnswer' }) satisfies z.ZodType<AsJson<JudgesAnswer>>;

const side = z.object({
  run: z.string(),
  rollout: z.string(),
  trace: text,
  agent: text,
  leaf: count,
  env: text,
  taskKey: text,
  taskHash: text,
  ok: z.boolean().nullable(),
  cancelled: text,
  reward: number,
  rewards: z.array(z.object({ name: z.string(), scope: z.string(), score: number, weight: number })),
  policyVersions: z.object({ min: count, max: count }),
  size: z.object({
    turns: whole,
    branches: whole,
    calls: whole,
    inputTokens: count,
    outputTokens: count,
    cost: number,
    stopCondition: text,
    truncated: z.boolean().nullable(),
  }),
  messages: whole,
  tools: z.array(z.object({ name: z.string(), runs: whole, failed: whole })),
  errors: errorTypes,
});
const message = z
  .object({
    index: whole,
    role: z.string(),
    sampled: z.boolean(),
    text,
    reasoning: text,
    toolCalls: text,
    cut: z.boolean().meta({ description: 'True when texts were cut to the asked number of characters.' }),
  })
  .nullable();
export const diffAnswer = z
  .object({
    ...answered,
    sameTask: z.boolean(),
    a: side,
    b: side,
    shared: whole.meta({ description: 'Messages that are the same on both paths, from their roots.' }),
    divergence: z
      .object({
        at: whole,
        a: count,
        b: count,
        kind: z.enum(['role', 'text', 'reasoning', 'tool calls', 'tokens', 'end']),
        character: count.meta({ description: 'First differing character; null for kinds that are no text.' }),
      })
      .nullable(),
    rows: z.array(z.object({ at: whole, a: message, b: message })),
    rowsCut: z.boolean(),
  })
  .meta({ title: 'DiffAnswer' }) satisfies z.ZodType<AsJson<DiffAnswer>>;
