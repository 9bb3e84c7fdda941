/** Sections of the page about how good the run is. */
import type { EstimatesAnswer } from '../../query/analytics/estimates.ts';
import type { Overall } from '../../query/analytics/overall.ts';
import type { TaskLine } from '../../query/analytics/task-list.ts';
import { barChart, binned } from './charts/bar-chart.ts';
import { intervalChart } from './charts/interval-chart.ts';
import { lineChart } from './charts/line-chart.ts';
import { shareBar } from './charts/share-bar.ts';
import { card, figure, folded, htmlTable, legend, pair, section } from './page-parts.ts';
import { isBinary } from './report-markdown.ts';
import type { ReportData } from './report-data.ts';
import { estimateText, NOTHING, percent, plainNumber, rangeText, valueOf } from './words.ts';

const BINS = 10;
const MOST_TASKS = 25;

export function cards({ estimates, breakdown }: ReportData): string {
  const { passAtK, avg } = estimates.estimates;
  const [first, last] = [passAtK[0], passAtK.at(-1)];
  const { counts } = estimates;
  const without = counts.failed + counts.unscored + counts.nan + counts.missing;
  const measured = (each: Overall): string => card(each.measure === 'avg' ? 'mean score' : each.measure, valueOf(each.measure, each.estimate), intervalText(each));
  return [
    ...(isBinary(estimates) && first !== undefined ? [] : [measured(avg)]),
    ...(first === undefined ? [] : [measured(first)]),
    ...(last === undefined || last === first ? [] : [measured(last)]),
    card('tasks', plainNumber(counts.tasks), `${plainNumber(counts.rollouts)} rollouts`),
    card('without a score', plainNumber(without), without === 0 ? 'every rollout was judged' : `${counts.failed} failed, ${counts.missing} never started`),
    ...(breakdown.cost.total === null ? [] : [card('cost', plainNumber(breakdown.cost.total), `${plainNumber(breakdown.cost.perSolvedRollout)} a solved rollout`)]),
  ].join('');
} // prettier-ignore

function intervalText({ measure, interval }: Overall): string {
  const range = rangeText(measure, interval.low, interval.high);
  return range === '' ? 'no interval: too few tasks' : range.trim().replaceAll(/[()]/g, '');
}

export function estimatesSection({ estimates }: ReportData): string {
  const { passAtK, passHatK, bestAtK, avg, majority } = estimates.estimates;
  const { method } = estimates;
  const level = `${Number((method.confidence * 100).toFixed(2))} %`;
  const points = (list: readonly Overall[]) => list.map(({ k, estimate, interval }) => ({ x: k ?? 1, y: estimate, low: interval.low, high: interval.high }));
  const chart = lineChart({
    label: `pass@k and pass^k by k: ${passAtK.map((each) => `${each.measure} ${percent(each.estimate)}`).join(', ')}`,
    xLabel: 'k rollouts a task',
    yLabel: 'share of tasks',
    xScale: 'binary',
    y: [0, 1],
    format: (value) => `${Math.round(value * 100)} %`,
    series: [{ name: 'pass@k', tone: 1, points: points(passAtK) }, { name: 'pass^k', tone: 2, points: points(passHatK) }],
  });
  const other = new Map([...estimates.otherPolicy.estimates.passAtK, ...estimates.otherPolicy.estimates.passHatK, ...estimates.otherPolicy.estimates.bestAtK, estimates.otherPolicy.estimates.avg].map((each) => [each.measure, each.estimate]));
  const shown = [avg, ...passAtK, ...passHatK.filter(({ k }) => k !== 1), ...(majority ?? []), ...(isBinary(estimates) ? [] : bestAtK.filter(({ k }) => k !== 1))];
  const rows = shown.map((each) => [each.measure === 'avg' ? 'mean score' : each.measure, estimateText(each), each.interval.se === null ? NOTHING : valueOf(each.measure, each.interval.se), each.interval.method, String(each.tasks), leftOutText(each), valueOf(each.measure, other.get(each.measure) ?? null)]);
  const figures = passAtK.length > 1 ? figure(`Bands are ${level} intervals, clustered by task.`, chart + legend([['pass@k: at least one of k solves the task', 1], ['pass^k: all k solve it', 2]])) : '';
  return section(
    'Estimates',
    `Unbiased for every k, on tasks with at least k scored rollouts; mean over ${method.over}. A score of ${plainNumber(method.threshold)} or more solves a task.`,
    pair(...[figures, solvedFigure(estimates)].filter((part) => part !== '')),
    htmlTable('Estimates', ['measure', `estimate (${level})`, 'SE', 'interval', 'tasks', 'left out', `missing ${estimates.otherPolicy.missing === 'zero' ? 'counted as 0' : 'left out'}`], rows),
  );
} // prettier-ignore

