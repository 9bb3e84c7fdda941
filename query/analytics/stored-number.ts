/** Numbers as the column store gives them in JSON: 64-bit integers as strings, floats that JSON lacks as "nan", "inf", "-inf". */

export type StoredInt = string | number | null;
export type StoredFloat = string | number | null;

const LACKING: Readonly<Record<string, number>> = { nan: NaN, '-nan': NaN, inf: Infinity, '-inf': -Infinity };

export function intOf(value: StoredInt): number | null {
  return value === null ? null : Number(value);
}

export function floatOf(value: StoredFloat): number | null {
  if (value === null || typeof value === 'number') return value;
  return LACKING[value] ?? Number(value);
}
