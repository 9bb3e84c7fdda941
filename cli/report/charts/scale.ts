/** Axes: from values to places on the page. */

export type Scale = { readonly at: (value: number) => number; readonly ticks: readonly number[] };

/** Round steps (1, 2, 2.5, 5 times a power of ten) that give about `count` ticks inside the domain. */
export function niceTicks(low: number, high: number, count: number): number[] {
  if (!(high > low)) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(0, last - first) + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
}

export function linearScale(domain: readonly [number, number], range: readonly [number, number], count = 5): Scale {
  const [low, high] = domain;
  const [from, to] = range;
  const at = (value: number): number => (high === low ? (from + to) / 2 : from + ((value - low) / (high - low)) * (to - from));
  return { at, ticks: niceTicks(low, high, count) };
}

/** Powers of two, for k. */
export function binaryScale(domain: readonly [number, number], range: readonly [number, number]): Scale {
  const [low, high] = [Math.log2(domain[0]), Math.log2(domain[1])];
  const inner = linearScale([low, high], range);
  const powers = Array.from({ length: 40 }, (_, power) => 2 ** power).filter((value) => value >= domain[0] && value <= domain[1]);
  const last = powers.at(-1) ?? domain[0];
  // the end itself where a label has room there
  const ticks = domain[1] / last > 1.3 ? [...powers, domain[1]] : powers;
  return { at: (value) => inner.at(Math.log2(value)), ticks };
}

/** The smallest domain around finite values, with a little room; [0, 1] when there are none. */
export function domainOf(values: readonly (number | null)[], include: readonly number[] = []): [number, number] {
  const known = [...values, ...include].filter((value): value is number => value !== null && Number.isFinite(value));
  if (known.length === 0) return [0, 1];
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const room = high === low ? Math.max(Math.abs(high) * 0.1, 0.1) : 0;
  return [low - room, high + room];
}
