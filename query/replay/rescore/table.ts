/** Before and after, as a table and as numbers. Pure. */
import type { Rescored, ScoreSource } from './scores.ts';

export type RewardChange = {
  readonly name: string;
  readonly scored: number;
  /** Had no such reward before. */
  readonly added: number;
  readonly raised: number;
  readonly lowered: number;
  readonly unchanged: number;
  /** Means over what is a number, both times over the same ones; null = there are none. */
  readonly meanBefore: number | null;
  readonly meanAfter: number | null;
  /** How many the means are over. */
  readonly paired: number;
};

/** By name of the reward, in the order of first appearance. NaN and infinities count as no number in means, and as changed when they change. */
export function changesOf(rescored: readonly Rescored[]): RewardChange[] {
  const names = [...new Set(rescored.map(({ score }) => score.name))];
  return names.map((name) => {
    const mine = rescored.filter(({ score }) => score.name === name);
    const pairs = mine.flatMap(({ before, score }) =>
      isNumber(before?.score) && isNumber(score.score) ? [[before?.score as number, score.score] as const] : [],
    );
    const unchanged = mine.filter(({ before, score }) => before !== null && Object.is(before.score, score.score)).length;
    return {
      name,
      scored: mine.length,
      added: mine.filter(({ before }) => before === null).length,
      raised: pairs.filter(([before, after]) => after > before).length,
      lowered: pairs.filter(([before, after]) => after < before).length,
      unchanged,
      meanBefore: mean(pairs.map(([before]) => before)),
      meanAfter: mean(pairs.map(([, after]) => after)),
      paired: pairs.length,
    };
  });
}

function isNumber(value: number | null | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

function mean(values: readonly number[]): number | null {
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export function rescoreTable(rescored: readonly Rescored[], source: ScoreSource): string {
  const rows = rescored.map(({ rollout, score, before, isSame }) => {
    const place = score.scope === 'rollout' ? '' : `${score.trace ?? ''}${score.scope === 'node' ? `#${score.node ?? ''}` : ''}`;
    const by = before?.source?.version ?? (before === null ? '' : '–');
    return `| ${rollout} | ${place} | ${score.name} | ${before === null ? 'none' : scoreText(before.score)} | ${by} | ${scoreText(score.score)} | ${isSame ? 'stands' : change(before?.score, score.score)} |`;
  });
  const totals = changesOf(rescored).map(
    (c) =>
      `${c.name}: ${c.scored} scored, ${c.added} new, ${c.raised} raised, ${c.lowered} lowered, ${c.unchanged} as before; mean ${numberText(c.meanBefore)} -> ${numberText(c.meanAfter)} over ${c.paired}`,
  );
  return [
    `scored by ${source.name}, version ${source.version} (${source.kind})`,
    '',
    '| rollout | trace | reward | before | version | after | change |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...rows,
    '',
    ...totals,
    '',
  ].join('\n');
}

function change(before: number | null | undefined, after: number | null): string {
  if (!isNumber(before) || !isNumber(after)) return before === undefined ? 'new' : Object.is(before, after) ? 'as before' : 'changed';
  return after === before ? 'as before' : `${after > before ? '+' : ''}${numberText(after - before)}`;
}

function scoreText(score: number | null): string {
  return score === null ? 'null' : numberText(score);
}

function numberText(value: number | null): string {
  return value === null ? 'none' : String(Math.round(value * 1e6) / 1e6);
}
