/** What a report is made of: answers of the server, all at one position. */
import type { Breakdown } from '../../query/analytics/breakdown/breakdown.ts';
import type { PairedMeasure } from '../../query/analytics/compare.ts';
import type { CompareAnswer } from '../../query/analytics/compare-answer.ts';
import type { CurvesAnswer } from '../../query/analytics/curves/curves-answer.ts';
import type { EstimatesAnswer } from '../../query/analytics/estimates.ts';
import type { JudgesAnswer } from '../../query/analytics/judges.ts';
import type { TasksAnswer } from '../../query/analytics/task-list.ts';
import { askServer } from '../render/ask-server.ts';
import { parseAnswer } from '../render/parse-answer.ts';

export type ReportData = {
  readonly estimates: EstimatesAnswer;
  readonly breakdown: Breakdown;
  readonly tasks: TasksAnswer;
  readonly curves: CurvesAnswer;
  readonly judges: JudgesAnswer;
  /** The run against its baseline: base = the baseline, other = the run. Null without a baseline. */
  readonly compare: CompareAnswer | null;
};

export type ReportRequest = {
  readonly url: string;
  readonly run: string;
  readonly policyVersion?: number | undefined;
  readonly against?: string | undefined;
  readonly againstVersion?: number | undefined;
  /** Parameters of the routes by name: project, env, reward, answer, chooseBy, threshold, missing, over, confidence, seed, asOf. */
  readonly shared: Readonly<Record<string, string>>;
  /** Values of k that somebody asked for, beside the usual ones. */
  readonly ks: readonly number[];
  /** The same for the comparison with the baseline. */
  readonly comparedKs: readonly number[];
};

const TASKS = '10000';
/** What each route takes of the shared parameters. */
const TAKES = {
  'pass-at-k': ['project', 'env', 'reward', 'answer', 'chooseBy', 'threshold', 'missing', 'over', 'confidence', 'seed'],
  breakdown: ['project', 'env', 'reward', 'threshold'],
  tasks: ['project', 'env', 'reward', 'threshold', 'missing', 'confidence'],
  curves: ['project', 'env', 'reward', 'threshold', 'confidence'],
  judges: ['project', 'env', 'threshold'],
  compare: ['project', 'env', 'reward', 'threshold', 'missing', 'over', 'confidence', 'seed'],
} as const;

/** Asks for everything; the first answer fixes the position of the others. Errors as the server gives them. */
export async function fetchReport(request: ReportRequest): Promise<ReportData> {
  const { run, policyVersion, shared, ks } = request;
  const side = { run, ...(policyVersion === undefined ? {} : { policyVersion: String(policyVersion) }) };
  const asked = ks.length === 0 ? {} : { k: ks.join(',') };
  const first = await ask<EstimatesAnswer>(request, 'pass-at-k', { ...side, ...(shared['asOf'] === undefined ? {} : { asOf: shared['asOf'] }) });
  const asOf = first.asOf.position;
  const usual = new Set(first.estimates.passAtK.map(({ k }) => k));
  const extra = ks.some((k) => !usual.has(k)) ? await ask<EstimatesAnswer>(request, 'pass-at-k', { ...side, asOf, ...asked }) : null;
  const [breakdown, tasks, byStep, judges, compare] = [
    await ask<Breakdown>(request, 'breakdown', { ...side, asOf }),
    await ask<TasksAnswer>(request, 'tasks', { ...side, asOf, limit: TASKS, sort: 'solveRate' }),
    await ask<CurvesAnswer>(request, 'curves', { ...side, asOf, by: 'step' }),
    await ask<JudgesAnswer>(request, 'judges', { ...side, asOf }),
    await fetchComparison(request, asOf),
  ];
  const hasSteps = byStep.all[0]?.points.some(({ x }) => x !== null) ?? false;
  const curves = hasSteps ? byStep : await ask<CurvesAnswer>(request, 'curves', { ...side, asOf, by: 'policyVersion' });
  return { estimates: extra === null ? first : joined(first, extra), breakdown, tasks, curves, judges, compare };
} // prettier-ignore

/** Usual and asked values of k in one answer. */
function joined(first: EstimatesAnswer, extra: EstimatesAnswer): EstimatesAnswer {
  const both = (name: 'passAtK' | 'passHatK' | 'bestAtK' | 'majority') => {
    const [usual, asked] = [first.estimates[name] ?? [], extra.estimates[name] ?? []];
    const known = new Set(usual.map(({ k }) => k));
    return [...usual, ...asked.filter(({ k }) => !known.has(k))].toSorted((a, b) => (a.k ?? 0) - (b.k ?? 0));
  };
  const majority = first.estimates.majority === null ? null : both('majority');
  return { ...first, estimates: { ...first.estimates, passAtK: both('passAtK'), passHatK: both('passHatK'), bestAtK: both('bestAtK'), majority } };
} // prettier-ignore

async function fetchComparison(request: ReportRequest, asOf: string): Promise<CompareAnswer | null> {
  const { run, policyVersion, against, againstVersion, comparedKs } = request;
  if (against === undefined && againstVersion === undefined) return null;
  const sides = {
    base: against ?? run,
    ...(againstVersion === undefined ? {} : { baseVersion: String(againstVersion) }),
    other: run,
    ...(policyVersion === undefined ? {} : { otherVersion: String(policyVersion) }),
    asOf,
  };
  const usual = await ask<CompareAnswer>(request, 'compare', sides);
  const known = new Set(measuresOf(usual).map(({ k }) => k));
  if (comparedKs.every((k) => known.has(k))) return usual;
  const more = measuresOf(await ask<CompareAnswer>(request, 'compare', { ...sides, k: comparedKs.join(',') }));
  const [comparison] = usual.comparisons;
  if (comparison === undefined) return usual;
  // each measure is adjusted by itself, so that they may come from two answers
  return { ...usual, comparisons: [{ ...comparison, measures: [...comparison.measures, ...more.filter(({ k }) => !known.has(k))] }] };
}

function measuresOf({ comparisons }: CompareAnswer): readonly PairedMeasure[] {
  return comparisons[0]?.measures ?? [];
}

async function ask<T>(request: ReportRequest, route: keyof typeof TAKES, query: Readonly<Record<string, string>>): Promise<T> {
  const taken = TAKES[route].flatMap((name) =>
    request.shared[name] === undefined ? [] : [[name, request.shared[name]] as [string, string]],
  );
  const search = new URLSearchParams([...taken, ...Object.entries(query)]);
  const response = await askServer(request.url, `/v1/analytics/${route}?${search.toString()}`);
  return parseAnswer<T>(await response.text());
}
