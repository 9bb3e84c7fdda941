/** A list as asked for, checked: what every part of the answer is computed from. */
import type { LogPosition } from '../positions/log-position.ts';
import { cursorText, noCursor, readCursor, type Cursor, type QueryIdentity } from './cursor.ts';
import { isFilterable, type Field } from './field.ts';
import { findField, readFilter, type Filter } from './filter.ts';
import type { Resource } from './resource.ts';
import { fitsKeys, readSort, sortText, type KeyValue, type SortKey } from './sort.ts';

export type CountMode = 'none' | 'bounded' | 'exact';

export type ListRequest = {
  readonly resource: Resource;
  readonly project: string;
  readonly filter: Filter;
  readonly sort: readonly SortKey[];
  readonly identity: QueryIdentity;
  readonly fields: readonly Field[];
  readonly limit: number;
  readonly cursor: Cursor | null;
  readonly count: CountMode;
  readonly markers: number;
  readonly histograms: readonly Field[];
};

export type ListSettings = {
  readonly project: string;
  readonly sort?: string | undefined;
  readonly limit: number;
  readonly cursor?: string | undefined;
  readonly fields?: string | undefined;
  readonly filter?: string | undefined;
  readonly count?: CountMode | undefined;
  readonly markers?: number | undefined;
  readonly histograms?: string | undefined;
};

/** `filters` are the parameters that are fields. Problems are `invalid_filter`, `invalid_cursor` and `bad_request`. */
export function readListRequest(resource: Resource, settings: ListSettings, filters: Readonly<Record<string, unknown>>): ListRequest {
  const filter = readFilter(resource, filters, settings.filter);
  const sort = readSort(resource, settings.sort);
  const identity = { resource: resource.name, project: settings.project, filter: identityOf(filter), sort: sortText(sort) };
  const cursor = settings.cursor === undefined ? null : readCursor(settings.cursor, identity, sort.length);
  if (cursor !== null && !fitsKeys(sort, cursor.after)) throw noCursor();
  return {
    resource,
    project: settings.project,
    filter,
    sort,
    identity,
    fields: readFields(resource, settings.fields),
    limit: settings.limit,
    cursor,
    count: settings.count ?? (cursor === null ? 'bounded' : 'none'),
    markers: settings.markers ?? 0,
    histograms: names(settings.histograms).map((name) => findField(resource, name)),
  };
}

/** The same text for the same filter, however it was written. */
function identityOf(filter: Filter): string {
  switch (filter.kind) {
    case 'not':
      return `not(${identityOf(filter.part)})`;
    case 'and':
    case 'or':
      if (filter.parts.length === 1) return identityOf(filter.parts[0] as Filter);
      return `${filter.kind}(${filter.parts.map(identityOf).toSorted().join(',')})`;
    case 'term': {
      const { value } = filter;
      return JSON.stringify([filter.field.name, filter.op, (Array.isArray(value) ? value : [value]).map(String)]);
    }
  }
}

/** Those named, or all that are neither wide nor joined. `*` stands for these, so that others can be added to them. */
function readFields(resource: Resource, text: string | undefined): Field[] {
  const usual = resource.fields.filter(({ wide, join }) => !wide && join === undefined);
  if (text === undefined) return usual;
  const found = names(text).flatMap((name) => (name === '*' ? usual : [findField(resource, name)]));
  return [...new Map(found.map((field) => [field.name, field])).values()];
}

/** Every field, for one row. */
export function allFields(resource: Resource): readonly Field[] {
  return resource.fields;
}

function names(text: string | undefined): string[] {
  return text === undefined || text === '' ? [] : text.split(',');
}

export function cursorAfter(request: ListRequest, position: LogPosition, after: readonly KeyValue[]): string {
  return cursorText(request.identity, position, after);
}

export function canFilter(resource: Resource): readonly Field[] {
  return resource.fields.filter(isFilterable);
}
