/** What a field of a resource is. Lists, filters, validation, OpenAPI and docs/rest.md all derive from these. */
import type { View, ViewColumn } from '../../store/columns/views/view.ts';

/**
 * `int` fits 32 bits and is a JSON number; `long` is a 64-bit integer and a JSON string, as is `time` (microseconds since 1970 UTC); `float` is any double, those that JSON
 * lacks as `{"$float": "NaN"}`; `json` is JSON text as the producer sent it; `strings` is a list.
 */
export type FieldType = 'string' | 'int' | 'long' | 'float' | 'bool' | 'time' | 'strings' | 'json' | 'floats' | 'ints' | 'records';

/** A relation that is joined only when a query uses a field of it. */
export type JoinName = 'agent' | 'training';

export type Field = {
  readonly name: string;
  readonly type: FieldType;
  readonly nullable: boolean;
  readonly about: string;
  readonly unit?: string;
  /** The expression over the view, whose alias is `v`, or over the join it names. */
  readonly sql: string;
  readonly join?: JoinName;
  /** Wide columns are read only when asked for by name, or when one row is fetched. */
  readonly wide: boolean;
};

const SCALARS: ReadonlySet<FieldType> = new Set(['string', 'int', 'long', 'float', 'bool', 'time']);

export function isSortable({ type, wide }: Field): boolean {
  return SCALARS.has(type) && !wide;
}

export function isFilterable({ type, wide }: Field): boolean {
  return type === 'strings' || (SCALARS.has(type) && !wide);
}

/** Fields under the names of view columns, with their meaning. A type that ends in `?` may be null, one that begins with `+` is wide. */
export function fieldsOf(view: View, types: Readonly<Record<string, string>>): Field[] {
  return Object.entries(types).map(([name, text]) => {
    const column = view.columns.find((c) => c.name === name);
    if (column === undefined) throw new Error(`the view ${view.name} has no column ${name}`);
    return {
      name,
      ...typeOf(text),
      about: column.meaning,
      ...unitOf(column, text),
      sql: `v.\`${name}\``,
    };
  });
}

/** Times are numbers of microseconds here, as their type says. */
function unitOf({ unit }: ViewColumn, type: string): { unit?: string } {
  return unit === undefined || unit === 'none' || type.startsWith('time') ? {} : { unit };
}

/** A field that is computed, or taken from a join. */
export function computed(name: string, type: string, sql: string, about: string, more: { unit?: string; join?: JoinName } = {}): Field {
  return { name, ...typeOf(type), about, sql, ...more };
}

function typeOf(text: string): { type: FieldType; nullable: boolean; wide: boolean } {
  return { type: text.replaceAll(/[+?]/g, '') as FieldType, nullable: text.endsWith('?'), wide: text.startsWith('+') };
}
