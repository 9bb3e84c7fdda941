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
const SHOWN_TASKS = 8;
const MOST_TASKS = 40;

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

export function estimatesSection({ estimates, tasks }: ReportData): string {
  const { passAtK, passHatK, bestAtK, avg, majority } = estimates.estimates;
  const { method } = estimates;
  const level = `${Number((method.confidence * 100).toFixed(2))} %`;
  const other = new Map([...estimates.otherPolicy.estimates.passAtK, ...estimates.otherPolicy.estimates.passHatK, ...estimates.otherPolicy.estimates.bestAtK, estimates.otherPolicy.estimates.avg].map((each) => [each.measure, each.estimate]));
  const isPlain = isBinary(estimates);
  const shown = [...(isPlain && passAtK.length > 0 ? [] : [avg]), ...passAtK, ...passHatK.filter(({ k }) => k !== 1), ...(majority ?? []), ...(isPlain ? [] : bestAtK.filter(({ k }) => k !== 1))];
  const rows = shown.map((each) => [each.measure === 'avg' ? 'mean score' : each.measure, estimateText(each), each.interval.se === null ? NOTHING : valueOf(each.measure, each.interval.se), each.interval.method, String(each.tasks), leftOutText(each), valueOf(each.measure, other.get(each.measure) ?? null)]);
  const drawn = [passAtKFigure(estimates, level), solvedFigure(estimates) + solveRateFigure(tasks.tasks)].filter((part) => part !== '');
  return section(
    'Estimates',
    `Unbiased for every k, on tasks with at least k scored rollouts; mean over ${method.over}. A score of ${plainNumber(method.threshold)} or more solves a task.`,
    pair(...drawn),
    htmlTable('Estimates', ['measure', `estimate (${level})`, 'SE', 'interval', 'tasks', 'left out', `missing ${estimates.otherPolicy.missing === 'zero' ? 'counted as 0' : 'left out'}`], rows),
  );
} // prettier-ignore

function passAtKFigure({ estimates: { passAtK, passHatK } }: EstimatesAnswer, level: string): string {
  if (passAtK.length < 2) return '';
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
  return figure(`Bands are ${level} intervals, clustered by task.`, chart + legend([['pass@k: at least one of k solves the task', 1], ['pass^k: all k solve it', 2]]));
} // prettier-ignore

/** Says more than the shares only where tasks have several rollouts. */
function solveRateFigure(tasks: readonly TaskLine[]): string {
  const rates = tasks.map((task) => task.solveRate).filter((rate) => rate !== null);
  if (!tasks.some((task) => task.n > 1)) return '';
  const counts = binned(rates, 0, 1, BINS);
  const bins = counts.map((count, place) => ({ name: `${place * BINS}–${(place + 1) * BINS}`, counts: [count] }));
  return figure('', barChart({ label: `Tasks by solve rate: ${bins.map(({ name, counts: [count] }) => `${name} % ${count}`).join(', ')}`, xLabel: 'rollouts that solve the task, %', yLabel: 'tasks', bins, tones: [1] }));
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
  const line = (task: TaskLine & { solveRate: number }): string[] => [nameOf(task), `${task.solved} of ${task.n}`, `${percent(task.solveRate)}${rangeText('pass', task.low, task.high)}`, plainNumber(task.mean)];
  const list = (title: string, chosen: readonly (TaskLine & { solveRate: number })[]): string => {
    if (chosen.length === 0) return '';
    const head = ['task', 'solved', 'solve rate (Wilson)', 'mean score'];
    const rest = chosen.slice(SHOWN_TASKS, MOST_TASKS);
    return `<h3>${title} (${Math.min(SHOWN_TASKS, chosen.length)} of ${chosen.length})</h3>${htmlTable(title, head, chosen.slice(0, SHOWN_TASKS).map(line))}${folded(`${rest.length} more`, htmlTable(`More: ${title}`, head, rest.map(line)))}`;
  };
  const hardest = rated.filter((task) => task.solveRate < 1);
  const undecided = rated.filter((task) => task.solveRate > 0 && task.solveRate < 1).toSorted((a, b) => Math.abs(a.solveRate - 0.5) - Math.abs(b.solveRate - 0.5));
  const lists = [list('Hardest', hardest), list('Most undecided', undecided)].filter((part) => part !== '');
  return lists.length === 0 ? '' : section('Tasks', 'Undecided tasks, solved by some rollouts and not by others, are those from which there is most to learn.', pair(...lists));
} // prettier-ignore

export function nameOf({ taskKey, taskHash, id }: Pick<TaskLine, 'taskKey' | 'taskHash' | 'id'>): string {
  return taskKey ?? (taskHash === null ? id : taskHash.slice(0, 12));
}
