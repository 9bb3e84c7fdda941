/** Rank markers: cursors at even distances in a list, so that a scroll bar can jump into the middle of a million rows. */
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import type { AsOfRequest } from './as-of.ts';
import { cursorAfter, type ListRequest } from './list-request.ts';
import { keyColumns, keyOf, orderSql } from './sort.ts';
import { statementOf } from './statement.ts';

export type Markers = {
  /** Rows of the whole list. */
  readonly total: string;
  /** Rows between markers: the list read with `cursors[i]` begins at rank (i + 1) * step, counted from 0. */
  readonly step: string;
  readonly cursors: readonly string[];
};

export async function readMarkers(store: ColumnStore, request: ListRequest, asOf: AsOfRequest, options: QueryOptions): Promise<Markers> {
  const { sort, markers } = request;
  const fields = sort.map((key) => key.field);
  const { sql, params } = statementOf(request, asOf, fields, () => ({
    select: `${keyColumns(sort).join(', ')}, row_number() OVER (ORDER BY ${orderSql(sort)}) AS _rank, count() OVER () AS _total`,
  }));
  const step = `greatest(1, intDivOrZero(_total + ${params.add(markers, 'UInt32')} - 1, ${params.add(markers, 'UInt32')}))`;
  const rows = await store.rows<Record<string, unknown>>(
    `SELECT *, ${step} AS _step FROM (${sql}) WHERE _rank % _step = 0 OR _rank = _total ORDER BY _rank`,
    { ...options, params: params.values() },
  );
  const last = rows.at(-1);
  if (last === undefined) return { total: '0', step: '1', cursors: [] };
  const [total, distance] = [Number(last['_total']), Number(last['_step'])];
  const inside = rows.filter((row) => Number(row['_rank']) % distance === 0 && Number(row['_rank']) < total);
  return {
    total: String(total),
    step: String(distance),
    cursors: inside.map((row) => cursorAfter(request, asOf.position, keyOf(sort, row))),
  };
}
