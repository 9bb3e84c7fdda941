/** Retention: which runs are older than their project allows. The caller appends `run.deleted` for each, so that the log says so too. */
import type { ColumnStore } from './column-store.ts';
import { knownTime } from './known-time.ts';

export type ExpiredRun = { readonly project: string; readonly run: string; readonly days: number };

/**
 * Runs whose newest event is older than the retention of their project and that are not deleted yet. `nowMicros` is the clock that decides. The latest
 * `project.retention_set` by time counts; null days keep everything. A run none of whose events has a known time is kept.
 */
export async function expiredRuns(store: ColumnStore, nowMicros: number, signal?: AbortSignal): Promise<ExpiredRun[]> {
  const rows = await store.rows<{ project: string; run: string; days: string }>(
    `SELECT r.project AS project, r.run AS run, toUInt64(assumeNotNull(k.days)) AS days FROM ` +
      `(SELECT project, run, max(${knownTime('time')}) AS newest FROM log_index FINAL WHERE run != '' AND status = 'stored' AND type != 'run.deleted' GROUP BY project, run) AS r ` +
      `INNER JOIN (SELECT project, tupleElement(argMax(tuple(days), (time, _partition, _offset)), 1) AS days FROM retention FINAL GROUP BY project) AS k ON r.project = k.project ` +
      `WHERE isNotNull(k.days) AND r.newest < fromUnixTimestamp64Micro({now:Int64}, 'UTC') - toIntervalDay(assumeNotNull(k.days)) ` +
      `AND (r.project, r.run) NOT IN (SELECT project, run FROM tombstones) ORDER BY project, run`,
    { params: { now: nowMicros }, ...(signal ? { signal } : {}) },
  );
  return rows.map(({ project, run, days }) => ({ project, run, days: Number(days) }));
}
