/**
 * Curves as envelopes: per pixel column the least, the largest and the mean value and how many there were. Nothing is sampled, so no spike can be lost; null, NaN and the
 * infinities are in no mean and are counted apart.
 */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import type { AsOfRequest } from '../lists/as-of.ts';
import type { Field } from '../lists/field.ts';
import type { Filter } from '../lists/filter.ts';
import { asOfPosition, SETTINGS, TIMEOUT_MS } from '../lists/read-list.ts';
import type { Resource } from '../lists/resource.ts';
import { statementOf } from '../lists/statement.ts';
import { positionText, type WantedPosition } from '../positions/log-position.ts';
import { storedFloat } from '../traces/json-float.ts';
import type { JsonFloat } from '../traces/trace-answer.ts';

export type CurvesRequest = {
  readonly resource: Resource;
  readonly project: string;
  readonly filter: Filter;
  readonly x: Field;
  readonly y: readonly Field[];
  /** One curve per value of it. */
  readonly by: Field | null;
  /** Pixel columns. */
  readonly points: number;
  /** The stretch of x, both ends included; all of it when absent. */
  readonly from: number | null;
  readonly to: number | null;
  /** Curves of `by` at most: those with most rows. */
  readonly series: number;
  readonly wanted: WantedPosition;
};

/** Columns of equal length, one entry per pixel column that has rows, ascending. */
export type Envelope = {
  readonly y: string;
  readonly by: string | null;
  readonly bin: readonly number[];
  /** Real values of x in the column; 64-bit ones as strings. Equal: the column is one point. */
  readonly xMin: readonly (JsonFloat | string)[];
  readonly xMax: readonly (JsonFloat | string)[];
  /** Over finite values; null where there are none. */
  readonly min: readonly (JsonFloat | null)[];
  readonly max: readonly (JsonFloat | null)[];
  readonly mean: readonly (JsonFloat | null)[];
  readonly count: readonly number[];
  readonly nulls: readonly number[];
  readonly nan: readonly number[];
  readonly infinity: readonly number[];
  readonly minusInfinity: readonly number[];
};

export type CurvesAnswer = {
  readonly asOf: string;
  /** Ends of the axis; null when no row has an x. */
  readonly from: JsonFloat | string | null;
  readonly to: JsonFloat | string | null;
  readonly points: number;
  readonly curves: readonly Envelope[];
  /** Values of `by` that have rows, and how many of them are drawn. */
  readonly series: { readonly found: number; readonly shown: number };
};

const NUMBERS = new Set(['int', 'long', 'float', 'time']);

/** Errors: `bad_request` for a field without numbers, and those of the store. */
export async function readCurves(store: ColumnStore, request: CurvesRequest, signal: AbortSignal): Promise<CurvesAnswer> {
  const { x, y, by, resource, project, wanted } = request;
  for (const field of [x, ...y])
    if (!NUMBERS.has(field.type)) throw new TapedeckError('bad_request', `${field.name} has no numbers to draw`, { details: { field: field.name } });
  if (by !== null && by.type !== 'string' && by.type !== 'long' && by.type !== 'bool')
    throw new TapedeckError('bad_request', `by: ${by.name} does not name curves`, { details: { field: by.name } });
  const options: QueryOptions = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
  const isSummary = resource.isSummary || [x, ...y, ...(by === null ? [] : [by])].some((field) => field.join === 'agent');
  return asOfPosition(store, { project, isSummary, wanted, options }, (asOf) => curvesAt(store, request, asOf, options));
} // prettier-ignore

function numberSql({ sql, type }: Field): string {
  return type === 'time' ? `toUnixTimestamp64Micro(${sql})` : sql;
}

function byText({ by }: CurvesRequest): string {
  return by === null ? "CAST(NULL, 'Nullable(String)')" : `CAST(toString(${by.sql}), 'Nullable(String)')`;
}

async function curvesAt(store: ColumnStore, request: CurvesRequest, asOf: AsOfRequest, options: QueryOptions): Promise<CurvesAnswer> {
  const { x, points } = request;
  const ends = await endsOf(store, request, asOf, options);
  const empty = { asOf: positionText(asOf.position), points, curves: [] };
  if (ends === null) return { ...empty, from: null, to: null, series: { found: 0, shown: 0 } };
  const { low, high, series } = ends;
  const [from, to] = [request.from ?? Number(low), request.to ?? Number(high)];
  const text = (value: number): JsonFloat | string => (x.type === 'float' ? (storedFloat(value) as JsonFloat) : String(value));
  const shown = series.slice(0, request.series);
  const curves = await Promise.all(
    request.y.map((field) => envelopesOf(store, { request, asOf, options, from, to, series: shown }, field)),
  );
  return { ...empty, from: text(from), to: text(to), curves: curves.flat(), series: { found: series.length, shown: shown.length } };
}

type Ends = { readonly low: string | number; readonly high: string | number; readonly series: readonly (string | null)[] };

