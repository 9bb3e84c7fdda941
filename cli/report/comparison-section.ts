/** The section of the page that compares the run with its baseline. */
import type { CompareAnswer } from '../../query/analytics/compare-answer.ts';
import { element, escapeText } from './charts/markup.ts';
import { intervalChart } from './charts/interval-chart.ts';
import { nameOf } from './estimate-sections.ts';
import { figure, folded, htmlTable, section } from './page-parts.ts';
import {
  differenceText,
  headlineOf,
  NOTHING,
  shownMeasures,
  plainNumber,
  pText,
  rangeText,
  sideName,
  valueOf,
  verdictText,
} from './words.ts';

const MOST_TASKS = 25;

export function verdictBanner(compare: CompareAnswer | null): string {
  const comparison = compare?.comparisons[0];
  const headline = comparison === undefined ? undefined : headlineOf(comparison);
  if (compare === null || headline === undefined) return '';
  const kind = headline.verdict === 'better' || headline.verdict === 'worse' ? headline.verdict : 'undecided';
  const text = verdictText(headline, compare.method.confidence).replace(/^(Better|Worse|Not decided)\. /, '');
  const tag = element('span', { class: `tag ${kind}` }, escapeText(headline.verdict));
  return element('section', { class: `verdict ${kind}` }, element('p', {}, tag, escapeText(text)), element('p', { class: 'sub' }, escapeText(`Baseline: ${sideName(compare.base.selection)}`)));
} // prettier-ignore

export function comparisonSection(compare: CompareAnswer | null): string {
  const comparison = compare?.comparisons[0];
  if (compare === null || comparison === undefined) return '';
  const shares = comparison.measures.filter(({ measure, paired }) => measure !== 'avg' && paired.difference !== null);
  const tone = (verdict: string): 1 | 2 | 3 => (verdict === 'better' ? 3 : verdict === 'worse' ? 2 : 1);
  const rows = shares.map(({ measure, paired, pAdjusted, verdict }) => ({ name: measure, value: paired.difference, low: paired.low, high: paired.high, tone: tone(verdict), text: `${differenceText(measure, paired.difference)}, ${pText(pAdjusted)}` }));
  const chart = rows.length === 0 ? '' : figure(
    `Differences in points with ${Number((compare.method.confidence * 100).toFixed(2))} % intervals, paired by task; right of the dashed line the run is better.`,
    intervalChart({ label: `Paired differences: ${rows.map(({ name, text }) => `${name} ${text}`).join('; ')}`, rows, reference: 0, format: (value) => plainNumber(value * 100) }),
  );
  const table = shownMeasures(comparison).map((each) => [
    each.measure === 'avg' ? 'mean score' : each.measure,
    valueOf(each.measure, each.base.estimate),
    valueOf(each.measure, each.other.estimate),
    `${differenceText(each.measure, each.paired.difference)}${rangeText(each.measure, each.paired.low, each.paired.high)}`,
    pText(each.pAdjusted),
    pText(each.paired.p),
    each.mcNemar === null ? NOTHING : pText(each.mcNemar.p),
    `${each.won} / ${each.lost} / ${each.tied}`,
    each.minimumDetectable === null ? NOTHING : differenceText(each.measure, each.minimumDetectable).replace('+', ''),
    each.verdict,
  ]);
  return section(
    `Against ${sideName(compare.base.selection)}`,
    `${comparison.commonTasks} common tasks, paired; ${comparison.onlyBase.count} tasks only in the baseline and ${comparison.onlyOther.count} only in this run are left out.`,
    chart,
    htmlTable('Paired comparison', ['measure', 'baseline', 'now', 'difference', 'sign flip', 't test', 'McNemar', 'won / lost / tied', 'detectable', 'verdict'], table),
    changedTasks(compare),
    comparison.settings.length === 0 ? '' : folded(`Settings that differ (${comparison.settings.length})`, htmlTable('Settings that differ', ['setting', 'baseline', 'now'], comparison.settings.map(({ setting, base, other }) => [setting, base.map(brief).join(' | ') || 'not recorded', other.map(brief).join(' | ') || 'not recorded']))),
    folded('Tasks on one side only', oneSided(compare)),
  );
} // prettier-ignore

function brief(value: string): string {
  return value.length > 120 ? `${value.slice(0, 120)}…` : value;
}

function changedTasks({ comparisons }: CompareAnswer): string {
  const changed = comparisons[0]?.tasks.filter(({ difference }) => difference !== 0) ?? [];
  const rows = changed.slice(0, MOST_TASKS).map((task) => [
    nameOf(task), task.env ?? NOTHING, `${task.base.solved} of ${task.base.n}`, `${task.other.solved} of ${task.other.n}`,
    [differenceText('pass', task.difference), task.difference > 0 ? 'up' : 'down'] as const,
  ]); // prettier-ignore
  return folded(
    `Tasks that changed most (${rows.length})`,
    htmlTable('Tasks that changed most', ['task', 'env', 'before', 'now', 'difference'], rows),
  );
}

function oneSided({ comparisons }: CompareAnswer): string {
  const [comparison] = comparisons;
  if (comparison === undefined) return '';
  const rows = [...comparison.onlyBase.tasks.map((task) => ['baseline', task] as const), ...comparison.onlyOther.tasks.map((task) => ['this run', task] as const)];
  return htmlTable('Tasks on one side only', ['task', 'env', 'only in'], rows.slice(0, 2 * MOST_TASKS).map(([side, task]) => [nameOf(task), task.env ?? NOTHING, side]));
} // prettier-ignore
