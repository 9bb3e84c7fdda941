/** Puts the statement of a list together: view as of a position, joins, filter, order. */
import { viewSelect } from '../../store/columns/views/view.ts';
import { sourceAsOf, type AsOfRequest } from './as-of.ts';
import type { Field } from './field.ts';
import { demanded, filterSql } from './filter-sql.ts';
import type { Filter } from './filter.ts';
import { joinSql } from './joins.ts';
import { resolveNamed } from './named-field.ts';
import type { Resource } from './resource.ts';
import { Params } from './sql-params.ts';

export type Query = { readonly resource: Resource; readonly filter: Filter };
export type Statement = { readonly sql: string; readonly params: Params };

/**
 * `build` gives the parts in front of and behind `FROM … WHERE …`; conditions it adds are joined with AND. Only what the parts use is joined.
 */
export function statementOf(
  { resource, filter }: Query,
  asOf: AsOfRequest,
  uses: readonly Field[],
  build: (params: Params) => { readonly select: string; readonly where?: string; readonly rest?: string },
): Statement {
  const params = new Params();
  const source = sourceAsOf(asOf, params);
  const { select, where, rest } = build(params);
  const narrow = ['run', 'rollout'].flatMap((name) => {
    const value = demanded(filter, name);
    return value === undefined ? [] : [` AND ${name} = ${params.add(value, 'String')}`];
  });
  const condition = `${filterSql(filter, params)}${where === undefined || where === '' ? '' : ` AND ${where}`}`;
  const joined = new Set([...uses, ...fieldsIn(filter)].flatMap((field) => (field.join === undefined ? [] : [field.join])));
  const runOnly = narrow.slice(0, demanded(filter, 'run') === undefined ? 0 : 1).join('');
  const joins = [...joined].map((name) => joinSql(name, resource.name, source, narrow.join(''))).join(' ');
  const text = `SELECT ${select} FROM (${viewSelect(resource.view, source)}) AS v ${joins} /*joins*/ WHERE ${condition} ${rest ?? ''}`;
  const named = resolveNamed(text, resource, { source, params, where: runOnly });
  return { sql: `${named.sql.replace('/*joins*/', () => named.joins)} SETTINGS join_use_nulls = 1`, params };
}

export function fieldsIn(filter: Filter): Field[] {
  if (filter.kind === 'term') return [filter.field];
  return (filter.kind === 'not' ? [filter.part] : filter.parts).flatMap(fieldsIn);
}
