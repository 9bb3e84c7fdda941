/** Whitening over tokens: (x - m)/sqrt(v + 1e-8), m and v (n - 1) over all trained tokens of the frozen batch, so that long rows weigh more. As verl masked_whiten. */
import type { BatchScore, FrozenMember } from './algorithm.ts';
import { allEqual, countedMoments, sum } from './arithmetic.ts';

const FLOOR = 1e-8;

/** Whitens one value per member, counted once per trained token. Fewer than 2 tokens, or all tokens equal: 0. */
export function whitenMembers(members: readonly FrozenMember[], values: Float64Array): BatchScore {
  const counts = Float64Array.from(members, (m) => tokensOf(m));
  const { mean, variance, count } = countedMoments(values, counts);
  const divisor = Math.sqrt(variance + FLOOR);
  return {
    values: values.map((value) => (count < 2 ? 0 : (value - mean) / divisor)),
    statistics: { members: members.length, tokens: count, mean, std: Math.sqrt(variance) },
  };
}

/** Whitens one value per trained token of each row. */
export function whitenTokens(members: readonly FrozenMember[], tokens: readonly (readonly Float64Array[])[]): BatchScore {
  const count = tokens.reduce((total, rows) => total + rows.reduce((n, row) => n + row.length, 0), 0);
  const all = new Float64Array(count);
  let at = 0;
  for (const row of tokens.flat()) {
    all.set(row, at);
    at += row.length;
  }
  const equal = allEqual(all);
  const mean = equal ? (all[0] ?? 0) : sum(all) / count;
  const variance = equal ? 0 : sum(all.map((value) => (value - mean) ** 2)) / (count - 1);
  const divisor = Math.sqrt(variance + FLOOR);
  return {
    values: new Float64Array(members.length),
    tokens: tokens.map((rows) => rows.map((row) => row.map((value) => (count < 2 ? 0 : (value - mean) / divisor)))),
    statistics: { members: members.length, tokens: count, mean, std: Math.sqrt(variance) },
  };
}

function tokensOf(member: FrozenMember): number {
  return member.rows.reduce((total, row) => total + row.tokens, 0);
}
