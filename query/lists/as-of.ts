/**
 * Lists as of a log position. Facts keep their offset, so a position is a filter. Summaries hold only their latest state: those of rollouts that were touched on the wrong
 * side of the position are computed again from the facts, all others are read as they are.
 *
 * Which are touched is a fixed stretch of the log, from what the summaries surely hold to what they may hold. A refresh that runs beside a query can pass the end of that
 * stretch; `hasLeaked` finds that out afterwards, by the version of the summaries, and the query is made again.
 */
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { FEEDS_PARTITION_BASE } from '../../store/columns/projections/position.ts';
import { rolloutSummaryAsOf, traceSummaryAsOf } from '../../store/columns/summary-sql.ts';
import { rolloutSummary } from '../../store/columns/tables/rollout-summary.ts';
import { traceSummary } from '../../store/columns/tables/trace-summary.ts';
import type { ViewSource } from '../../store/columns/views/view.ts';
import { beforeSql } from '../positions/before-position.ts';
import { earlier, eventsBefore, later, type LogPosition } from '../positions/log-position.ts';
import type { Params } from './sql-params.ts';

/** Where one rollout is. */
export type RolloutPlace = { readonly run: string; readonly rollout: string };

export type AsOfRequest = {
  readonly project: string;
  readonly position: LogPosition;
  /** Up to where the summaries were refreshed when the query was begun. */
  readonly summarised: LogPosition;
  /** The only rollout whose summaries are read; absent: any. */
  readonly rollout?: RolloutPlace;
};

/** The views of a project as of a position, for `viewSelect`. */
export function sourceAsOf(request: AsOfRequest, params: Params): ViewSource {
  const project = params.add(request.project, 'String');
  const events = params.add([...request.position.events], 'Array(UInt64)');
  const feeds = params.add([...request.position.feeds], 'Array(UInt64)');
  const before = beforeSql(events, feeds);
  const { from, to } = doubtful(request);
  const stretch = stretchSql(from, to, params);
  const facts = { db: '', project, before };
  if (stretch === null) return facts;
  const touched = touchedSql(project, stretch, request.rollout, params);
  const asOf = { db: '', before: before(''), touched };
  return {
    ...facts,
    summary: (table) => {
      const columns = Object.keys((table === 'rollout_summary' ? rolloutSummary : traceSummary).columns).filter(
        (name) => name !== '_version',
      );
      const again = table === 'rollout_summary' ? rolloutSummaryAsOf(asOf) : traceSummaryAsOf(asOf);
      const list = columns.map((name) => `\`${name}\``).join(', ');
      return (
        `(SELECT ${list} FROM ${table} FINAL WHERE project = ${project} AND (run, rollout) NOT IN (SELECT run, rollout FROM (${touched})) ` +
        `UNION ALL SELECT ${list} FROM ${again})`
      );
    },
  };
}

/** The stretch in which the summaries may differ from the position. */
function doubtful({ position, summarised }: AsOfRequest): { from: LogPosition; to: LogPosition } {
  return { from: earlier(position, summarised), to: later(position, summarised) };
}

/** True when a summary was refreshed, while the query ran, with facts beyond what the query knew about. */
export async function hasLeaked(store: ColumnStore, request: AsOfRequest, params: Params, options: QueryOptions): Promise<boolean> {
  const { to } = doubtful(request);
  const project = params.add(request.project, 'String');
  const touched = touchedSql(project, stretchSql(to, null, params) ?? 'false', request.rollout, params);
  const version = params.add(eventsBefore(to), 'UInt64');
  const rows = await store.rows<{ found: number }>(
    `SELECT 1 AS found FROM rollout_summary WHERE project = ${project} AND _version > ${version} AND (run, rollout) IN (SELECT run, rollout FROM (${touched})) LIMIT 1`,
    { ...options, params: params.values() },
  );
  return rows.length > 0;
}

function touchedSql(project: string, stretch: string, only: RolloutPlace | undefined, params: Params): string {
  const which = only === undefined ? "run != '' AND rollout != ''" : `run = ${params.add(only.run, 'String')} AND rollout = ${params.add(only.rollout, 'String')}`;
  return `SELECT DISTINCT project, run, rollout FROM log_index WHERE (${stretch}) AND project = ${project} AND ${which} AND status = 'stored'`;
} // prettier-ignore

/** Records of the events topic from one position to another, or to the end; null when there are none. Written so that the primary key of `log_index` serves. */
function stretchSql(from: LogPosition, to: LogPosition | null, params: Params): string | null {
  const parts = from.events.flatMap((start, partition) => {
    const end = to === null ? null : (to.events[partition] ?? 0);
    if (end !== null && end <= start) return [];
    const low = `_partition = ${params.add(partition, 'UInt16')} AND _offset >= ${params.add(start, 'UInt64')}`;
    return [end === null ? `(${low})` : `(${low} AND _offset < ${params.add(end, 'UInt64')})`];
  });
  if (to === null) parts.push(`(_partition >= ${params.add(from.events.length, 'UInt16')} AND _partition < ${FEEDS_PARTITION_BASE})`);
  return parts.length === 0 ? null : parts.join(' OR ');
}
