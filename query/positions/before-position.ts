/** The SQL condition that a stored row lies before a log position: rows of facts keep their place in the log. */
import type { SqlParams } from '../../store/columns/column-store.ts';
import { FEEDS_PARTITION_BASE } from '../../store/columns/projections/position.ts';
import type { ViewSource } from '../../store/columns/views/view.ts';
import type { LogPosition } from './log-position.ts';

/** `events` and `feeds` are the SQL of the position's vectors, Array(UInt64). A partition that they do not name counts with nothing. */
export function beforeSql(events: string, feeds: string): (alias: string) => string {
  return (t) =>
    `${t}_offset < if(${t}_partition < ${FEEDS_PARTITION_BASE}, arrayElement(${events}, ${t}_partition + 1), arrayElement(${feeds}, ${t}_partition - ${FEEDS_PARTITION_BASE - 1}))`;
}

/** Facts of a project before a position, for statements whose text never changes: project and position are bound by `boundFacts`. */
export const BOUND_FACTS: Required<Pick<ViewSource, 'db' | 'project' | 'before'>> = {
  db: '',
  project: '{project:String}',
  before: beforeSql('{events_before:Array(UInt64)}', '{feeds_before:Array(UInt64)}'),
};

export function boundFacts(project: string, { events, feeds }: LogPosition): SqlParams {
  return { project, events_before: [...events], feeds_before: [...feeds] };
}
