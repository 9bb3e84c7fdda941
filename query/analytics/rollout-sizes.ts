/** How long rollouts were and why they stopped, as of a position: by the rules of the summaries (store/columns/summary-sql.ts). */
import { TRUNCATING } from '../../store/columns/summary-sql.ts';
import { amongRollouts } from './chosen-rollouts.ts';
import type { Reader } from './reader.ts';
import type { RolloutRow } from './rollout-row.ts';
import { sum } from './statistics/moments.ts';
import { floatOf, intOf, type StoredFloat, type StoredInt } from './stored-number.ts';

export type RolloutSize = {
  readonly turns: number;
  readonly branches: number;
  readonly calls: number;
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  /** As reported by the calls; null where none reported one. */
  readonly cost: number | null;
  readonly stopCondition: string | null;
  /** Null while unknown. */
  readonly truncated: boolean | null;
};

type Trace = { readonly rollout: string; readonly trace: string };
type GraphRow = Trace & { turns: StoredInt; branches: StoredInt; all_tokens: StoredInt; own_tokens: StoredInt };
type CallRow = Trace & { calls: StoredInt; prompt: StoredInt; completion: StoredInt; spent: StoredFloat; last_finish: string | null };
type LifeRow = Trace & {
  trainable: boolean | null;
  stop: string | null;
  cut: boolean | null;
  start: StoredInt;
  ends: StoredInt;
  truncating: boolean;
};

const latest = (column: string): string => `argMaxIf(${column}, _offset, isNotNull(${column}))`;
const PARENTS = 'groupUniqArray(assumeNotNull(if(isNull(parent), 4294967295, parent)))';

/** Sizes of the given rollouts of a run (`null`: of all of them). */
export async function readSizes(reader: Reader, run: string, rollouts: readonly RolloutRow[], among: readonly string[] | null): Promise<Map<string, RolloutSize>> {
  const within = `${reader.within()} AND run = {run:String}${amongRollouts(among)} AND trace != ''`;
  const [graphs, calls, lives] = await Promise.all([
    reader.rows<GraphRow>(
      `SELECT rollout, trace, countIf(sampled) AS turns, length(groupUniqArray(index)) - length(arrayIntersect(groupUniqArray(index), ${PARENTS})) AS branches,
        sumOrNull(tokens) AS all_tokens, sumOrNull(sampled_tokens) AS own_tokens
       FROM (SELECT rollout, trace, index, parent, sampled, tokens, sampled_tokens FROM nodes FINAL WHERE ${within}) GROUP BY rollout, trace`,
      { run },
    ),
    reader.rows<CallRow>(
      `SELECT rollout, trace, count() AS calls, sumOrNull(prompt_tokens) AS prompt, sumOrNull(completion_tokens) AS completion,
        if(count(cost) = 0, NULL, arraySum(arraySort(groupArray(cost)))) AS spent, tupleElement(argMax(tuple(finish_reason), index), 1) AS last_finish
       FROM (SELECT rollout, trace, index, prompt_tokens, completion_tokens, cost, finish_reason FROM calls FINAL WHERE ${within}) GROUP BY rollout, trace`,
      { run },
    ),
    reader.rows<LifeRow>(
      `SELECT rollout, trace, ${latest('trainable')} AS trainable, ${latest('stop_condition')} AS stop, ${latest('truncated')} AS cut, toUnixTimestamp64Micro(ifNull(${latest('started')}, minIf(nullIf(time, toDateTime64(0, 6, 'UTC')), type = 'trace.started'))) AS start,
        countIf(type = 'trace.ended') AS ends, ifNull(stop IN ${TRUNCATING}, false) AS truncating
       FROM (SELECT rollout, trace, type, trainable, stop_condition, truncated, started, time, _offset FROM trace_events FINAL WHERE ${within}) GROUP BY rollout, trace`,
      { run },
    ),
  ]);
  const byRollout = <T extends Trace>(rows: readonly T[]): Map<string, T[]> => Map.groupBy(rows, (row) => row.rollout);
  const parts = { graphs: byRollout(graphs), calls: byRollout(calls), lives: byRollout(lives) };
  return new Map(rollouts.map((row) => [row.rollout, sizeOf(row, { graphs: parts.graphs.get(row.rollout) ?? [], calls: parts.calls.get(row.rollout) ?? [], lives: parts.lives.get(row.rollout) ?? [] })]));
} // prettier-ignore

type Parts = { readonly graphs: readonly GraphRow[]; readonly calls: readonly CallRow[]; readonly lives: readonly LifeRow[] };

function sizeOf(row: RolloutRow, { graphs, calls, lives }: Parts): RolloutSize {
  const traces = [...new Set([...graphs, ...calls, ...lives].map(({ trace }) => trace))];
  const of = <T extends Trace>(rows: readonly T[], trace: string): T | undefined => rows.find((each) => each.trace === trace);
  const tokens = traces.map((trace) => {
    const graph = of(graphs, trace);
    const call = of(calls, trace);
    const all = graph === undefined ? null : intOf(graph.all_tokens);
    if (all === null) return { input: intOf(call?.prompt ?? null), output: intOf(call?.completion ?? null) };
    return { input: all - (intOf(graph?.own_tokens ?? null) ?? 0), output: intOf(graph?.own_tokens ?? null) };
  });
  const costs = calls.map(({ spent }) => floatOf(spent)).filter((cost) => cost !== null);
  const cuts = traces.map((trace) => cutOf(of(lives, trace), of(calls, trace))).filter((cut) => cut !== null);
  return {
    turns: total(graphs.map(({ turns }) => Number(turns))) ?? 0,
    branches: total(graphs.map(({ branches }) => Number(branches))) ?? 0,
    calls: total(calls.map((call) => Number(call.calls))) ?? 0,
    inputTokens: total(tokens.map(({ input }) => input)),
    outputTokens: total(tokens.map(({ output }) => output)),
    cost: costs.length === 0 ? null : sum(costs),
    stopCondition: row.stopCondition ?? stopOf(lives),
    truncated: TRUNCATING.includes(`'${row.stopCondition}'`) ? true : cuts.length === 0 ? null : cuts.includes(true),
  };
}

function total(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length === 0 ? null : known.reduce((all, value) => all + value, 0);
}

/** An own flag, else what stop condition and last answer say; null while the trace has not ended. */
function cutOf(life: LifeRow | undefined, call: CallRow | undefined): boolean | null {
  if (life !== undefined && life.cut !== null) return life.cut;
  if (life === undefined || Number(life.ends) === 0) return null;
  return Boolean(life.truncating) || call?.last_finish === 'length';
}

/** The agent that is trained and began first speaks for the rollout. */
function stopOf(lives: readonly LifeRow[]): string | null {
  const speaking = lives.filter((life) => life.stop !== null && life.trainable !== false);
  const start = (life: LifeRow): number => intOf(life.start) ?? Infinity;
  const [first] = speaking.toSorted((a, b) => start(a) - start(b) || (a.trace < b.trace ? -1 : 1));
  return first?.stop ?? null;
}