function leftOutText({ leftOut }: Overall): string {
  if (leftOut.tasks === 0) return '0';
  return `${leftOut.tasks}${leftOut.becauseOfMissing > 0 ? ` (${leftOut.becauseOfMissing} for missing rollouts)` : ''}`;
}

function solvedFigure({ solved, estimates }: EstimatesAnswer): string {
  const bar = shareBar('Tasks by how many of their rollouts solve them', [
    { name: 'solved by all rollouts', count: solved.all, tone: 3 },
    { name: 'by some', count: solved.some, tone: 1 },
    { name: 'by none', count: solved.none, tone: 2 },
    ...(solved.unjudged > 0 ? [{ name: 'without a score', count: solved.unjudged, tone: 5 as const }] : []),
  ]);
  const boot = estimates.avg.bootstrap;
  const text = boot === null ? '' : `Bootstrap over tasks for the mean score: ${plainNumber(boot.low)} to ${plainNumber(boot.high)} (${boot.resamples.toLocaleString('en-US')} resamples, seed ${boot.seed}).`;
  return figure(text, bar);
} // prettier-ignore

export function envSection({ estimates }: ReportData): string {
  if (estimates.envs.length < 2) return '';
  const rows = estimates.envs.map(({ env, estimates: of, counts }) => {
    const { estimate, interval } = of.avg;
    return { name: env ?? 'no environment', value: estimate, low: interval.low, high: interval.high, tone: 1 as const, text: `${estimateText(of.avg)}, ${counts.tasks} tasks` };
  });
  const chart = intervalChart({ label: `Mean score by environment: ${rows.map(({ name, text }) => `${name} ${text}`).join('; ')}`, rows, format: plainNumber });
  return section('By environment', 'Mean score over the tasks of each environment, with its interval.', figure('', chart));
} // prettier-ignore

export function tasksSection({ tasks }: ReportData): string {
  const rated = tasks.tasks.filter((task): task is TaskLine & { solveRate: number } => task.solveRate !== null);
  if (rated.length === 0) return '';
  const counts = binned(rated.map((task) => task.solveRate), 0, 1, BINS);
  const bins = counts.map((count, place) => ({ name: `${place * BINS}–${(place + 1) * BINS} %`, counts: [count] }));
  const chart = barChart({ label: `Tasks by solve rate: ${bins.map(({ name, counts: [count] }) => `${name} ${count}`).join(', ')}`, xLabel: 'share of rollouts that solve the task', yLabel: 'tasks', bins, tones: [1] });
  const line = (task: TaskLine & { solveRate: number }): string[] => [nameOf(task), task.env ?? NOTHING, `${task.solved} of ${task.n}`, percent(task.solveRate), rangeText('pass', task.low, task.high).trim(), plainNumber(task.mean)];
  const head = ['task', 'env', 'solved', 'solve rate', 'Wilson', 'mean score'];
  const hardest = rated.filter((task) => task.solveRate < 1);
  const undecided = rated.filter((task) => task.solveRate > 0 && task.solveRate < 1).toSorted((a, b) => Math.abs(a.solveRate - 0.5) - Math.abs(b.solveRate - 0.5));
  return section(
    'Tasks',
    'How often each task is solved. Tasks in the middle are those from which there is most to learn.',
    figure('', chart),
    hardest.length === 0 ? '' : folded(`Hardest tasks (${Math.min(MOST_TASKS, hardest.length)} of ${hardest.length} that are not always solved)`, htmlTable('Hardest tasks', head, hardest.slice(0, MOST_TASKS).map(line))),
    undecided.length === 0 ? '' : folded(`Most undecided tasks (${Math.min(MOST_TASKS, undecided.length)} of ${undecided.length})`, htmlTable('Most undecided tasks', head, undecided.slice(0, MOST_TASKS).map(line))),
  );
} // prettier-ignore

export function nameOf({ taskKey, taskHash, id }: Pick<TaskLine, 'taskKey' | 'taskHash' | 'id'>): string {
  return taskKey ?? (taskHash === null ? id : taskHash.slice(0, 12));
}
