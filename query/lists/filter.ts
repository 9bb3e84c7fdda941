/**
 * Filters of a list, from `?field=value`, `?field[op]=value` and `?filter=<JSON>`. The JSON is an object of fields, each with a value or an object of operators, and of
 * `and`, `or` (lists) and `not`. Every comparison is true or false, never unknown: null equals nothing, `ne` and `nin` hold for null, an order holds for no null and no NaN.
 */
import { TapedeckError } from '../../base/errors.ts';
import { isFilterable, type Field } from './field.ts';
import { readValue, type FilterValue } from './filter-value.ts';
import { namedField } from './named-field.ts';
import { fieldOf, type Resource } from './resource.ts';

export const OPERATORS = ['eq', 'ne', 'lt', 'le', 'gt', 'ge', 'in', 'nin', 'contains', 'icontains', 'starts', 'null', 'nan'] as const;
export type Operator = (typeof OPERATORS)[number];

export type Filter =
  | { readonly kind: 'and' | 'or'; readonly parts: readonly Filter[] }
  | { readonly kind: 'not'; readonly part: Filter }
  | { readonly kind: 'term'; readonly field: Field; readonly op: Operator; readonly value: FilterValue | readonly FilterValue[] };

const MAX_TERMS = 200;
const MAX_DEPTH = 16;
const MAX_LIST = 1_000;

const ORDER = ['lt', 'le', 'gt', 'ge'] as const;
const SOME = ['eq', 'ne', 'in', 'nin', 'null'] as const;
const ALLOWED: Readonly<Record<string, readonly Operator[]>> = {
  string: [...SOME, ...ORDER, 'contains', 'icontains', 'starts'],
  int: [...SOME, ...ORDER],
  long: [...SOME, ...ORDER],
  time: [...SOME, ...ORDER],
  float: [...SOME, ...ORDER, 'nan'],
  bool: [...SOME],
  strings: ['contains'],
};

/** The operators a field understands. */
export function operatorsOf(field: Field): readonly Operator[] {
  return isFilterable(field) ? (ALLOWED[field.type] ?? []) : [];
}

/** A field by its name, `reward.<name>` and `metric.<name>` included. Problems are `invalid_filter` and name the field. */
export function findField(resource: Resource, name: string): Field {
  const field = fieldOf(resource, name) ?? namedField(resource, name);
  if (field === undefined)
    throw invalid(name, `${resource.name} have no such field; they have ${resource.fields.map((f) => f.name).join(', ')}`);
  return field;
}

/** Reads the parameters that are not settings of the list. */
export function readFilter(resource: Resource, query: Readonly<Record<string, unknown>>, json: string | undefined): Filter {
  const counter = { terms: 0 };
  const parts: Filter[] = [];
  for (const [key, value] of Object.entries(query)) {
    const { name, op } = splitKey(key);
    const field = findField(resource, name);
    for (const one of isListOperator(op) || !Array.isArray(value) ? [value] : (value as unknown[]))
      parts.push(term(field, op, one, counter));
  }
  if (json !== undefined) parts.push(readObject(resource, parseJson(json), counter, 0));
  return { kind: 'and', parts };
}

/** `field[op]`; a name that itself ends in brackets is written in JSON. */
function splitKey(key: string): { name: string; op: Operator } {
  const match = /^(.+)\[(\w+)\]$/su.exec(key);
  if (match !== null && isOperator(match[2] as string)) return { name: match[1] as string, op: match[2] as Operator };
  return { name: key, op: 'eq' };
}

function isOperator(text: string): text is Operator {
  return (OPERATORS as readonly string[]).includes(text);
}

function isListOperator(op: Operator): boolean {
  return op === 'in' || op === 'nin';
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid('filter', `is no JSON: ${(error as Error).message}`);
  }
}

type Counter = { terms: number };

function readObject(resource: Resource, value: unknown, counter: Counter, depth: number): Filter {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('filter', 'must be an object of fields');
  if (depth > MAX_DEPTH) throw invalid('filter', `is nested more than ${MAX_DEPTH} deep`);
  const parts: Filter[] = [];
  for (const [key, inner] of Object.entries(value)) {
    if (key === 'and' || key === 'or') {
      if (!Array.isArray(inner)) throw invalid(key, 'must be a list of filters');
      parts.push({ kind: key, parts: inner.map((part: unknown) => readObject(resource, part, counter, depth + 1)) });
    } else if (key === 'not') parts.push({ kind: 'not', part: readObject(resource, inner, counter, depth + 1) });
    else parts.push(...readField(findField(resource, key), inner, counter));
  }
  return { kind: 'and', parts };
}

function readField(field: Field, value: unknown, counter: Counter): Filter[] {
  const isOperators = typeof value === 'object' && value !== null && !Array.isArray(value) && !('$float' in value);
  if (!isOperators) return [term(field, value === null ? 'null' : 'eq', value === null ? true : value, counter)];
  const entries = Object.entries(value);
  if (entries.length === 0) throw invalid(field.name, 'has no operator');
  return entries.map(([op, operand]) => {
    if (!isOperator(op)) throw invalid(field.name, `knows no operator ${JSON.stringify(op)}`);
    return term(field, op, operand, counter);
  });
}

function term(field: Field, op: Operator, value: unknown, counter: Counter): Filter {
  if (++counter.terms > MAX_TERMS) throw invalid('filter', `has more than ${MAX_TERMS} terms`);
  if (!operatorsOf(field).includes(op)) {
    const known = operatorsOf(field);
    throw invalid(field.name, known.length === 0 ? 'cannot be filtered' : `does not know ${op}; it knows ${known.join(', ')}`);
  }
  if (op === 'null' || op === 'nan') return { kind: 'term', field, op, value: valueOf('bool', field.name, value) };
  if (op === 'in' || op === 'nin') {
    const list = Array.isArray(value) ? (value as unknown[]) : [value];
    if (list.length > MAX_LIST) throw invalid(field.name, `has a list of more than ${MAX_LIST} values`);
    return { kind: 'term', field, op, value: list.map((one) => valueOf(field.type, field.name, one)) };
  }
  const read = valueOf(field.type === 'strings' ? 'string' : field.type, field.name, value);
  if (typeof read === 'number' && Number.isNaN(read) && op !== 'eq' && op !== 'ne') throw invalid(field.name, `nothing is ${op} NaN`);
  return { kind: 'term', field, op, value: read };
}

function valueOf(type: Field['type'], name: string, value: unknown): FilterValue {
  const read = readValue(type, value);
  if (!read.ok) throw invalid(name, read.error);
  return read.value;
}

export function invalid(field: string, problem: string): TapedeckError {
  const shown = field.slice(0, 100);
  return new TapedeckError('invalid_filter', `${shown}: ${problem}`, { details: { field: shown } });
}