/** The stretch of x that has rows, and the curves by how many rows they have. */
async function endsOf(store: ColumnStore, request: CurvesRequest, asOf: AsOfRequest, options: QueryOptions): Promise<Ends | null> {
  const { x, by } = request;
  const value = numberSql(x);
  const { sql, params } = statementOf(request, asOf, by === null ? [x] : [x, by], (bound) => ({
    select: `${byText(request)} AS curve, min(${value}) AS low, max(${value}) AS high, count() AS n`,
    where: rangeSql(request, (edge) => bound.double(edge)),
    rest: 'GROUP BY curve ORDER BY n DESC, curve',
  }));
  const rows = await store.rows<{ curve: string | null; low: string | number; high: string | number }>(sql, { ...options, params: params.values() });
  const [first] = rows;
  if (first === undefined) return null;
  const least = rows.reduce((a, b) => (Number(b.low) < Number(a.low) ? b : a)).low;
  const most = rows.reduce((a, b) => (Number(b.high) > Number(a.high) ? b : a)).high;
  return { low: least, high: most, series: rows.map((row) => row.curve) };
} // prettier-ignore

/** Rows that have a place on the axis. */
function rangeSql({ x, from, to }: CurvesRequest, edge: (value: number) => string): string {
  const value = numberSql(x);
  const parts = [x.type === 'float' ? `isFinite(${value})` : `isNotNull(${value})`];
  if (from !== null) parts.push(`${value} >= ${edge(from)}`);
  if (to !== null) parts.push(`${value} <= ${edge(to)}`);
  return parts.join(' AND ');
}

type Drawing = {
  readonly request: CurvesRequest;
  readonly asOf: AsOfRequest;
  readonly options: QueryOptions;
  readonly from: number;
  readonly to: number;
  readonly series: readonly (string | null)[];
};
type Row = {
  curve: string | null; bin: number; x_min: string | number; x_max: string | number; low: string | number | null; high: string | number | null; mean: string | number | null;
  n: number; nulls: number; nan: number; infinity: number; minus: number;
}; // prettier-ignore

async function envelopesOf(store: ColumnStore, drawing: Drawing, y: Field): Promise<Envelope[]> {
  const { request, asOf, options, from, to, series } = drawing;
  const { x, by, points } = request;
  const at = numberSql(x);
  const { sql, params } = statementOf(request, asOf, [x, y, ...(by === null ? [] : [by])], (bound) => {
    const width = bound.double(to / 2 - from / 2);
    const place = from === to ? '0' : `least(${points - 1}, toInt32(floor((toFloat64(assumeNotNull(${at})) / 2 - ${bound.double(from / 2)}) / ${width} * ${points})))`;
    const names = series.filter((name) => name !== null);
    const isShown = `(${byText(request)} IN ${bound.add(names, 'Array(String)')}${series.includes(null) ? ` OR isNull(${byText(request)})` : ''})`;
    return {
      select: `${byText(request)} AS curve, ${place} AS bin, min(${at}) AS x_min, max(${at}) AS x_max, ${statistics(numberSql(y))}`,
      where: [rangeSql(request, (edge) => bound.double(edge)), ...(by === null ? [] : [isShown])].join(' AND '),
      rest: 'GROUP BY curve, bin ORDER BY curve, bin',
    };
  });
  const rows = await store.rows<Row>(sql, { ...options, params: params.values() });
  return series.map((curve) => envelopeOf(rows.filter((row) => row.curve === curve), { curve, x, y })); // prettier-ignore
} // prettier-ignore

/** Over the finite values, summed in sorted order so that the order of reading cannot change the last bit; and how many others there are. */
function statistics(value: string): string {
  const finite = `groupArrayIf(toFloat64(assumeNotNull(${value})), ifNull(isFinite(${value}), false))`;
  const count = (condition: string): string => `toUInt32(countIf(${condition}))`;
  return (
    `arraySort(${finite}) AS sorted, toUInt32(length(sorted)) AS n, if(n = 0, NULL, sorted[1]) AS low, if(n = 0, NULL, sorted[n]) AS high, ` +
    `if(n = 0, NULL, if(sorted[1] = sorted[n], sorted[1], arraySum(sorted) / n)) AS mean, ` +
    `${count(`isNull(${value})`)} AS nulls, ${count(`isNaN(${value})`)} AS nan, ${count(`toFloat64(${value}) = inf`)} AS infinity, ${count(`toFloat64(${value}) = -inf`)} AS minus`
  );
}

function envelopeOf(
  rows: readonly Row[],
  { curve, x, y }: { readonly curve: string | null; readonly x: Field; readonly y: Field },
): Envelope {
  const onAxis = (value: string | number): JsonFloat | string => (x.type === 'float' ? (storedFloat(value) as JsonFloat) : String(value));
  return {
    y: y.name,
    by: curve,
    bin: rows.map((row) => row.bin),
    xMin: rows.map((row) => onAxis(row.x_min)),
    xMax: rows.map((row) => onAxis(row.x_max)),
    min: rows.map((row) => storedFloat(row.low)),
    max: rows.map((row) => storedFloat(row.high)),
    mean: rows.map((row) => storedFloat(row.mean)),
    count: rows.map((row) => row.n),
    nulls: rows.map((row) => row.nulls),
    nan: rows.map((row) => row.nan),
    infinity: rows.map((row) => row.infinity),
    minusInfinity: rows.map((row) => row.minus),
  };
}
