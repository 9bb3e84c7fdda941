import type { JsonFloat } from './trace-answer.ts';

/** A double in JSON: those that JSON lacks as `{"$float": …}`. */
export function floatText(value: number): JsonFloat {
  if (Number.isFinite(value)) return value;
  return { $float: Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity' };
}

const STORED: Readonly<Record<string, number>> = { nan: NaN, '-nan': NaN, inf: Infinity, '-inf': -Infinity };

/** A float as the column store gives it in JSON ("nan", "inf" and "-inf" as strings) in our form. */
export function storedFloat(value: number | string | null): JsonFloat | null {
  if (value === null) return null;
  return floatText(typeof value === 'number' ? value : (STORED[value] ?? Number(value)));
}
