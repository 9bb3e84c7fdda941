/** Filters as SQL conditions with typed parameters. */
import type { Field } from './field.ts';
import type { Filter } from './filter.ts';
import type { FilterValue } from './filter-value.ts';
import type { Params } from './sql-params.ts';

/** True or NULL-as-false; under `not` and for `ne` the unknown is made false explicitly. */
export function filterSql(filter: Filter, params: Params): string {
  switch (filter.kind) {
    case 'not':
      return `NOT ifNull(${filterSql(filter.part, params)}, false)`;
    case 'and':
    case 'or': {
      if (filter.parts.length === 0) return filter.kind === 'and' ? 'true' : 'false';
      return `(${filter.parts.map((part) => filterSql(part, params)).join(filter.kind === 'and' ? ' AND ' : ' OR ')})`;
    }
    case 'term':
      return termSql(filter, params);
  }
}

const SIGNS = { lt: '<', le: '<=', gt: '>', ge: '>=' } as const;

function termSql({ field, op, value }: Filter & { kind: 'term' }, params: Params): string {
  const e = field.sql;
  const one = value as FilterValue;
  switch (op) {
    case 'null':
      return one === true ? `isNull(${e})` : `isNotNull(${e})`;
    case 'nan':
      return one === true ? `isNaN(${e})` : `NOT ifNull(isNaN(${e}), false)`;
    case 'eq':
      return equalSql(field, one, params);
    case 'ne':
      return notSql(field, equalSql(field, one, params));
    case 'in':
      return inSql(field, value as readonly FilterValue[], params);
    case 'nin':
      return notSql(field, inSql(field, value as readonly FilterValue[], params));
    case 'lt':
    case 'le':
    case 'gt':
    case 'ge':
      return `${e} ${SIGNS[op]} ${valueSql(field, one, params)}`;
    case 'contains':
      if (field.type === 'strings') return `has(${e}, ${params.add(one, 'String')})`;
      return `position(${e}, ${params.add(one, 'String')}) > 0`;
    case 'icontains':
      return `positionCaseInsensitiveUTF8(${e}, ${params.add(one, 'String')}) > 0`;
    case 'starts':
      return `startsWith(${e}, ${params.add(one, 'String')})`;
  }
}

function notSql({ nullable }: Field, condition: string): string {
  return nullable ? `NOT ifNull(${condition}, false)` : `NOT ${condition}`;
}

function equalSql(field: Field, value: FilterValue, params: Params): string {
  if (typeof value === 'number' && Number.isNaN(value)) return `isNaN(${field.sql})`;
  return `${field.sql} = ${valueSql(field, value, params)}`;
}

function inSql(field: Field, values: readonly FilterValue[], params: Params): string {
  if (values.length === 0) return 'false';
  if (field.type === 'string') return `${field.sql} IN ${params.add(values, 'Array(String)')}`;
  return `(${values.map((value) => equalSql(field, value, params)).join(' OR ')})`;
}

function valueSql({ type }: Field, value: FilterValue, params: Params): string {
  switch (type) {
    case 'float':
      return params.double(value as number);
    case 'bool':
      return params.add(value, 'Bool');
    case 'time':
      return `fromUnixTimestamp64Micro(${params.add(String(value), 'Int64')}, 'UTC')`;
    case 'int':
    case 'long':
      return params.add(String(value), 'Int64');
    case 'string':
    case 'strings':
    case 'json':
    case 'floats':
    case 'ints':
    case 'records':
      return params.add(value, 'String');
  }
}

/** What the filter demands of a string field everywhere: lets other relations be read by key. */
export function demanded(filter: Filter, name: string): string | undefined {
  if (filter.kind === 'and') {
    for (const part of filter.parts) {
      const found = demanded(part, name);
      if (found !== undefined) return found;
    }
  }
  return filter.kind === 'term' && filter.op === 'eq' && filter.field.name === name && typeof filter.value === 'string'
    ? filter.value
    : undefined;
}
