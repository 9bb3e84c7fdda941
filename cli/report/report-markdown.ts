/** The report as Markdown: for a terminal, or the comment on a pull request. */
import type { CompareAnswer } from '../../query/analytics/compare-answer.ts';
import { visible } from '../render/terminal-text.ts';
import type { GateResult } from './gate.ts';
import type { ReportData } from './report-data.ts';
import {
  differenceText,
  estimateText,
  headlineOf,
  NOTHING,
  plainNumber,
  pText,
  rangeText,
  shownMeasures,
  sideName,
  valueOf,
  verdictText,
} from './words.ts';

/** Tasks in each list. */
const MOST_TASKS = 10;

/** Markup characters of names are escaped; line breaks and what could move a cursor are shown as escapes. */
export function escapeMarkdown(text: string): string {
  return visible(text.toWellFormed()).replaceAll(/[\\`*_[\]<>|#~]/g, (c) => `\\${c}`);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, place) => (place === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

export function reportMarkdown(data: ReportData, gates: readonly GateResult[], command: string): string {
  const { estimates, breakdown } = data;
  const { counts, method } = estimates;
  const parts = [
    `# ${escapeMarkdown(sideName(estimates.selection))}`,
    gatesText(gates),
    comparisonText(data.compare),
    `**${counts.tasks} tasks, ${counts.rollouts} rollouts** (${counts.scored} with a score). Judged by ${method.reward === null ? 'the reward' : `the reward "${escapeMarkdown(method.reward)}"`}, solved at ${plainNumber(method.threshold)} or more; ` +
      `mean over ${method.over}; rollouts without a score are ${method.missing === 'excluded' ? 'left out' : 'counted as 0'}.`,
    warningsText(estimates.warnings.map(({ message }) => message)),
    estimatesTable(data),
    solvedText(data),
    breakdown.rewards.length === 0 ? '' : `## Rewards\n\n${table(['reward', 'mean', 'sd', 'weight', 'n', 'missing'], breakdown.rewards.map((part) => [escapeMarkdown(part.name), plainNumber(part.score.mean), plainNumber(part.score.sd), part.weights.map(plainNumber).join(', '), String(part.score.n), String(part.missing + part.nan)]))}`,
    workText(data),
    `Computed at position \`${estimates.asOf.position}\`; the same again: \`${command}\``,
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
} // prettier-ignore

function gatesText(gates: readonly GateResult[]): string {
  if (gates.length === 0) return '';
  return gates.map(({ text, failed, because }) => `- ${failed ? '**failed**' : 'passed'}: \`${text}\`: ${because}`).join('\n');
}

function warningsText(messages: readonly string[]): string {
  return messages.map((message) => `> Note: ${escapeMarkdown(message)}.`).join('\n>\n');
}

function estimatesTable({ estimates }: ReportData): string {
  const { passAtK, passHatK, bestAtK, avg, majority } = estimates.estimates;
  const level = `${Number((estimates.method.confidence * 100).toFixed(2))} %`;
  const other = new Map([...estimates.otherPolicy.estimates.passAtK, estimates.otherPolicy.estimates.avg, ...estimates.otherPolicy.estimates.passHatK].map((each) => [each.measure, each]));
  const rows = [avg, ...passAtK, ...passHatK.filter(({ k }) => k !== 1), ...(majority ?? []), ...(majority === null && isBinary(estimates) ? [] : bestAtK.filter(({ k }) => k !== 1))].map((each) => [
    each.measure === 'avg' ? 'mean score' : each.measure,
    estimateText(each),
    each.interval.method,
    String(each.tasks),
    each.leftOut.tasks === 0 ? '0' : `${each.leftOut.tasks}${each.leftOut.becauseOfMissing > 0 ? ` (${each.leftOut.becauseOfMissing} for missing rollouts)` : ''}`,
    valueOf(each.measure, other.get(each.measure)?.estimate ?? null),
  ]);
  return `## Estimates\n\n${table(['measure', `estimate (${level})`, 'interval', 'tasks', 'left out', `missing ${estimates.otherPolicy.missing === 'zero' ? 'as 0' : 'left out'}`], rows)}`;
} // prettier-ignore

/** For scores of 0 and 1 best@k is pass@k once more. */
export function isBinary({ estimates, method }: ReportData['estimates']): boolean {
  return method.threshold === 1 && method.chooseBy === null && estimates.bestAtK.every(({ k, estimate }) => estimate === null || Math.abs(estimate - (estimates.passAtK.find((each) => each.k === k)?.estimate ?? Infinity)) < 1e-9);
} // prettier-ignore

function solvedText({ estimates, tasks }: ReportData): string {
  const { none, some, all, unjudged } = estimates.solved;
  const hardest = tasks.tasks.filter((task) => task.solveRate !== null && task.solveRate < 1).slice(0, MOST_TASKS);
  const list = hardest.length === 0 ? '' : `\n\n${table(['hardest tasks', 'solved', 'mean score'], hardest.map((task) => [escapeMarkdown(task.taskKey ?? task.taskHash?.slice(0, 12) ?? NOTHING), `${task.solved} of ${task.n}`, plainNumber(task.mean)]))}`;
  return `## Tasks\n\nSolved by none ${none}, by some ${some}, by all ${all} of their rollouts${unjudged > 0 ? `; ${unjudged} without a score` : ''}.${list}`;
} // prettier-ignore

function workText({ breakdown }: ReportData): string {
  const { length, truncated, stops, errors, tools, cost, calls } = breakdown;
  const lines = [
    `- output tokens: ${plainNumber(length.outputTokens.mean)} in the mean, ${plainNumber(length.outputTokens.p90)} at p90; solved ${plainNumber(length.outputTokensSolved.mean)}, not solved ${plainNumber(length.outputTokensUnsolved.mean)}`,
    `- turns: ${plainNumber(length.turns.mean)} in the mean, ${plainNumber(length.turns.max)} at most; truncated: ${truncated.yes} of ${truncated.yes + truncated.no + truncated.unknown}`,
    `- stops: ${stops.slice(0, 6).map((stop) => `${escapeMarkdown(stop.stopCondition ?? 'not said')} ${stop.rollouts}`).join(', ')}`,
    ...(errors.length === 0 ? [] : [`- errors: ${errors.slice(0, 6).map((error) => `${escapeMarkdown(error.type)} ${error.count}`).join(', ')}`]),
    ...(tools.length === 0 ? [] : [`- tools: ${tools.slice(0, 6).map((tool) => `${escapeMarkdown(tool.name)} ${tool.runs}${tool.failed > 0 ? ` (${tool.failed} failed)` : ''}`).join(', ')}`]),
    ...calls.slice(0, 4).map((call) => `- calls to ${escapeMarkdown(call.model ?? 'a model without a name')}: ${call.calls}, ${call.failed} failed, p50 ${plainNumber(call.seconds.p50)} s, ${plainNumber(call.tokensPerSecond.p50)} tokens/s`),
    ...(cost.total === null ? [] : [`- cost: ${plainNumber(cost.total)} in all, ${plainNumber(cost.perSolvedRollout)} a solved rollout`]),
  ];
  return `## Work\n\n${lines.join('\n')}`;
} // prettier-ignore

function comparisonText(compare: CompareAnswer | null): string {
  const comparison = compare?.comparisons[0];
  if (compare === null || comparison === undefined) return '';
  const headline = headlineOf(comparison);
  const rows = shownMeasures(comparison).map((each) => [
    each.measure === 'avg' ? 'mean score' : each.measure,
    valueOf(each.measure, each.base.estimate),
    valueOf(each.measure, each.other.estimate),
    `${differenceText(each.measure, each.paired.difference)}${rangeText(each.measure, each.paired.low, each.paired.high)}`,
    pText(each.pAdjusted),
    `${each.won} / ${each.lost} / ${each.tied}`,
    each.verdict,
  ]);
  const changed = comparison.tasks.filter(({ difference }) => difference !== 0).slice(0, MOST_TASKS);
  const list = changed.length === 0 ? '' : `\n\n${table(['changed most', 'before', 'now'], changed.map((task) => [escapeMarkdown(task.taskKey ?? task.taskHash?.slice(0, 12) ?? task.id), `${task.base.solved} of ${task.base.n}`, `${task.other.solved} of ${task.other.n}`]))}`;
  return [
    headline === undefined ? '' : `**${verdictText(headline, compare.method.confidence)}**`,
    warningsText(comparison.warnings.map(({ message }) => message)),
    `## Against ${escapeMarkdown(sideName(compare.base.selection))}\n\n${table(['measure', 'baseline', 'now', 'difference', 'p', 'won / lost / tied', 'verdict'], rows)}${list}`,
  ]
    .filter((part) => part !== '')
    .join('\n\n');
} // prettier-ignore
