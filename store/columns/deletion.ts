/** Deleting what a tombstone names: rows leave the tables at once, disk space returns with merges (compact.ts), the log keeps its bytes. */
import { DATA_TABLES } from './all-tables.ts';
import type { ColumnStore, QueryOptions } from './column-store.ts';
import { logIndex } from './tables/log-index.ts';

/** `log_index` stays: its rows become `deleted`. Tombstones are for ever; event ids are no data of the run. */
const KEPT = new Set(['log_index', 'tombstones', 'event_ids']);
const DELETE_TIMEOUT_MS = 600_000;

/**
 * Removes all rows of a run and marks its events as deleted. Idempotent, and safe to repeat after a crash. Deletes by key prefix, never single rows: deleting the
 * winning version of a key would make the version beneath it visible again. Returns how many tables held rows of the run.
 */
export async function deleteRun(store: ColumnStore, project: string, run: string, signal?: AbortSignal): Promise<number> {
  const options: QueryOptions = { params: { project, run }, timeoutMs: DELETE_TIMEOUT_MS, ...(signal ? { signal } : {}) };
  await store.command(MARK_DELETED, options);
  let tables = 0;
  for (const { name } of DATA_TABLES.filter((table) => 'run' in table.columns && !KEPT.has(table.name))) {
    const found = await store.rows(`SELECT 1 AS one FROM ${name} WHERE ${OF_RUN} LIMIT 1`, options);
    if (found.length === 0) continue;
    await store.command(`DELETE FROM ${name} WHERE ${OF_RUN} SETTINGS lightweight_deletes_sync = 1`, options);
    tables++;
  }
  return tables;
}

const OF_RUN = 'project = {project:String} AND run = {run:String}';

/** What a rebuild writes for events of a deleted run: status deleted, no reference to a first event. */
const CHANGED: Readonly<Record<string, string>> = {
  status: "'deleted'",
  reason: "'run_deleted'",
  first_partition: 'NULL',
  first_offset: 'NULL',
};
const LOG_COLUMNS = Object.keys(logIndex.columns);
const MARK_DELETED =
  `INSERT INTO log_index (${LOG_COLUMNS.join(', ')}) SETTINGS async_insert = 0, deduplicate_insert = 'disable' ` +
  `SELECT ${LOG_COLUMNS.map((name) => CHANGED[name] ?? `t.${name}`).join(', ')} FROM log_index AS t FINAL ` +
  `WHERE t.project = {project:String} AND t.run = {run:String} AND t.status != 'deleted' AND t.type != 'run.deleted'`;
