/** Where an id is named without its run: the index of ids says in which run and rollout it lies, so that wide tables are read by key. */
import type { ColumnStore, QueryOptions } from '../../store/columns/column-store.ts';
import { demanded } from './filter-sql.ts';
import type { Filter } from './filter.ts';
import { fieldOf, type Resource } from './resource.ts';

const MAX_PLACES = 100;

/** The filter with the places of its ids added; it admits the same rows. */
export async function narrowed(
  store: ColumnStore,
  { resource, project, filter }: { readonly resource: Resource; readonly project: string; readonly filter: Filter },
  options: QueryOptions,
): Promise<Filter> {
  const [run, rollout, trace] = ['run', 'rollout', 'trace'].map((name) => demanded(filter, name));
  const kind = trace !== undefined && (run === undefined || rollout === undefined) ? 'trace' : rollout !== undefined && run === undefined ? 'rollout' : null; // prettier-ignore
  const hasRollout = fieldOf(resource, 'rollout')?.nullable === false;
  if (kind === null || !hasRollout) return filter;
  const rows = await store.rows<{ run: string; rollout: string }>(
    'SELECT DISTINCT run, rollout FROM ids WHERE project = {project:String} AND kind = {kind:String} AND id = {id:String} ORDER BY run, rollout LIMIT {most:UInt32}',
    { ...options, params: { project, kind, id: kind === 'trace' ? trace : rollout, most: MAX_PLACES + 1 } },
  );
  if (rows.length > MAX_PLACES) return filter;
  const term = (name: string, value: string): Filter[] => {
    const field = fieldOf(resource, name);
    return field === undefined ? [] : [{ kind: 'term', field, op: 'eq', value }];
  };
  const places = rows.map((row): Filter => ({ kind: 'and', parts: [...term('run', row.run), ...term('rollout', row.rollout)] }));
  const [only] = places;
  return { kind: 'and', parts: [filter, only !== undefined && places.length === 1 ? only : { kind: 'or', parts: places }] };
}
