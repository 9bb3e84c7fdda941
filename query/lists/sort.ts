/** The order of a list: asked for as `sort=-reward,started`, made total by the key of the resource. Null comes last, NaN before it, in both directions. */
import { TapedeckError } from '../../base/errors.ts';
import { isSortable, type Field } from './field.ts';
import { findField } from './filter.ts';
import type { Resource } from './resource.ts';
import type { Params } from './sql-params.ts';

export type SortKey = { readonly field: Field; readonly descending: boolean };

/** A value of a sort key in a cursor: 0 = a value, as text; 1 = NaN; 2 = null. */
export type KeyValue = readonly [rank: 0 | 1 | 2, text: string];

const MAX_KEYS = 8;

export function readSort(resource: Resource, text: string | undefined): SortKey[] {
  const asked = text === undefined || text === '' ? resource.sort : text.split(',');
  if (asked.length > MAX_KEYS) throw new TapedeckError('bad_request', `sort: at most ${MAX_KEYS} fields`);
  const keys = asked.map((name): SortKey => {
    const descending = name.startsWith('-');
    const field = findField(resource, descending ? name.slice(1) : name);
    if (!isSortable(field)) throw new TapedeckError('bad_request', `sort: ${field.name} has no order`, { details: { field: field.name } });
    return { field, descending };
  });
  const rest = resource.key.filter((name) => !keys.some((key) => key.field.name === name));
  return [...keys, ...rest.map((name) => ({ field: findField(resource, name), descending: false }))];
}

export function sortText(keys: readonly SortKey[]): string {
  return keys.map(({ field, descending }) => (descending ? '-' : '') + field.name).join(',');
}

/** True when values of the field may be null or NaN, so that the order needs a rank before the value. */
function isRanked({ type, nullable }: Field): boolean {
  return nullable || type === 'float';
}

function rankSql({ sql, type }: Field): string {
  return type === 'float' ? `multiIf(isNull(${sql}), 2, isNaN(${sql}), 1, 0)` : `if(isNull(${sql}), 2, 0)`;
}

/** The value to order by, never NULL or NaN; times as microseconds. */
function valueSql({ sql, type, nullable }: Field): string {
  if (type === 'float') return `if(ifNull(isNaN(${sql}), true), 0., assumeNotNull(${sql}))`;
  if (type === 'time') return nullable ? `ifNull(toUnixTimestamp64Micro(${sql}), 0)` : `toUnixTimestamp64Micro(${sql})`;
  if (!nullable) return sql;
  return type === 'string' ? `ifNull(${sql}, '')` : `ifNull(${sql}, 0)`;
}

export function orderSql(keys: readonly SortKey[]): string {
  const parts = keys.flatMap(({ field, descending }) => [
    ...(isRanked(field) ? [rankSql(field)] : []),
    `${valueSql(field)}${descending ? ' DESC' : ''}`,
  ]);
  return parts.join(', ');
}

/** Columns that let a cursor be made from a row: per key its rank and its value as text; doubles as the integer with their bits. */
export function keyColumns(keys: readonly SortKey[]): string[] {
  return keys.flatMap(({ field }, at) => {
    const value = field.type === 'float' ? `toString(reinterpretAsUInt64(${valueSql(field)}))` : field.type === 'bool' ? `toString(toUInt8(${valueSql(field)}))` : `toString(${valueSql(field)})`; // prettier-ignore
    return [`${isRanked(field) ? rankSql(field) : '0'} AS _r${at}`, `${value} AS _k${at}`];
  });
}

export function keyOf(keys: readonly SortKey[], row: Readonly<Record<string, unknown>>): KeyValue[] {
  return keys.map((_, at) => [Number(row[`_r${at}`]) as KeyValue[0], String(row[`_k${at}`])] as const);
}

/** Rows that come after these values. Written so that a primary key in the same order is used: `a >= x AND (a > x OR …)`. */
export function afterSql(keys: readonly SortKey[], values: readonly KeyValue[], params: Params): string {
  const steps = keys.flatMap(({ field, descending }, at) => {
    const [rank, text] = values[at] as KeyValue;
    const value = { left: valueSql(field), right: placeOf(field, text, params), sign: descending ? '<' : '>' };
    return isRanked(field) ? [{ left: rankSql(field), right: params.add(rank, 'UInt8'), sign: '>' }, value] : [value];
  });
  return steps.reduceRight((rest, { left, right, sign }) => {
    if (rest === '') return `${left} ${sign} ${right}`;
    return `(${left} ${sign}= ${right} AND (${left} ${sign} ${right} OR ${rest}))`;
  }, '');
}

/** Whether values of a cursor are such as `keyOf` gives for these keys: somebody may have written them by hand. */
export function fitsKeys(keys: readonly SortKey[], values: readonly KeyValue[]): boolean {
  return values.every(([rank, text], at) => {
    const field = keys[at]?.field;
    if (field === undefined || (rank > 0 && !isRanked(field))) return false;
    if (field.type === 'string') return true;
    const [least, most] = field.type === 'float' ? [0n, 2n ** 64n - 1n] : [-(2n ** 63n), 2n ** 63n - 1n];
    return /^-?\d{1,20}$/.test(text) && BigInt(text) >= least && BigInt(text) <= most;
  });
}

function placeOf({ type }: Field, text: string, params: Params): string {
  if (type === 'string') return params.add(text, 'String');
  if (type === 'float') return `reinterpretAsFloat64(${params.add(text, 'UInt64')})`;
  return params.add(text, 'Int64');
}
