/** How far each partition of the log is stored, at a cost that does not grow with the log. */
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';

type Row = { readonly p: number; readonly o: string };

/** Partitions are few and never removed, so those once seen in a store are remembered. */
const seen = new WeakMap<ColumnStore, Set<number>>();

/** The last stored offset of each partition, as the store numbers them. */
export async function storedEnds(store: ColumnStore, options: QueryOptions): Promise<Map<number, number>> {
  const known = seen.get(store) ?? new Set();
  seen.set(store, known);
  const rows = await store.rows<Row>(endsSql([...known]), options);
  for (const { p } of rows) known.add(p);
  return new Map(rows.map(({ p, o }) => [p, Number(o)]));
}

/** The end of each known partition by one read in key order; other partitions, if any, by their few marks. */
function endsSql(known: readonly number[]): string {
  const ends = known.map((p) => `SELECT * FROM (SELECT _partition AS p, _offset AS o FROM log_index WHERE _partition = ${p} ORDER BY _partition DESC, _offset DESC LIMIT 1)`);
  const rest = `SELECT _partition AS p, max(_offset) AS o FROM log_index${known.length === 0 ? '' : ` WHERE _partition NOT IN (${known.join(',')})`} GROUP BY p`;
  return [...ends, rest].join(' UNION ALL ');
} // prettier-ignore
