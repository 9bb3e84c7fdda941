/** Log positions that the column store knows: what is stored, what is summarised, what lay before a time. */
import { TapedeckError } from '../../base/errors.ts';
import { SUMMARIES_TASK } from '../../store/columns/projector/after-block.ts';
import { logPartition } from '../../store/columns/projections/position.ts';
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { storedPositions } from '../../store/columns/stored-positions.ts';
import { aheadOf, positionText, type LogPosition } from './log-position.ts';

type Row = { readonly partition: number; readonly next: string };

/** Everything that is stored. */
export async function storedPosition(store: ColumnStore, options: QueryOptions): Promise<LogPosition> {
  const ends = await storedPositions(store, options);
  return vector([...ends].map(([partition, next]) => ({ partition, next: String(next) })));
}

/** Everything whose summaries are written. */
export async function summarisedPosition(store: ColumnStore, options: QueryOptions): Promise<LogPosition> {
  return positionOfTask(store, SUMMARIES_TASK, options);
}

/** How far a task that follows the projector has come. */
export async function positionOfTask(store: ColumnStore, task: string, options: QueryOptions): Promise<LogPosition> {
  const sql =
    'SELECT _partition AS partition, toUInt64(max(_offset) + 1) AS next FROM progress WHERE task = {task:String} GROUP BY _partition ORDER BY partition';
  return vector(await store.rows<Row>(sql, { ...options, params: { task } }));
}

/**
 * In each partition everything before the first event of the project whose time is later. Producers' clocks decide, so events that arrive late with an old time can
 * still move it: an answer that must stay the same for ever is asked for by position.
 */
export async function positionAtTime(store: ColumnStore, project: string, micros: number, options: QueryOptions): Promise<LogPosition> {
  const sql =
    `SELECT _partition AS partition, toUInt64(if(countIf(later) = 0, max(_offset) + 1, minIf(_offset, later))) AS next FROM ` +
    `(SELECT _partition, _offset, ifNull(project = {project:String} AND time > fromUnixTimestamp64Micro({micros:Int64}, 'UTC'), false) AS later FROM log_index) ` +
    `GROUP BY _partition ORDER BY partition`;
  return vector(await store.rows<Row>(sql, { ...options, params: { project, micros } }));
}

/** A position that `what` has come to: an answer beyond it would change. Errors: `not_ready`. */
export function heldPosition(asked: LogPosition, held: LogPosition, what: string): LogPosition {
  if (!aheadOf(asked, held)) return asked;
  const stored = positionText(held);
  throw new TapedeckError('not_ready', `${what} has not come as far as ${positionText(asked)}: it holds the log up to ${stored}; ask again later, or for a position it holds`, { details: { stored } });
} // prettier-ignore

function vector(rows: readonly Row[]): LogPosition {
  const position: { events: number[]; feeds: number[] } = { events: [], feeds: [] };
  for (const row of rows) {
    const { topic, partition } = logPartition(Number(row.partition));
    position[topic][partition] = Number(row.next);
  }
  return { events: Array.from(position.events, (n) => n ?? 0), feeds: Array.from(position.feeds, (n) => n ?? 0) };
}
