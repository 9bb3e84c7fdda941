/** How far the rewards of a run agree: judge against code, judge against people, any name against any other. */
import { loadEvaluation, type Selection } from './evaluation.ts';
import type { AnsweredAsOf, Reader } from './reader.ts';
import { amongRollouts } from './chosen-rollouts.ts';
import { cohenKappa, correlation, rankCorrelation, type Fourfold } from './statistics/agreement.ts';
import { mean } from './statistics/moments.ts';
import { floatOf, type StoredFloat } from './stored-number.ts';
import type { Warning } from './warning.ts';

const MAX_RATERS = 20;

export type Rater = { readonly name: string; readonly kind: string | null; readonly source: string | null };

export type Agreement = {
  readonly first: Rater;
  readonly second: Rater;
  /** Rollouts (or traces) that both scored. */
  readonly n: number;
  /** At the threshold: both reach it, only the first, only the second, neither. */
  readonly fourfold: Fourfold;
  readonly agreement: number | null;
  readonly kappa: number | null;
  readonly pearson: number | null;
  readonly spearman: number | null;
  /** Mean of second minus first. */
  readonly bias: number | null;
};

export type JudgesAnswer = {
  readonly project: string;
  readonly asOf: AnsweredAsOf;
  readonly selection: Selection;
  readonly threshold: number;
  readonly raters: readonly (Rater & { readonly scored: number })[];
  readonly agreements: readonly Agreement[];
  readonly warnings: readonly Warning[];
};

type Row = { entity: string; name: string; kind: string | null; source: string | null; score: StoredFloat };

/** A rater is a name with its source: a reward that two judges gave is two raters, each with its latest score. Errors as `loadEvaluation`. */
export async function readJudges(reader: Reader, selection: Selection, threshold: number): Promise<JudgesAnswer> {
  const evaluation = await loadEvaluation(reader, selection, { reward: null, answer: null, chooseBy: null });
  const among = evaluation.isWholeRun ? null : evaluation.rollouts.map((row) => row.rollout);
  const rows = await reader.rows<Row>(
    `SELECT rollout AS entity, name, source_kind AS kind, source_name AS source, tupleElement(argMax(tuple(score), _offset), 1) AS score
     FROM (SELECT rollout, name, source_kind, source_name, score, _offset FROM reward_events FINAL WHERE ${reader.within()} AND run = {run:String} AND scope IN ('rollout', 'trace')${amongRollouts(among)})
     GROUP BY rollout, name, source_kind, source_name ORDER BY entity`,
    { run: selection.run },
  ); // prettier-ignore
  const byRater = [...Map.groupBy(rows, ({ name, kind, source }) => JSON.stringify([name, kind, source]))].toSorted(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const raters = byRater.map(([, said]) => {
    const { name, kind, source } = said[0] as Row;
    const scores = new Map(said.map((row): [string, number | null] => [row.entity, floatOf(row.score)]).filter((pair): pair is [string, number] => pair[1] !== null && Number.isFinite(pair[1])));
    return { rater: { name, kind, source }, scores };
  }); // prettier-ignore
  const compared = raters.slice(0, MAX_RATERS);
  const agreements = compared.flatMap((first, place) => compared.slice(place + 1).map((second) => agreementOf(first, second, threshold)));
  return {
    project: reader.project,
    asOf: reader.asOf,
    selection,
    threshold,
    raters: raters.map(({ rater, scores }) => ({ ...rater, scored: scores.size })),
    agreements: agreements.filter(({ n }) => n > 0),
    warnings:
      raters.length > compared.length
        ? [{ code: 'cut', message: `only the first ${MAX_RATERS} of ${raters.length} raters were compared` }]
        : [],
  };
}

type Scored = { readonly rater: Rater; readonly scores: ReadonlyMap<string, number> };

function agreementOf(first: Scored, second: Scored, threshold: number): Agreement {
  const pairs = [...first.scores].flatMap(([entity, a]): [number, number][] => {
    const b = second.scores.get(entity);
    return b === undefined ? [] : [[a, b]];
  });
  const count = (wanted: (a: boolean, b: boolean) => boolean): number =>
    pairs.filter(([a, b]) => wanted(a >= threshold, b >= threshold)).length;
  const fourfold: Fourfold = [count((a, b) => a && b), count((a, b) => a && !b), count((a, b) => !a && b), count((a, b) => !a && !b)];
  const xs = pairs.map(([a]) => a);
  const ys = pairs.map(([, b]) => b);
  return {
    first: first.rater,
    second: second.rater,
    n: pairs.length,
    fourfold,
    agreement: pairs.length === 0 ? null : (fourfold[0] + fourfold[3]) / pairs.length,
    kappa: cohenKappa(fourfold),
    pearson: correlation(xs, ys),
    spearman: rankCorrelation(xs, ys),
    bias: mean(pairs.map(([a, b]) => b - a)),
  };
}
