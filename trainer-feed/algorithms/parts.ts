/** Splits the members of a group into parts that are compared with each other only. */
import type { Member } from './algorithm.ts';

/** Positions of the members of each part, parts in order of first appearance. */
export function partsBy(members: readonly Member[], key: (member: Member) => string): readonly (readonly number[])[] {
  const parts = new Map<string, number[]>();
  for (const [i, member] of members.entries()) {
    const name = key(member);
    const part = parts.get(name);
    if (part === undefined) parts.set(name, [i]);
    else part.push(i);
  }
  return [...parts.values()];
}

/** Applies `score` to the values of each part alone and puts the results back in place. */
export function overParts(
  values: Float64Array,
  parts: readonly (readonly number[])[],
  score: (part: Float64Array) => Float64Array,
): Float64Array {
  const out = new Float64Array(values.length);
  for (const part of parts) {
    const scored = score(Float64Array.from(part, (i) => values[i] as number));
    for (const [k, i] of part.entries()) out[i] = scored[k] as number;
  }
  return out;
}
