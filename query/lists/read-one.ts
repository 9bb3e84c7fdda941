/** Fetches one row of a resource by its id. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnStore } from '../../store/columns/column-store.ts';
import { positionText, type WantedPosition } from '../positions/log-position.ts';
import type { Filter } from './filter.ts';
import { findField, readFilter } from './filter.ts';
import { narrowed } from './narrow.ts';
import { asOfPosition, SETTINGS, TIMEOUT_MS } from './read-list.ts';
import type { Resource } from './resource.ts';
import { fieldColumns, rowOf } from './row-json.ts';
import { orderSql, readSort } from './sort.ts';
import { statementOf } from './statement.ts';

export type OneRequest = {
  readonly resource: Resource;
  readonly project: string;
  /** The ids in the path, and what else names the row. */
  readonly ids: Readonly<Record<string, unknown>>;
  /** Named rewards and metrics that are wanted besides all fields. */
  readonly also: readonly string[];
  readonly wanted: WantedPosition;
};

/** Rows that are named when an id is ambiguous. */
const SHOWN = 20;

/** Errors: `not_found`; `bad_request` with the keys of the rows where several have the id. */
export async function readOne(
  store: ColumnStore,
  { resource, project, ids, also, wanted }: OneRequest,
  signal: AbortSignal,
): Promise<{ asOf: string; row: Record<string, unknown> }> {
  const options = { signal, timeoutMs: TIMEOUT_MS, settings: SETTINGS };
  const asked: Filter = readFilter(resource, ids, undefined);
  const filter = await narrowed(store, { resource, project, filter: asked }, options);
  const fields = [...resource.fields, ...also.map((name) => findField(resource, name))];
  const order = orderSql(readSort(resource, undefined));
  const isSummary = fields.some((field) => field.join === 'agent') || resource.isSummary;
  return asOfPosition(store, { project, isSummary, wanted, options }, async (asOf) => {
    const { sql, params } = statementOf({ resource, filter }, asOf, fields, () => ({
      select: fieldColumns(fields).join(', '),
      rest: `ORDER BY ${order} LIMIT ${SHOWN}`,
    }));
    const rows = (await store.rows<Record<string, unknown>>(sql, { ...options, params: params.values() })).map((row) => rowOf(fields, row));
    const [row, ...others] = rows;
    if (row === undefined) throw missing(resource, project, ids);
    if (others.length > 0) throw ambiguous(resource, rows);
    return { asOf: positionText(asOf.position), row };
  });
}

function missing(resource: Resource, project: string, ids: Readonly<Record<string, unknown>>): TapedeckError {
  const named = Object.entries(ids).map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', '); // prettier-ignore
  return new TapedeckError('not_found', `there is no ${resource.one} with ${named} in the project ${JSON.stringify(project)}`, {
    details: { ids },
  });
}

function ambiguous(resource: Resource, rows: readonly Record<string, unknown>[]): TapedeckError {
  const keys = rows.map((row) => Object.fromEntries(resource.key.map((name) => [name, row[name]])));
  return new TapedeckError('bad_request', `several ${resource.name} have that id: name ${resource.key.join(', ')} in the query as well`, {
    details: { rows: keys },
  });
}
