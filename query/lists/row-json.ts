/** Rows of a list as JSON values: null is null, 64-bit integers are strings, doubles that JSON lacks are `{"$float": …}`. */
import { storedFloat } from '../traces/json-float.ts';
import type { Field } from './field.ts';

/** The columns of a statement that carry these fields, as `_f0`, `_f1`, … */
export function fieldColumns(fields: readonly Field[]): string[] {
  return fields.map((field, at) => `${columnSql(field)} AS _f${at}`);
}

function columnSql({ sql, type }: Field): string {
  if (type === 'time') return `toUnixTimestamp64Micro(${sql})`;
  if (type === 'bool') return `CAST(${sql}, 'Nullable(Bool)')`;
  return sql;
}

export function rowOf(fields: readonly Field[], row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const named: [string, unknown][] = fields.map((field, at) => [field.name, cellOf(field, row[`_f${at}`])]);
  return Object.fromEntries(named); // own properties, whatever the names
}

function cellOf({ type }: Field, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  switch (type) {
    case 'float':
      return storedFloat(value as number | string);
    case 'long':
    case 'time':
      return String(value as string | number);
    case 'int':
      return Number(value);
    case 'string':
    case 'bool':
    case 'strings':
    case 'json':
    case 'floats':
    case 'ints':
    case 'records':
      return value;
  }
}
