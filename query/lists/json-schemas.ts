/** What the routes of a resource take and answer, as JSON Schema for OpenAPI. */
import { isSortable, type Field, type FieldType } from './field.ts';
import { operatorsOf } from './filter.ts';
import { canFilter } from './list-request.ts';
import type { Resource } from './resource.ts';

type Schema = Record<string, unknown>;

const LONG = { type: 'string', pattern: '^-?\\d+$' } as const;
const FLOAT_LITERAL = { type: 'object', properties: { $float: { enum: ['NaN', 'Infinity', '-Infinity'] } }, required: ['$float'] } as const;
const TYPES: Readonly<Record<FieldType, readonly Schema[]>> = {
  string: [{ type: 'string' }],
  json: [{ type: 'string' }],
  int: [{ type: 'integer' }],
  long: [LONG],
  time: [LONG],
  float: [{ type: 'number' }, FLOAT_LITERAL],
  bool: [{ type: 'boolean' }],
  strings: [{ type: 'array', items: { type: 'string' } }],
  floats: [{ type: 'array', items: { type: 'number' } }],
  ints: [{ type: 'array', items: { type: 'integer' } }],
  records: [{ type: 'array', items: { type: 'object', additionalProperties: true } }],
};

const counts = (...names: string[]): Schema => Object.fromEntries(names.map((name) => [name, LONG]));
const END = { anyOf: [{ type: 'number' }, LONG, FLOAT_LITERAL, { type: 'null' }] };
const HISTOGRAM: Schema = {
  title: 'Histogram',
  oneOf: [
    {
      type: 'object',
      properties: {
        kind: { const: 'numbers' },
        ...counts('nulls', 'nan', 'infinity', 'minusInfinity'),
        min: END,
        max: END,
        bins: { type: 'array', items: LONG },
      },
      required: ['kind', 'nulls', 'nan', 'infinity', 'minusInfinity', 'min', 'max', 'bins'],
    },
    {
      type: 'object',
      properties: {
        kind: { const: 'values' },
        ...counts('nulls', 'distinct', 'others'),
        values: {
          type: 'array',
          items: {
            type: 'object',
            properties: { value: { anyOf: [{ type: 'string' }, { type: 'boolean' }] }, count: LONG },
            required: ['value', 'count'],
          },
        },
      },
      required: ['kind', 'nulls', 'distinct', 'values', 'others'],
    },
  ],
};

export function fieldSchema({ type, nullable, about, unit }: Field): Schema {
  const forms = [...TYPES[type], ...(nullable ? [{ type: 'null' }] : [])];
  const description = [about, unit ?? '', type === 'time' ? 'microseconds since 1970 UTC' : ''].filter((part) => part !== '').join('; ');
  return forms.length === 1 ? { ...forms[0], description } : { anyOf: forms, description };
}

/** What the names of further fields begin with, before the dot. */
function namedPrefixes({ rewards, metrics }: Resource): string[] {
  return [...(rewards === null ? [] : ['reward']), ...(metrics === null ? [] : ['metric'])];
}

function rowSchema(resource: Resource, { isWhole }: { readonly isWhole: boolean }): Schema {
  const named = namedPrefixes(resource);
  return {
    type: 'object',
    properties: Object.fromEntries(resource.fields.map((field) => [field.name, fieldSchema(field)])),
    ...(isWhole ? { required: resource.fields.map((field) => field.name) } : {}),
    ...(named.length > 0 ? { additionalProperties: { anyOf: [...TYPES.float, { type: 'null' }] }, 'x-named-fields': named } : {}),
  };
}

const text = (description: string): Schema => ({ type: 'string', description });

const SHARED: Schema = {
  project: text('Tenant; `default` when absent.'),
  asOf: text('See docs/rest.md: a position, `latest`, or a time.'),
};

export function listSchema(resource: Resource): Schema {
  const filters = canFilter(resource).map((field) => {
    const operators = operatorsOf(field).filter((op) => op !== 'eq');
    // the operators again for programs: a parameter per operator would make the document ten times as long
    return [field.name, { ...text(`${field.about} (also ${operators.map((op) => `[${op}]`).join(' ')})`), 'x-operators': operators }];
  });
  return {
    operationId: `list_${resource.name}`,
    summary: `List ${resource.name}`,
    description: resource.about,
    tags: ['query'],
    'x-named-fields': namedPrefixes(resource),
    querystring: {
      type: 'object',
      properties: {
        ...SHARED,
        sort: text(`Fields, a leading minus is descending: ${resource.fields.filter(isSortable).map((f) => f.name).join(', ')}.`),
        limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
        cursor: text('`next` of the page before, or a marker.'),
        fields: text('Fields to answer, separated by commas; `*` stands for the usual ones.'),
        filter: text('Conditions as JSON; see docs/rest.md.'),
        count: { type: 'string', enum: ['none', 'bounded', 'exact'] },
        markers: { type: 'integer', minimum: 0, maximum: 5000, description: 'About so many cursors at even distances.' },
        histograms: text('Fields, separated by commas.'),
        ...Object.fromEntries(filters),
      },
    },
    response: { 200: listAnswerSchema(resource) },
  };
} // prettier-ignore

function listAnswerSchema(resource: Resource): Schema {
  const count = { type: 'object', properties: { value: LONG, exact: { type: 'boolean' } }, required: ['value', 'exact'] };
  return {
    description: `A page of ${resource.name}`,
    type: 'object',
    required: ['asOf', 'rows', 'next'],
    properties: {
      asOf: text('The log position the answer is true of.'),
      count,
      rows: { type: 'array', items: rowSchema(resource, { isWhole: false }) },
      next: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      markers: {
        type: 'object',
        properties: { total: LONG, step: LONG, cursors: { type: 'array', items: { type: 'string' } } },
        required: ['total', 'step', 'cursors'],
      },
      histograms: { type: 'object', additionalProperties: HISTOGRAM },
    },
  };
}

export function oneSchema(resource: Resource, path: string): Schema {
  const ids = [...path.matchAll(/:(\w+)/g)].map((match) => match[1] as string);
  const more = resource.key.filter((name) => !ids.includes(name));
  const about = (name: string): string => resource.fields.find((field) => field.name === name)?.about ?? name;
  return {
    operationId: `get_${resource.name}`,
    summary: `Fetch one ${resource.one}`,
    tags: ['query'],
    params: { type: 'object', properties: Object.fromEntries(ids.map((name) => [name, text(about(name))])), required: ids },
    querystring: {
      type: 'object',
      properties: {
        ...SHARED,
        fields: text('Named rewards and metrics wanted besides all fields.'),
        ...Object.fromEntries(more.map((name) => [name, text(`${about(name)}; needed when several have the id`)])),
      },
    },
    response: {
      200: {
        description: `One ${resource.one}`,
        type: 'object',
        required: ['asOf', 'row'],
        properties: { asOf: text('The log position the answer is true of.'), row: rowSchema(resource, { isWhole: true }) },
      },
    },
  };
}
