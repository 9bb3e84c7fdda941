/** What the rollouts did: tools, calls to models, errors. Aggregated in the store; durations in seconds. */
import { amongRollouts } from '../chosen-rollouts.ts';
import type { Reader } from '../reader.ts';
import { floatOf, intOf, type StoredFloat, type StoredInt } from '../stored-number.ts';

export type Spread = {
  readonly n: number;
  readonly p50: number | null;
  readonly p90: number | null;
  readonly p99: number | null;
  readonly max: number | null;
};

export type ToolPart = {
  readonly name: string;
  readonly runs: number;
  readonly failed: number;
  readonly rollouts: number;
  readonly seconds: Spread;
  readonly errors: readonly { readonly type: string; readonly count: number }[];
};

export type CallPart = {
  readonly model: string | null;
  readonly calls: number;
  readonly failed: number;
  readonly retries: number;
  readonly promptTokens: number | null;
  readonly completionTokens: number | null;
  readonly cachedTokens: number | null;
  readonly reasoningTokens: number | null;
  readonly cost: number | null;
  readonly seconds: Spread;
  readonly secondsToFirstToken: Spread;
  /** Completion tokens over the time from the first token (or, without one, from the request) to the end, per call. */
  readonly tokensPerSecond: Spread;
  readonly finishReasons: readonly { readonly reason: string | null; readonly count: number }[];
  readonly errors: readonly { readonly type: string; readonly count: number }[];
};

export type ErrorPart = { readonly scope: string; readonly type: string; readonly count: number; readonly rollouts: number };

type SpreadCells = [StoredInt, [StoredFloat, StoredFloat, StoredFloat] | [], StoredFloat];
/** Count, quantiles (linear between order statistics) and largest of a nullable float, in one tuple. */
const spread = (value: string): string =>
  `tuple(count(${value}), if(count(${value}) = 0, [], quantilesExactInclusiveIf(0.5, 0.9, 0.99)(ifNull(${value}, 0), isNotNull(${value}))), maxOrNull(${value}))`;
const seconds = (from: string, to: string): string => `(toUnixTimestamp64Micro(${to}) - toUnixTimestamp64Micro(${from})) / 1e6`;
const counted = (value: string, condition: string): string => `sumMapIf([ifNull(toString(${value}), '')], [toUInt64(1)], ${condition})`;
type Counted = [string[], StoredInt[]];

export async function readToolParts(reader: Reader, run: string, among: readonly string[] | null): Promise<ToolPart[]> {
  const rows = await reader.rows<{
    name: string;
    runs: StoredInt;
    failed: StoredInt;
    rollouts: StoredInt;
    time: SpreadCells;
    kinds: Counted;
  }>(
    `SELECT name, count() AS runs, countIf(is_error) AS failed, uniqExact(rollout) AS rollouts, ${spread('took')} AS time, ${counted('kind', 'is_error')} AS kinds
     FROM (SELECT rollout, name, isNotNull(error) OR isNotNull(error_type) AS is_error, ifNull(error_type, 'error') AS kind, ${seconds('started', 'ended')} AS took
       FROM tools FINAL WHERE ${reader.within()} AND run = {run:String}${amongRollouts(among)}) GROUP BY name ORDER BY runs DESC, name`,
    { run },
  );
  return rows.map(({ name, runs, failed, rollouts, time, kinds }) => ({
    name, runs: Number(runs), failed: Number(failed), rollouts: Number(rollouts), seconds: spreadOf(time),
    errors: countsOf(kinds).map(([type, count]) => ({ type, count })),
  })); // prettier-ignore
}

type CallRow = {
  model: string | null; calls: StoredInt; failed: StoredInt; retries: StoredInt; prompt: StoredInt; completion: StoredInt; cached: StoredInt; reasoning: StoredInt;
  spent: StoredFloat; time: SpreadCells; first: SpreadCells; speed: SpreadCells; finishes: Counted; kinds: Counted;
}; // prettier-ignore

export async function readCallParts(reader: Reader, run: string, among: readonly string[] | null): Promise<CallPart[]> {
  const rows = await reader.rows<CallRow>(
    `SELECT model, count() AS calls, countIf(isNotNull(error_type)) AS failed, countIf(isNotNull(retry_of)) AS retries, sumOrNull(prompt_tokens) AS prompt,
      sumOrNull(completion_tokens) AS completion, sumOrNull(cached_tokens) AS cached, sumOrNull(reasoning_tokens) AS reasoning,
      if(count(cost) = 0, NULL, arraySum(arraySort(groupArray(cost)))) AS spent, ${spread('took')} AS time, ${spread('wait')} AS first, ${spread('rate')} AS speed,
      ${counted('finish_reason', 'isNull(error_type)')} AS finishes, ${counted('error_type', 'isNotNull(error_type)')} AS kinds
     FROM (SELECT model, error_type, retry_of, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cost, finish_reason,
        ${seconds('started', 'ended')} AS took, ${seconds('started', 'first_token')} AS wait, ${seconds('ifNull(first_token, started)', 'ended')} AS writing,
        if(writing > 0, completion_tokens / writing, NULL) AS rate
       FROM calls FINAL WHERE ${reader.within()} AND run = {run:String}${amongRollouts(among)}) GROUP BY model ORDER BY calls DESC, model`,
    { run },
  ); // prettier-ignore
  return rows.map((row) => ({
    model: row.model,
    calls: Number(row.calls),
    failed: Number(row.failed),
    retries: Number(row.retries),
    promptTokens: intOf(row.prompt),
    completionTokens: intOf(row.completion),
    cachedTokens: intOf(row.cached),
    reasoningTokens: intOf(row.reasoning),
    cost: floatOf(row.spent),
    seconds: spreadOf(row.time),
    secondsToFirstToken: spreadOf(row.first),
    tokensPerSecond: spreadOf(row.speed),
    finishReasons: countsOf(row.finishes).map(([reason, count]) => ({ reason: reason === '' ? null : reason, count })),
    errors: countsOf(row.kinds).map(([type, count]) => ({ type, count })),
  }));
}

export async function readErrorParts(reader: Reader, run: string, among: readonly string[] | null): Promise<ErrorPart[]> {
  const rows = await reader.rows<{ scope: string; type: string; number: StoredInt; rollouts: StoredInt }>(
    `SELECT scope, type, count() AS number, uniqExactIf(rollout, rollout != '') AS rollouts FROM (SELECT scope, type, rollout FROM errors FINAL
     WHERE ${reader.within()} AND run = {run:String}${amongRollouts(among)}) GROUP BY scope, type ORDER BY number DESC, scope, type`,
    { run },
  );
  return rows.map(({ scope, type, number, rollouts }) => ({ scope, type, count: Number(number), rollouts: Number(rollouts) }));
}

function spreadOf([n, quantiles, max]: SpreadCells): Spread {
  const at = (place: number): number | null => floatOf(quantiles[place] ?? null);
  return { n: Number(n), p50: at(0), p90: at(1), p99: at(2), max: floatOf(max) };
}

function countsOf([names, counts]: Counted): [string, number][] {
  return names
    .map((name, place): [string, number] => [name, Number(counts[place])])
    .toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
}
