/** The report as one HTML file that needs nothing else: charts are SVG inside it, there is no script. */
import { element, escapeText } from './charts/markup.ts';
import { comparisonSection, verdictBanner } from './comparison-section.ts';
import { cards, envSection, estimatesSection, tasksSection } from './estimate-sections.ts';
import type { GateResult } from './gate.ts';
import { PAGE_STYLE } from './page-style.ts';
import { section } from './page-parts.ts';
import type { ReportData } from './report-data.ts';
import { callsSection, curvesSection, lengthSection, rewardsSection } from './work-sections.ts';
import { sideName } from './words.ts';

export function reportHtml(data: ReportData, gates: readonly GateResult[], command: string): string {
  const { estimates, compare } = data;
  const title = `${sideName(estimates.selection)}${compare === null ? '' : ` against ${sideName(compare.base.selection)}`}`;
  const warnings = [...estimates.warnings, ...(compare?.comparisons[0]?.warnings ?? [])];
  const body = [
    header(data),
    gatesList(gates),
    verdictBanner(compare),
    element('div', { class: 'cards' }, cards(data)),
    warnings.length === 0 ? '' : element('ul', { class: 'notes', 'aria-label': 'Notes' }, ...warnings.map(({ message }) => element('li', {}, escapeText(message)))),
    estimatesSection(data),
    comparisonSection(compare),
    envSection(data),
    curvesSection(data),
    tasksSection(data),
    rewardsSection(data),
    lengthSection(data),
    callsSection(data),
    methodSection(data, command),
  ];
  const head = [
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">`,
    element('title', {}, escapeText(title)),
    `<style>${PAGE_STYLE}</style>`,
  ];
  return `<!doctype html>\n<html lang="en"><head>${head.join('')}</head><body><main>${body.filter((part) => part !== '').join('\n')}</main></body></html>\n`;
} // prettier-ignore

function header({ estimates }: ReportData): string {
  const { selection, method, model, project } = estimates;
  const facts: [string, string | null][] = [
    ['model', model],
    ['project', project === 'default' ? null : project],
    ['env', selection.env ?? (estimates.envs.length === 1 ? (estimates.envs[0]?.env ?? null) : `${estimates.envs.length} environments`)],
    ['judged by', method.reward ?? 'the reward'],
    ['missing rollouts', method.missing === 'excluded' ? 'left out' : 'count as 0'],
  ];
  const shown = facts.flatMap(([name, value]) => (value === null ? [] : [`${escapeText(name)} ${element('b', {}, escapeText(value))}`]));
  return element('header', {}, element('h1', {}, escapeText(sideName(selection))), element('p', { class: 'sub' }, shown.join(' · ')));
} // prettier-ignore

function gatesList(gates: readonly GateResult[]): string {
  if (gates.length === 0) return '';
  const items = gates.map(({ text, failed, because }) => element('p', {}, element('span', { class: `tag ${failed ? 'failed' : 'passed'}` }, failed ? 'failed' : 'passed'), element('code', {}, escapeText(text)), ` ${escapeText(because)}`));
  return element('section', { class: gates.some(({ failed }) => failed) ? 'verdict worse' : 'verdict better' }, ...items);
} // prettier-ignore

function methodSection({ estimates }: ReportData, command: string): string {
  const text = [
    'pass@k and pass^k are the unbiased estimators of Chen et al. 2021 (arXiv 2107.03374) and Yao et al. 2024 (arXiv 2406.12045). The task is the unit: standard errors are the deviation of the estimates per task over the root of the number of tasks, with a t interval (Miller 2024, arXiv 2411.00640); Wilson or Clopper-Pearson over tasks where each task has one binary outcome or all are equal.',
    'Comparisons are paired over common tasks. p-values come from the sign-flip permutation test, adjusted by Holm where there are several comparisons; "detectable" is the smallest true difference that would be found in 80 % of tries.',
    `Everything was computed at one position of the log: ${estimates.asOf.position}. The same command gives the same figures for ever:`,
  ];
  return section('Method', '', ...text.map((each) => element('p', {}, escapeText(each))), element('pre', {}, escapeText(command)));
} // prettier-ignore
