/** `--fail-if`: conditions under which a report fails a CI job. */
import type { CompareAnswer } from '../../query/analytics/compare-answer.ts';
import type { EstimatesAnswer } from '../../query/analytics/estimates.ts';
import { fail, ok, type Result } from '../../base/result.ts';
import { pText, valueOf, differenceText } from './words.ts';

export type Gate =
  | {
      readonly kind: 'limit';
      readonly text: string;
      readonly measure: string;
      readonly operator: '<' | '<=' | '>' | '>=';
      readonly limit: number;
    }
  | { readonly kind: 'worse'; readonly text: string; readonly measure: string };

export type GateResult = { readonly text: string; readonly failed: boolean; readonly because: string };

const MEASURE = String.raw`(?:pass@|pass\^|best@|maj@)[1-9]\d{0,5}|avg|unscored`;
const LIMIT = new RegExp(String.raw`^(${MEASURE})\s*(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?)\s*(%?)$`);
/** What a comparison pairs: best@k and maj@k are not among it. */
const PAIRED = String.raw`pass[@^][1-9]\d{0,5}|avg`;
const WORSE = new RegExp(String.raw`^(?:(${PAIRED})\s+)?significantly worse than baseline$`);

/** `pass@1 < 0.8`, `avg <= 12`, `unscored > 5%` (the share of rollouts without a score), `significantly worse than baseline`, `pass@4 significantly worse than baseline`. */
export function parseGate(text: string): Result<Gate> {
  const given = text.trim();
  const limit = LIMIT.exec(given);
  if (limit !== null) {
    const [, measure, operator, number, sign] = limit as unknown as [string, string, '<' | '<=' | '>' | '>=', string, string];
    return ok({ kind: 'limit', text: given, measure, operator, limit: Number(number) / (sign === '%' ? 100 : 1) });
  }
  const worse = WORSE.exec(given);
  if (worse !== null) return ok({ kind: 'worse', text: given, measure: worse[1] ?? 'avg' });
  return fail(
    'usage',
    `"${given}" is no condition: write "pass@1 < 0.8", "avg <= 0.5", "unscored > 5%" or "significantly worse than baseline"`,
  );
}

/** Whether it asks for a vote, which needs the metric that holds the answers. */
export function isVote({ measure }: Gate): boolean {
  return measure.startsWith('maj@');
}

/** The k that a gate needs an estimate for. */
export function kOf({ measure }: Gate): number | null {
  const k = /[@^](\d+)$/.exec(measure)?.[1];
  return k === undefined ? null : Number(k);
}

/** A measure without an estimate fails: nobody knows that it is good enough. */
export function judge(gate: Gate, estimates: EstimatesAnswer, compare: CompareAnswer | null): GateResult {
  return gate.kind === 'limit' ? judgeLimit(gate, estimates) : judgeWorse(gate, compare);
}

function judgeLimit(gate: Gate & { kind: 'limit' }, answer: EstimatesAnswer): GateResult {
  const value = estimateOf(gate.measure, answer);
  const { text, measure, operator, limit } = gate;
  if (value === null || Number.isNaN(value)) return { text, failed: true, because: `${measure} has no estimate` };
  const holds = { '<': value < limit, '<=': value <= limit, '>': value > limit, '>=': value >= limit }[operator];
  return { text, failed: holds, because: `${measure} is ${measure === 'unscored' ? valueOf('pass', value) : valueOf(measure, value)}` };
}

function estimateOf(measure: string, { estimates, counts }: EstimatesAnswer): number | null {
  if (measure === 'avg') return estimates.avg.estimate;
  if (measure === 'unscored') {
    const expected = counts.rollouts - counts.superseded + counts.missing;
    return expected === 0 ? null : (counts.failed + counts.unscored + counts.nan + counts.missing) / expected;
  }
  const all = [...estimates.passAtK, ...estimates.passHatK, ...estimates.bestAtK, ...(estimates.majority ?? [])];
  return all.find((each) => each.measure === measure)?.estimate ?? null;
}

function judgeWorse({ text, measure }: Gate, compare: CompareAnswer | null): GateResult {
  // all of one is any of one, and is compared once
  const compared = measure === 'pass^1' ? 'pass@1' : measure;
  const found = compare?.comparisons[0]?.measures.find((each) => each.measure === compared);
  if (found === undefined) return { text, failed: true, because: `${measure} was not compared` };
  if (found.verdict === 'no data') return { text, failed: true, because: `${measure} has no common task with scores on both sides` };
  return { text, failed: found.verdict === 'worse', because: `${measure} changed by ${differenceText(measure, found.paired.difference)} (${pText(found.pAdjusted)}): ${found.verdict}` };
} // prettier-ignore
