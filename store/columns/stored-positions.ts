/** Where the store stands: how far each partition of the log is in the tables. The one place that asks `log_index` for its ends. */
import type { ColumnStore, QueryOptions } from './column-store.ts';

type Row = { readonly partition: number; readonly next: string };

/** Partitions are few and never removed: those once seen are asked for by key. */
const MOST_BY_KEY = 128;
const seen = new WeakMap<ColumnStore, Set<number>>();

/** Partition, as the store numbers it, -> one more than the largest offset in log_index. A block's rows of log_index are written last: what lies before is there in full. */
export async function storedPositions(store: ColumnStore, options: QueryOptions): Promise<Map<number, number>> {
  const known = seen.get(store) ?? new Set<number>();
  seen.set(store, known);
  const rows = await store.rows<Row>(endsSql([...known]), options);
  for (const { partition } of rows) if (known.size < MOST_BY_KEY) known.add(Number(partition));
  return new Map(rows.map(({ partition, next }) => [Number(partition), Number(next)]));
}

/** The end of each known partition by one read in key order; other partitions, if any, by their few marks. */
function endsSql(known: readonly number[]): string {
  const ends = known.map((p) => `SELECT * FROM (SELECT _partition AS partition, toUInt64(_offset + 1) AS next FROM log_index WHERE _partition = ${p} ORDER BY _partition DESC, _offset DESC LIMIT 1)`);
  const rest = `SELECT _partition AS partition, toUInt64(max(_offset) + 1) AS next FROM log_index${known.length === 0 ? '' : ` WHERE _partition NOT IN (${known.join(',')})`} GROUP BY partition`;
  return [...ends, rest].join(' UNION ALL ');
} // prettier-ignore
