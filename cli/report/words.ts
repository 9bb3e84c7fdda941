/** Numbers and findings in words, the same in HTML and Markdown. */
import type { Comparison } from '../../query/analytics/compare-answer.ts';
import type { PairedMeasure } from '../../query/analytics/compare.ts';
import type { Selection } from '../../query/analytics/evaluation.ts';
import type { Overall } from '../../query/analytics/overall.ts';

/** What was not measured. */
export const NOTHING = '–';

export function isShareMeasure(measure: string): boolean {
  return /^(pass|maj)/.test(measure);
}

/** A share as per cent with one digit. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return NOTHING;
  return `${(value * 100).toFixed(1)} %`;
}

/** Up to four significant digits, thousands apart; never in exponents below a million millions. */
export function plainNumber(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '-∞';
  const size = Math.abs(value);
  if (size >= 1e12 || (size > 0 && size < 1e-4)) return value.toExponential(2);
  if (size >= 1000) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(size >= 1 ? 4 : 3)));
}

export function valueOf(measure: string, value: number | null): string {
  return isShareMeasure(measure) ? percent(value) : plainNumber(value);
}

/** `62.5 % (48.1 to 76.9)`. */
export function estimateText({ measure, estimate, interval }: Pick<Overall, 'measure' | 'estimate' | 'interval'>): string {
  if (estimate === null) return NOTHING;
  return `${valueOf(measure, estimate)}${rangeText(measure, interval.low, interval.high)}`;
}

export function rangeText(measure: string, low: number | null, high: number | null): string {
  if (low === null || high === null) return '';
  const bare = (value: number): string => valueOf(measure, value).replace(' %', '');
  return ` (${bare(low)} to ${bare(high)})`;
}

export function pText(p: number | null | undefined): string {
  if (p === null || p === undefined) return NOTHING;
  return p < 0.001 ? 'p < 0.001' : `p = ${p.toFixed(3)}`;
}

/** A difference with its sign, in points for shares. */
export function differenceText(measure: string, value: number | null): string {
  if (value === null) return NOTHING;
  const sign = value > 0 ? '+' : value < 0 ? '−' : '±';
  return isShareMeasure(measure) ? `${sign}${(Math.abs(value) * 100).toFixed(1)} points` : `${sign}${plainNumber(Math.abs(value))}`;
}

export function sideName({ run, policyVersion }: Selection): string {
  return policyVersion === undefined ? run : `${run} at version ${policyVersion}`;
}

/** The measures without the mean score where scores are 0 and 1 and it is pass@1 once more. */
export function shownMeasures({ measures }: Comparison): PairedMeasure[] {
  const pass = measures.find(({ measure }) => measure === 'pass@1');
  const isSame = (each: PairedMeasure): boolean =>
    each.base.estimate === pass?.base.estimate && each.other.estimate === pass?.other.estimate;
  return measures.filter((each) => each.measure !== 'avg' || pass === undefined || !isSame(each));
}

/** The measure people ask about first: the mean score, or pass@1 where that says the same. */
export function headlineOf(comparison: Comparison): PairedMeasure | undefined {
  return shownMeasures(comparison)[0];
}

/** What the comparison says, in one or two sentences. */
export function verdictText(measure: PairedMeasure, confidence: number): string {
  const { verdict, paired, base, other, tasks } = measure;
  const name = measure.measure === 'avg' ? 'the mean score' : measure.measure;
  if (verdict === 'no data') return `Nothing can be said about ${name}: no common task has scores on both sides.`;
  const level = `${Number((confidence * 100).toFixed(2))} %`;
  const range = paired.low === null || paired.high === null ? '' : `${level} interval ${differenceText(measure.measure, paired.low)} to ${differenceText(measure.measure, paired.high)}, `;
  const found = `On ${tasks} common tasks ${name} went from ${valueOf(measure.measure, base.estimate)} to ${valueOf(measure.measure, other.estimate)}: ${differenceText(measure.measure, paired.difference)} (${range}${pText(measure.pAdjusted)}).`;
  if (verdict === 'better') return `Better. ${found}`;
  if (verdict === 'worse') return `Worse. ${found}`;
  return `Not decided. ${found}${powerText(measure)}`;
} // prettier-ignore

function powerText({ measure, minimumDetectable, tasksNeeded }: PairedMeasure): string {
  const detectable = minimumDetectable === null || minimumDetectable === 0 ? '' : ` With these tasks a true difference of ${differenceText(measure, minimumDetectable).replace('+', '')} would be found in 80 % of tries.`;
  const needed = tasksNeeded === null ? '' : ` To find the difference seen here, about ${tasksNeeded.toLocaleString('en-US')} tasks are needed.`;
  return `${detectable}${needed}`;
} // prettier-ignore

/** The command that makes the report again, the same for ever. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:@=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
