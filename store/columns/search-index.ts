/** Fills the word index behind the projector: it costs more than all other tables together, so it never stands in the way of a block. */
import type { ColumnStore } from './column-store.ts';

type Stretch = { readonly partition: number; readonly after: number; readonly upTo: number };

const TASK = 'search';

/**
 * Indexes the text of nodes that were stored since the last call, at most about `maxEvents` log records per partition. Returns how many records were
 * passed; 0 = it has caught up. Progress is written behind the rows: a crash repeats a stretch, which changes nothing.
 */
export async function fillSearchIndex(store: ColumnStore, options: { maxEvents?: number; signal?: AbortSignal } = {}): Promise<number> {
  const query = options.signal ? { signal: options.signal } : {};
  const stretches = await openStretches(store, options.maxEvents ?? 20_000, query);
  if (stretches.length === 0) return 0;
  const inStretch = stretches.map((s) => `(_partition = ${s.partition} AND _offset > ${s.after} AND _offset <= ${s.upTo})`).join(' OR ');
  const columns = 'project, run, rollout, trace, `index`, role, text, _partition, _offset';
  const settings = "SETTINGS async_insert = 0, deduplicate_insert = 'disable'";
  await store.command(
    `INSERT INTO node_search (${columns}) ${settings} SELECT ${columns.replace('text', 'assumeNotNull(text)')} FROM node_payloads WHERE (${inStretch}) AND isNotNull(text) AND text != ''`,
    query,
  );
  const done = stretches.map((s) => `('${TASK}', ${s.partition}, ${s.upTo})`).join(', ');
  await store.command(`INSERT INTO progress (task, _partition, _offset) ${settings} VALUES ${done}`, query);
  return stretches.reduce((sum, s) => sum + s.upTo - s.after, 0);
}

async function openStretches(store: ColumnStore, maxEvents: number, query: { signal?: AbortSignal }): Promise<Stretch[]> {
  const rows = await store.rows<{ partition: number; after: string; up_to: string }>(
    `SELECT l._partition AS partition, ifNull(p.done, -1) AS after, l.stored AS up_to FROM ` +
      `(SELECT _partition, toInt64(max(_offset)) AS stored FROM log_index WHERE _partition < 32768 GROUP BY _partition) AS l ` +
      `LEFT JOIN (SELECT _partition, toInt64(max(_offset)) AS done FROM progress WHERE task = '${TASK}' GROUP BY _partition) AS p ON l._partition = p._partition ` +
      `WHERE up_to > after ORDER BY partition SETTINGS join_use_nulls = 1`,
    query,
  );
  return rows.map((row) => {
    const after = Number(row.after);
    return { partition: Number(row.partition), after, upTo: Math.min(Number(row.up_to), after + maxEvents) };
  });
}
