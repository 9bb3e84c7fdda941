import { AGGREGATE_FUNCTIONS } from './allowed-aggregates.ts';
import { SCALAR_FUNCTIONS } from './allowed-functions.ts';
import { has } from './function-name-list.ts';
import { REFUSED_FUNCTIONS } from './refused-functions.ts';

/** Forms that look like functions in a syntax tree but are part of the language. */
const LANGUAGE = new Set(['lambda', 'exists', 'grouping', 'untuple']);

/** Suffixes that make a new aggregate function from another (system.aggregate_function_combinators). */
const COMBINATORS = [
  'SimpleState', 'OrDefault', 'Distinct', 'Resample', 'ForEach', 'ArgMax', 'ArgMin', 'OrNull', 'Tuple', 'Merge', 'State', 'Array', 'Null', 'Map', 'If',
] as const; // prettier-ignore

/** Null when the function may be called, else why not. */
export function refusalOfFunction(name: string): string | null {
  if (LANGUAGE.has(name) || has(SCALAR_FUNCTIONS, name) || isAggregate(name)) return null;
  return REFUSED_FUNCTIONS.get(name.toLowerCase()) ?? 'is unknown to the reviewed engine version';
}

function isAggregate(name: string): boolean {
  if (has(AGGREGATE_FUNCTIONS, name)) return true;
  const suffix = COMBINATORS.find((combinator) => name.length > combinator.length && name.endsWith(combinator));
  return suffix !== undefined && isAggregate(name.slice(0, -suffix.length));
}
