/** Histograms for the headers of a list, over all rows that its filter admits. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { storedFloat } from '../traces/json-float.ts';
import type { JsonFloat } from '../traces/trace-answer.ts';
import type { AsOfRequest } from './as-of.ts';
import { isFilterable, type Field } from './field.ts';
import type { ListRequest } from './list-request.ts';
import { statementOf } from './statement.ts';

/** Numbers in bins of equal width from `min` to `max` (both included); what has no place on that axis is counted apart. */
export type NumberHistogram = {
  readonly kind: 'numbers';
  readonly nulls: string;
  readonly nan: string;
  readonly infinity: string;
  readonly minusInfinity: string;
  /** Null when no row has a finite value. 64-bit integers are strings. */
  readonly min: JsonFloat | string | null;
  readonly max: JsonFloat | string | null;
  readonly bins: readonly string[];
};
/** The most frequent values; `others` counts the rows with one that is not listed. */
export type ValueHistogram = {
  readonly kind: 'values';
  readonly nulls: string;
  readonly distinct: string;
  readonly values: readonly { readonly value: string | boolean; readonly count: string }[];
  readonly others: string;
};
export type Histogram = NumberHistogram | ValueHistogram;

const BINS = 32;
const VALUES = 20;

type Ask = { readonly store: ColumnStore; readonly request: ListRequest; readonly asOf: AsOfRequest; readonly options: QueryOptions };

export async function readHistograms(
  store: ColumnStore,
  request: ListRequest,
  asOf: AsOfRequest,
  options: QueryOptions,
): Promise<Record<string, Histogram>> {
  const ask = { store, request, asOf, options };
  const entries = await Promise.all(request.histograms.map(async (field) => [field.name, await histogramOf(ask, field)] as const));
  return Object.fromEntries(entries);
}

async function histogramOf(ask: Ask, field: Field): Promise<Histogram> {
  if (!isFilterable(field) || field.type === 'strings') {
    throw new TapedeckError('bad_request', `histograms: ${field.name} has no histogram`, { details: { field: field.name } });
  }
  return field.type === 'string' || field.type === 'bool' ? valuesOf(ask, field) : numbersOf(ask, field);
}

/** The value as a double, for bins, and as it is, for the ends. */
function numberSql({ sql, type }: Field): string {
  return type === 'time' ? `toUnixTimestamp64Micro(${sql})` : sql;
}

async function numbersOf(ask: Ask, field: Field): Promise<NumberHistogram> {
  const isFloat = field.type === 'float';
  const x = numberSql(field);
  const isPlain = isFloat ? `isFinite(${x})` : `isNotNull(${x})`;
  const special = isFloat
    ? [`countIf(isNaN(${x}))`, `countIf(${x} = inf)`, `countIf(${x} = -inf)`]
    : ['toUInt64(0)', 'toUInt64(0)', 'toUInt64(0)'];
  const ends = await one(ask, field, [
    `countIf(isNull(${x})) AS nulls`,
    `${special[0]} AS nan`,
    `${special[1]} AS infinity`,
    `${special[2]} AS minus_infinity`,
    `countIf(${isPlain}) AS finite`,
    `minIf(${x}, ${isPlain}) AS low`,
    `maxIf(${x}, ${isPlain}) AS high`,
  ]);
  const counted = { kind: 'numbers', nulls: String(ends['nulls']), nan: String(ends['nan']), infinity: String(ends['infinity']), minusInfinity: String(ends['minus_infinity']) } as const; // prettier-ignore
  if (Number(ends['finite']) === 0) return { ...counted, min: null, max: null, bins: [] };
  const [low, high] = [ends['low'] as string | number, ends['high'] as string | number];
  const [min, max] = isFloat ? [storedFloat(low), storedFloat(high)] : [String(low), String(high)];
  const [from, to] = [Number(low), Number(high)];
  if (from === to) return { ...counted, min, max, bins: [String(ends['finite'])] };
  const bins = isFloat ? BINS : Math.min(BINS, to - from + 1);
  const counts = await binsOf(ask, field, { from, to, bins, isPlain });
  return { ...counted, min, max, bins: counts };
}

async function binsOf(
  ask: Ask,
  field: Field,
  { from, to, bins, isPlain }: { readonly from: number; readonly to: number; readonly bins: number; readonly isPlain: string },
): Promise<string[]> {
  const { store, request, asOf, options } = ask;
  const x = `toFloat64(assumeNotNull(${numberSql(field)}))`;
  const isCounted = field.type !== 'float' && to - from + 1 <= BINS; // one bin per integer
  const { sql, params } = statementOf(request, asOf, [field], (bound) => {
    const place = isCounted
      ? `${x} - ${bound.double(from)}`
      : // halves, since the distance of two doubles may be beyond the largest one
        `(${x} / 2 - ${bound.double(from / 2)}) / ${bound.double(to / 2 - from / 2)} * ${bins}`;
    return { select: `least(${bins - 1}, toInt32(floor(${place}))) AS bin, count() AS n`, where: isPlain, rest: 'GROUP BY bin' };
  });
  const rows = await store.rows<{ bin: number; n: string }>(sql, { ...options, params: params.values() });
  const counts = Array.from({ length: bins }, () => '0');
  for (const { bin, n } of rows) counts[Number(bin)] = String(n);
  return counts;
}

async function valuesOf(ask: Ask, field: Field): Promise<ValueHistogram> {
  const { store, request, asOf, options } = ask;
  const totals = await one(ask, field, [
    `countIf(isNull(${field.sql})) AS nulls`,
    `count(${field.sql}) AS present`,
    `uniqExact(${field.sql}) AS different`,
  ]);
  const { sql, params } = statementOf(request, asOf, [field], () => ({
    select: `${field.type === 'bool' ? `CAST(${field.sql}, 'Nullable(Bool)')` : field.sql} AS value, count() AS n`,
    where: `isNotNull(${field.sql})`,
    rest: `GROUP BY value ORDER BY n DESC, value LIMIT ${VALUES}`,
  }));
  const rows = await store.rows<{ value: string | boolean; n: string }>(sql, { ...options, params: params.values() });
  const listed = rows.reduce((sum, { n }) => sum + Number(n), 0);
  return {
    kind: 'values',
    nulls: String(totals['nulls']),
    distinct: String(totals['different']),
    values: rows.map(({ value, n }) => ({ value, count: String(n) })),
    others: String(Number(totals['present']) - listed),
  };
}

async function one({ store, request, asOf, options }: Ask, field: Field, columns: readonly string[]): Promise<Record<string, unknown>> {
  const { sql, params } = statementOf(request, asOf, [field], () => ({ select: columns.join(', ') }));
  const [row] = await store.rows<Record<string, unknown>>(sql, { ...options, params: params.values() });
  return row ?? {};
}
