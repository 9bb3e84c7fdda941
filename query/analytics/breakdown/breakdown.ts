/** The answer to "what happened in this run": outcomes, rewards, length, stops, errors, tools, calls, cost. */
import { loadEvaluation, type Evaluation, type ScoreSpec, type Selection } from '../evaluation.ts';
import { countOutcomes, outcomeOf, type OutcomeCounts } from '../outcome.ts';
import type { AnsweredAsOf, Reader } from '../reader.ts';
import { readSizes, type RolloutSize } from '../rollout-sizes.ts';
import { solvedCounts, type SolvedCounts } from '../estimates.ts';
import { correlation } from '../statistics/agreement.ts';
import { sum, summaryOf, type Summary } from '../statistics/moments.ts';
import { warningsOf, type Warning } from '../warning.ts';
import { readMetricParts, readRewardParts, type MetricPart, type RewardPart } from './rewards.ts';
import { readCallParts, readErrorParts, readToolParts, type CallPart, type ErrorPart, type ToolPart } from './work.ts';

export type StopPart = { readonly stopCondition: string | null; readonly rollouts: number; readonly meanScore: number | null };

export type Breakdown = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly reward: string | null;
  readonly threshold: number;
  readonly counts: OutcomeCounts;
  readonly solved: SolvedCounts;
  readonly score: Summary;
  readonly rewards: readonly RewardPart[];
  readonly metrics: readonly MetricPart[];
  readonly length: {
    readonly outputTokens: Summary;
    readonly inputTokens: Summary;
    readonly turns: Summary;
    readonly branches: Summary;
    /** Output tokens of rollouts whose score reaches the threshold, and of the others. */
    readonly outputTokensSolved: Summary;
    readonly outputTokensUnsolved: Summary;
    /** Pearson's correlation of output tokens with score; null where one does not vary. */
    readonly withScore: number | null;
  };
  readonly truncated: { readonly yes: number; readonly no: number; readonly unknown: number };
  readonly stops: readonly StopPart[];
  readonly errors: readonly ErrorPart[];
  readonly tools: readonly ToolPart[];
  readonly calls: readonly CallPart[];
  readonly seconds: Summary;
  /** As the calls reported it, in their unit; null where none did. */
  readonly cost: { readonly total: number | null; readonly perRollout: Summary; readonly perSolvedRollout: number | null };
  readonly warnings: readonly Warning[];
};

/** Reads and computes it. Errors as `loadEvaluation`. */
export async function readBreakdown(reader: Reader, selection: Selection, spec: Pick<ScoreSpec, 'reward'> & { readonly threshold: number }): Promise<Breakdown> {
  const evaluation = await loadEvaluation(reader, selection, { reward: spec.reward, answer: null, chooseBy: null });
  const { rollouts } = evaluation;
  const { run } = selection;
  const among = evaluation.isWholeRun ? null : rollouts.map((row) => row.rollout);
  const [sizes, rewards, metrics, errors, tools, calls] = await Promise.all([
    readSizes(reader, run, rollouts, among),
    readRewardParts(reader, run, among),
    readMetricParts(reader, run, among),
    readErrorParts(reader, run, among),
    readToolParts(reader, run, among),
    readCallParts(reader, run, among),
  ]);
  const counts = countOutcomes(evaluation.tasks);
  return {
    project: reader.project,
    asOf: reader.asOf,
    selection,
    reward: spec.reward,
    threshold: spec.threshold,
    counts,
    solved: solvedCounts(evaluation.tasks, { threshold: spec.threshold, missing: 'excluded' }),
    ...shapeOf(evaluation, sizes, spec.threshold),
    rewards,
    metrics,
    errors,
    tools,
    calls,
    warnings: [...evaluation.warnings, ...warningsOf(evaluation.tasks, counts)],
  };
} // prettier-ignore

type Shape = Pick<Breakdown, 'score' | 'length' | 'truncated' | 'stops' | 'seconds' | 'cost'>;

function shapeOf({ rollouts, scores }: Evaluation, sizes: ReadonlyMap<string, RolloutSize>, threshold: number): Shape {
  const rows = rollouts.map((row) => {
    const score = scores.get(row.rollout) ?? null;
    return { row, size: sizes.get(row.rollout) as RolloutSize, score: outcomeOf(row, score, true) === 'scored' ? score : null };
  });
  const of = (value: (each: (typeof rows)[number]) => number | null, among = rows): number[] => among.map(value).filter((each) => each !== null);
  const judged = rows.filter((each): each is typeof each & { score: number } => each.score !== null);
  const output = (each: (typeof rows)[number]): number | null => each.size.outputTokens;
  const pairs = judged.flatMap((each) => (each.size.outputTokens === null ? [] : [[each.size.outputTokens, each.score] as const]));
  const costs = of((each) => each.size.cost);
  const solved = judged.filter((each) => each.score >= threshold);
  return {
    score: summaryOf(judged.map((each) => each.score)),
    length: {
      outputTokens: summaryOf(of(output)),
      inputTokens: summaryOf(of((each) => each.size.inputTokens)),
      turns: summaryOf(of((each) => each.size.turns)),
      branches: summaryOf(of((each) => each.size.branches)),
      outputTokensSolved: summaryOf(of(output, solved)),
      outputTokensUnsolved: summaryOf(of(output, judged.filter((each) => each.score < threshold))),
      withScore: correlation(pairs.map(([x]) => x), pairs.map(([, y]) => y)),
    },
    truncated: {
      yes: rows.filter((each) => each.size.truncated === true).length,
      no: rows.filter((each) => each.size.truncated === false).length,
      unknown: rows.filter((each) => each.size.truncated === null).length,
    },
    stops: stopsOf(rows),
    seconds: summaryOf(of(({ row }) => (row.started === null || row.ended === null ? null : (row.ended - row.started) / 1e6))),
    cost: {
      total: costs.length === 0 ? null : sum(costs),
      perRollout: summaryOf(costs),
      perSolvedRollout: costs.length === 0 || solved.length === 0 ? null : sum(costs) / solved.length,
    },
  };
} // prettier-ignore

function stopsOf(rows: readonly { readonly size: RolloutSize; readonly score: number | null }[]): StopPart[] {
  const parts = [...Map.groupBy(rows, ({ size }) => size.stopCondition)].map(([stopCondition, same]) => ({
    stopCondition,
    rollouts: same.length,
    meanScore: summaryOf(same.map(({ score }) => score).filter((score) => score !== null)).mean,
  }));
  return parts.toSorted((a, b) => b.rollouts - a.rollouts || String(a.stopCondition).localeCompare(String(b.stopCondition)));
}
